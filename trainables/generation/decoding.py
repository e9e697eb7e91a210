"""Drawing texts from a language model: plain sampling and multinomial beam search.

As in the paper (Mireshghallah et al. 2022, with transformers 4.10): `top_k` 50 of the scores,
temperature 1, width 1 is plain sampling. At width W each step draws 2 W of the W x V continuations
without replacement from the softmax of summed log-probabilities and keeps the best W that do not
end. A text that ended competes by its log-probability over its length. All texts process position
t together: longer prompts are still read while other texts are drawn, and finished texts are
removed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

_BATCH = 256  # texts drawn at once; does not change the result's law


class LanguageModel(Protocol):
    """A model to draw from: `begin` gives an object with `read` and `keep` (see `CausalLm`)."""

    def begin(self, num_rows: int, max_tokens: int) -> Any:
        """A decoding of `num_rows` texts at once."""


@dataclass(frozen=True, kw_only=True)
class Decoding:
    """How texts are drawn; `max_tokens` counts the opening, `end` is the id that ends a text."""

    end: int
    max_tokens: int
    num_beams: int = 1
    top_k: int = 50
    temperature: float = 1.0


def draw(
    model: LanguageModel,
    openings: Sequence[Sequence[int]],
    how: Decoding,
    *,
    seed: int,
) -> list[list[int]]:
    """One text behind each opening (ids that are given), without opening and end.

    A text that does not end within `max_tokens` is cut there. Repeatable by `seed`.
    """
    texts: list[list[int]] = [[] for _ in openings]
    # Openings of like length together; the order is put back.
    order = np.argsort([len(opening) for opening in openings], kind="stable")
    for low in range(0, len(order), _BATCH):
        places = order[low : low + _BATCH].tolist()
        random = torch.Generator().manual_seed((seed + low) % 2**63)
        part = [list(openings[place]) for place in places]
        run = _sample if how.num_beams == 1 else _beams
        for place, text in zip(places, run(model, part, how, random), strict=True):
            texts[place] = text
    return texts


def _sample(
    model: LanguageModel, openings: list[list[int]], how: Decoding, random: torch.Generator
) -> list[list[int]]:
    lengths = torch.tensor([len(opening) for opening in openings])
    given = _table(openings)
    limit = max(how.max_tokens, int(lengths.max()) + 1)
    going = model.begin(len(openings), limit)
    alive = torch.arange(len(openings))
    now = given[:, 0]
    texts: list[list[int]] = [[] for _ in openings]
    for time in range(1, limit):
        scores = going.read(now).float().cpu() / how.temperature
        likely = _top(scores, how.top_k).softmax(1)
        now = torch.multinomial(likely, 1, generator=random).squeeze(1)
        prompted = time < lengths[alive]
        if bool(prompted.any()):
            column = given[alive, min(time, given.shape[1] - 1)]
            now = torch.where(prompted, column, now)
        ended = ~prompted & (now == how.end)
        for row, token in zip(alive[~prompted & ~ended], now[~prompted & ~ended], strict=True):
            texts[int(row)].append(int(token))
        if bool(ended.any()):
            keep = (~ended).nonzero().squeeze(1)
            if not len(keep):
                break
            going.keep(keep)
            alive, now = alive[keep], now[keep]
    return texts


def _beams(
    model: LanguageModel, openings: list[list[int]], how: Decoding, random: torch.Generator
) -> list[list[int]]:
    width, number = how.num_beams, len(openings)
    lengths = torch.tensor([len(opening) for opening in openings])
    given = _table(openings)
    limit = max(how.max_tokens, int(lengths.max()) + 1)
    going = model.begin(number * width, limit)
    alive = torch.arange(number)
    now = given[:, 0].repeat_interleave(width)
    scores = torch.zeros(number, width)
    drawn = torch.full((number, width, limit), how.end)  # the ids after the openings
    finished: list[list[tuple[float, list[int]]]] = [[] for _ in openings]
    for time in range(1, limit):
        logits = going.read(now).float().cpu()
        prompted = time < lengths[alive]
        parent = torch.arange(width).expand(len(alive), width)
        token = given[alive, min(time, given.shape[1] - 1)].unsqueeze(1).expand(-1, width)
        if not bool(prompted.all()):
            best = _continue(logits.view(len(alive), width, -1), scores, how, random)
            for place in (~prompted).nonzero().squeeze(1).tolist():
                row = int(alive[place])
                begun = time - int(lengths[row])
                _finish(best, place, drawn[place, :, :begun], finished[row], how)
            parent = torch.where(prompted.unsqueeze(1), parent, best.parent)
            token = torch.where(prompted.unsqueeze(1), token, best.token)
            scores = torch.where(prompted.unsqueeze(1), scores, best.score)
            drawn = drawn.gather(1, parent.unsqueeze(2).expand(-1, -1, limit)).clone()
            begun_at = (time - lengths[alive]).clamp(min=0)
            drawn.scatter_(2, begun_at.view(-1, 1, 1).expand(-1, width, 1), token.unsqueeze(2))
        done = torch.tensor(
            [
                _is_done(finished[row], scores[place], time - int(lengths[row]) + 1, width)
                for place, row in enumerate(alive.tolist())
            ]
        )
        keep = (~done).nonzero().squeeze(1)
        if not len(keep):
            alive = alive[:0]
            break
        source = (keep.unsqueeze(1) * width + parent[keep]).flatten()
        going.keep(source)
        alive, scores, drawn = alive[keep], scores[keep], drawn[keep]
        now = token[keep].flatten()
    for place, row in enumerate(alive.tolist()):  # cut at the limit
        size = limit - int(lengths[row])
        for beam in range(width):
            text = drawn[place, beam, :size].tolist()
            finished[row].append((float(scores[place, beam]) / max(1, size), text))
    return [max(found, key=lambda each: each[0])[1] for found in finished]


@dataclass(frozen=True, eq=False)
class _Step:
    """For each text its W going beams, and all 2 W that were drawn, the best first."""

    parent: Tensor
    token: Tensor
    score: Tensor
    drawn_parent: Tensor
    drawn_token: Tensor
    drawn_score: Tensor


def _continue(logits: Tensor, scores: Tensor, how: Decoding, random: torch.Generator) -> _Step:
    """`logits` [R, W, V], `scores` [R, W]: log-probabilities so far."""
    number, width, size = logits.shape
    summed = logits.log_softmax(2) + scores.unsqueeze(2)
    kept = _top(summed.view(number * width, size), how.top_k) / how.temperature
    flat = kept.view(number, width * size)
    # Of 2 W draws without replacement at most W end, one for each beam: W are left to go on.
    noise = -torch.empty(flat.shape).exponential_(generator=random).log()
    places = (flat.log_softmax(1) + noise).topk(2 * width, dim=1).indices
    drawn = summed.view(number, -1).gather(1, places)
    drawn, order = drawn.sort(dim=1, descending=True)
    places = places.gather(1, order)
    parents, tokens = places // size, places % size
    going = (tokens == how.end).long().argsort(dim=1, stable=True)[:, :width]
    return _Step(
        parent=parents.gather(1, going),
        token=tokens.gather(1, going),
        score=drawn.gather(1, going),
        drawn_parent=parents,
        drawn_token=tokens,
        drawn_score=drawn,
    )


def _finish(
    step: _Step, place: int, before: Tensor, found: list[tuple[float, list[int]]], how: Decoding
) -> None:
    """Record the beams that end here and are among the best W; at most W are kept."""
    width = how.num_beams
    ends = (step.drawn_token[place, :width] == how.end).nonzero().squeeze(1).tolist()
    for rank in ends:
        score = float(step.drawn_score[place, rank])
        text = before[int(step.drawn_parent[place, rank])].tolist()
        found.append((score / (len(text) + 1), text))
    found.sort(key=lambda each: -each[0])
    del found[width:]


def _is_done(found: list[tuple[float, list[int]]], scores: Tensor, length: int, width: int) -> bool:
    """W texts have ended and no beam that goes on is better at its present length."""
    if len(found) < width:
        return False
    return min(score for score, _ in found) >= float(scores.max()) / max(1, length)


def _top(scores: Tensor, number: int) -> Tensor:
    """The scores with all but the `number` largest of each row set to minus infinity."""
    if number >= scores.shape[1]:
        return scores
    least = scores.topk(number, dim=1).values[:, -1:]
    return scores.masked_fill(scores < least, -torch.inf)


def _table(openings: list[list[int]]) -> Tensor:
    """[R, longest], filled up with 0."""
    return pad_sequence([torch.tensor(opening) for opening in openings], batch_first=True)
