"""Greedy decoding of prefix programs: the likeliest token that keeps the program completable."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from trainables.models._parser_vocabulary import Vocabulary
from trainables.models.parser import ParserModel
from trainables.parse.prefix_state import SLOTS, PrefixState


@dataclass(slots=True)
class _Row:
    """One program while it is written."""

    state: PrefixState = field(default_factory=PrefixState)
    ids: list[int] = field(default_factory=list)
    places: int = 0  # of a copy whose places are still to be chosen


@torch.no_grad()
def greedy(
    model: ParserModel,
    vocabulary: Vocabulary,
    words: Tensor,
    padding: Tensor,
    *,
    max_length: int,
) -> list[list[int]]:
    """Ids of a whole program of at most `max_length` choices for each row of `words` [B, S]."""
    states = model.encode(words, padding)
    rows = [_Row() for _ in words]
    rules = _Rules(vocabulary, max_length)
    active = list(range(len(rows)))
    inputs = torch.zeros(len(rows), 0, dtype=torch.long)
    while active:
        found = model(states[active], padding[active], inputs[active], model.start(len(active)))
        allowed = torch.stack([rules.allowed(rows[row], int(words.shape[1])) for row in active])
        best = found[:, -1].masked_fill(~allowed, -torch.inf).argmax(dim=1)
        step = torch.zeros(len(rows), 1, dtype=torch.long)
        step[active, 0] = best
        inputs = torch.cat([inputs, step], dim=1)
        for row, choice in zip(active, best.tolist(), strict=True):
            rules.write(rows[row], choice)
        active = [row for row in active if rows[row].places or rows[row].state.pending]
    return [row.ids for row in rows]


class _Rules:
    """The allowed next choices of each row, [tokens + places]."""

    def __init__(self, vocabulary: Vocabulary, max_length: int) -> None:
        self._vocabulary = vocabulary
        self._max_length = max_length
        self._fits = {slot: torch.tensor(vocabulary.fits[slot]) for slot in SLOTS}
        # Further choices that a token requires: its parts, or the places of a copy.
        copies = [2 * vocabulary.is_copy(index) for index in range(len(vocabulary.tokens))]
        self._cost = torch.tensor(vocabulary.arities) + torch.tensor(copies)

    def allowed(self, row: _Row, num_places: int) -> Tensor:
        """The last place of a copy is not before its first. The model masks padded places."""
        num_tokens = len(self._vocabulary.tokens)
        tokens = torch.zeros(num_tokens, dtype=torch.bool)
        places = torch.zeros(num_places, dtype=torch.bool)
        if row.places:
            places[row.ids[-1] - num_tokens if row.places == 1 else 0 :] = True
        else:
            left = self._max_length - len(row.ids)
            tokens = self._fits[row.state.slot] & (self._cost <= left - row.state.pending)
        return torch.cat([tokens, places])

    def write(self, row: _Row, choice: int) -> None:
        """Record a choice."""
        row.ids.append(choice)
        if row.places:
            row.places -= 1
            return
        self._vocabulary.write(row.state, choice)
        if self._vocabulary.is_copy(choice):
            row.places = 2
