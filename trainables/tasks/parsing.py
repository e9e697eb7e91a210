"""Parsers from utterances to programs, trained on pairs.

One class serves both roles: the low-resource parser of public pairs that parses private
utterances, and the high-resource one that measures generated text. Training is not
private, so a parser of private pairs must not be released. Ten thousand pairs take
minutes on one thread.
"""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np
import torch
import torch.nn.functional as F
from pydantic import ConfigDict, TypeAdapter
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from trainables.data.corpus import make_once
from trainables.data.pairs import PairCorpus
from trainables.dp.seeding import generator, stream_seed, torch_seeded
from trainables.errors import InvalidData, InvalidInput
from trainables.io.documents import digest_of
from trainables.io.files import dump_json, read_written_json
from trainables.metrics import parsing as scores
from trainables.models.parser.model import ParserModel, ParserSizes
from trainables.models.parser.vocabulary import Literals, Source, Vocabulary
from trainables.parse.linearise import SLOTS, PrefixState, anonymise
from trainables.parse.lispress import LispressError
from trainables.parse.match import Program


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
    """Ids of a whole program of at most `max_length` choices for each row of `words`
    [B, S].
    """
    states = model.encode(words, padding)
    rows = [_Row() for _ in words]
    rules = _Rules(vocabulary, max_length)
    active = list(range(len(rows)))
    inputs = torch.zeros(len(rows), 0, dtype=torch.long)
    while active:
        found = model(states[active], padding[active], inputs[active])
        allowed = torch.stack(
            [rules.allowed(rows[row], int(words.shape[1])) for row in active]
        )
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
        self._cost = torch.tensor(vocabulary.costs)

    def allowed(self, row: _Row, num_places: int) -> Tensor:
        """The last place of a copy is not before its first. The model masks padded
        places.
        """
        num_tokens = len(self._vocabulary.tokens)
        found = torch.zeros(num_tokens + num_places, dtype=torch.bool)
        if row.places:
            found[row.ids[-1] if row.places == 1 else num_tokens :] = True
        else:
            left = self._max_length - len(row.ids) - row.state.pending
            found[:num_tokens] = self._fits[row.state.slot] & (self._cost <= left)
        return found

    def write(self, row: _Row, choice: int) -> None:
        """Record a choice."""
        row.ids.append(choice)
        if row.places:
            row.places -= 1
            return
        self._vocabulary.write(row.state, choice)
        if self._vocabulary.is_copy(choice):
            row.places = 2


_FILES = ("parser.json", "weights.safetensors")
_PROGRAMS = "programs.json"  # of a folder of the cache
_AT_ONCE = 64  # utterances that are parsed together
_BUCKET = 50  # batches that are sorted by length together


@dataclass(frozen=True, kw_only=True)
class ParserSettings:
    """The settings of a parser and its training.

    `literals` "anon" writes no values of strings and numbers, "copy" takes them from
    the utterance.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")
    literals: Literals = "copy"
    sizes: ParserSizes = field(default_factory=ParserSizes)
    epochs: int = 16
    batch_size: int = 64
    learning_rate: float = 1e-3
    warmup_steps: int = 300
    max_grad_norm: float = 1.0
    max_length: int = 120  # tokens of a program that is written


@dataclass(frozen=True)
class Parser:
    """A trained parser: its model in eval mode, the vocabulary and the settings.
    `trained_on` is its provenance: the name of its pairs and a seed. It reveals its
    training pairs, so it may be released only where these are public.
    """

    model: ParserModel
    vocabulary: Vocabulary
    settings: ParserSettings
    trained_on: dict[str, str | int]

    def parse(self, utterances: Sequence[str]) -> list[str]:
        """A program for each utterance alone, well-formed by construction.

        An utterance longer than the vocabulary's `MAX_PIECES` is truncated.
        """
        found = [""] * len(utterances)
        sources = [self.vocabulary.source(utterance) for utterance in utterances]
        order = sorted(range(len(sources)), key=lambda index: len(sources[index].ids))
        self.model.eval()
        for low in range(0, len(order), _AT_ONCE):
            ids = order[low : low + _AT_ONCE]
            batch = [sources[index] for index in ids]
            words, padding = collate(batch)
            longest = self.settings.max_length
            written = greedy(
                self.model, self.vocabulary, words, padding, max_length=longest
            )
            for index, source, tokens in zip(ids, batch, written, strict=True):
                found[index] = self.vocabulary.program(tokens, source)
        return found

    def save(self, folder: Path) -> None:
        """Write the parser as a folder: JSON and safetensors.

        Raises: InvalidInput where `folder` exists and is not empty.
        """
        if folder.exists() and any(folder.iterdir()):
            raise InvalidInput(f"expected a new or empty folder, got {folder}")
        folder.mkdir(parents=True, exist_ok=True)
        about = _About(1, self.settings, self.vocabulary, self.trained_on)
        dump_json(folder / _FILES[0], asdict(about))
        save_file(self.model.state_dict(), str(folder / _FILES[1]))


@dataclass(frozen=True)
class _About:
    """What a saved parser says of itself."""

    format: Literal[1]
    settings: ParserSettings
    vocabulary: Vocabulary
    trained_on: dict[str, str | int]


def load_parser(folder: Path) -> Parser:
    """The parser in a folder that `Parser.save` wrote, ready to parse; it writes the
    same programs as the one that was saved.

    Raises: InvalidData for a folder that holds none, one of another version, or a
    damaged one.
    """
    try:
        written = read_written_json(folder / _FILES[0])
        tensors = load_file(str(folder / _FILES[1]))
    except (OSError, InvalidData, ValueError, SafetensorError):
        raise InvalidData(
            f"expected a saved parser ({' and '.join(_FILES)}) in {folder}"
        ) from None
    try:
        about = TypeAdapter(_About).validate_python(written)
        if not all(tensor.isfinite().all() for tensor in tensors.values()):
            raise ValueError
        model = _model(about.settings, about.vocabulary, seed=0)
        model.load_state_dict(tensors)
        trained_on = {name: about.trained_on[name] for name in ("name", "seed")}
        return Parser(model.eval(), about.vocabulary, about.settings, trained_on)
    except (AssertionError, KeyError, ValueError, RuntimeError):
        raise InvalidData(
            f"expected a parser of this version in {folder}, got another or a damaged"
            " one"
        ) from None


def train_parser(
    pairs: PairCorpus,
    *,
    settings: ParserSettings | None = None,
    seed: int,
    report: Callable[[int, float], None] | None = None,
) -> Parser:
    """A parser trained on all of `pairs`; `report(epoch, mean loss)` after each epoch.

    Same pairs, settings and seed on the same machine give the same parser.

    Raises: InvalidInput where pairs lack programs, or a program is malformed.
    """
    settings = settings or ParserSettings()
    if not pairs.has_programs:
        raise InvalidInput(
            f"expected a program for every training pair of {pairs.name}, some have"
            " none"
        )
    try:
        vocabulary = Vocabulary.of(
            pairs.utterances, pairs.programs, literals=settings.literals
        )
        sources = [vocabulary.source(utterance) for utterance in pairs.utterances]
        targets = [
            vocabulary.target(program, source)
            for program, source in zip(pairs.programs, sources, strict=True)
        ]
    except LispressError as error:
        raise InvalidInput(
            f"expected well-formed programs in {pairs.name}: {error}"
        ) from None
    model = _model(settings, vocabulary, seed=seed)
    with torch_seeded(stream_seed(seed, "parser", "dropout")):
        _fit(model, sources, targets, settings=settings, seed=seed, report=report)
    return Parser(
        model.eval(), vocabulary, settings, {"name": pairs.name, "seed": seed}
    )


def _model(
    settings: ParserSettings, vocabulary: Vocabulary, *, seed: int
) -> ParserModel:
    """A model for the vocabulary with weights drawn from `seed`."""
    num_words, num_tokens = len(vocabulary.words), len(vocabulary.tokens)
    with torch_seeded(stream_seed(seed, "model", "parser")):
        return ParserModel(settings.sizes, num_words=num_words, num_tokens=num_tokens)


def parser_of(pairs: PairCorpus, *, epochs: int, seed: int, cache_dir: Path) -> Parser:
    """A parser trained on `pairs`, kept in `cache_dir`.

    Raises: InvalidInput where pairs lack programs.
    """
    settings = ParserSettings(epochs=epochs)
    name = _cache_name("parser", pairs.fingerprint, repr(settings), str(seed))
    folder = make_once(
        cache_dir,
        name,
        lambda place: train_parser(pairs, settings=settings, seed=seed).save(place),
    )
    return load_parser(folder)


def programs_of(
    parser: Parser, utterances: Sequence[str], *, cache_dir: Path
) -> tuple[str, ...]:
    """The programs of `utterances` by a parser, kept in `cache_dir`, readable by its
    owner only.
    """
    name = _cache_name("programs", _digest(parser), repr(parser.settings), *utterances)

    def make(folder: Path) -> None:
        dump_json(folder / _PROGRAMS, parser.parse(utterances))

    folder = make_once(cache_dir, name, make)
    return tuple(read_written_json(folder / _PROGRAMS))


def _digest(parser: Parser) -> str:
    """Digest of the weights and the vocabulary, which determine a parser's output."""
    digest = hashlib.sha256(repr(parser.vocabulary).encode())
    for name, tensor in sorted(parser.model.state_dict().items()):
        digest.update(
            name.encode() + tensor.detach().cpu().contiguous().numpy().tobytes()
        )
    return digest.hexdigest()


def _cache_name(kind: str, *parts: str) -> str:
    return f"{kind}-{digest_of(parts)[:16]}"


def evaluate(parser: Parser, pairs: PairCorpus) -> scores.ParseScores:
    """Scores of a parser on pairs; gold literals are anonymous where the parser's are.

    Raises: InvalidInput for a malformed gold program.
    """
    predicted = [Program.of(program) for program in parser.parse(pairs.utterances)]
    return scores.score(gold_programs(parser, pairs), predicted)


def gold_programs(parser: Parser, pairs: PairCorpus) -> list[Program]:
    """The programs of the pairs, parsed, with strings and numbers replaced by
    placeholders where the parser writes placeholders, so that both are compared in one
    form.

    Raises: LispressError for a malformed program.
    """
    if parser.settings.literals == "anon":
        return [Program.of(anonymise(program)) for program in pairs.programs]
    return [Program.of(program) for program in pairs.programs]


def collate(batch: Sequence[Source]) -> tuple[Tensor, Tensor]:
    """Piece ids [B, S] and the mask of padding (True)."""
    words = pad_sequence(
        [torch.tensor(source.ids) for source in batch], batch_first=True
    )
    lengths = torch.tensor([len(source.ids) for source in batch])
    return words, torch.arange(words.shape[1]) >= lengths[:, None]


def _fit(
    model: ParserModel,
    sources: Sequence[Source],
    targets: Sequence[Sequence[int]],
    *,
    settings: ParserSettings,
    seed: int,
    report: Callable[[int, float], None] | None,
) -> None:
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=settings.learning_rate, betas=(0.9, 0.98)
    )
    per_epoch = -(-len(sources) // settings.batch_size)
    total = per_epoch * settings.epochs
    warmup = max(1, min(settings.warmup_steps, total // 4))
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer,
        lambda step: min(
            (step + 1) / warmup, max(0.0, (total - step) / max(1, total - warmup))
        ),
    )
    model.train()
    for epoch in range(settings.epochs):
        losses: list[float] = []
        for ids in _batches(
            [len(t) for t in targets], settings.batch_size, seed, epoch
        ):
            words, padding = collate([sources[index] for index in ids])
            loss = _loss(model, words, padding, [targets[index] for index in ids])
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
            torch.nn.utils.clip_grad_norm_(model.parameters(), settings.max_grad_norm)
            optimizer.step()
            schedule.step()
            losses.append(loss.item())
        if report is not None:
            report(epoch, float(np.mean(losses)))


def _loss(
    model: ParserModel, words: Tensor, padding: Tensor, targets: Sequence[Sequence[int]]
) -> Tensor:
    """Mean cross-entropy over tokens and places; the softmax of a choice is over its
    kind alone.
    """
    gold = pad_sequence(
        [torch.tensor(ids) for ids in targets], batch_first=True, padding_value=-1
    )
    inputs = gold[:, :-1].clamp(min=0)
    found = model(model.encode(words, padding), padding, inputs)
    is_place = gold >= model.num_tokens
    kinds = torch.arange(found.shape[2]) >= model.num_tokens
    found = found.masked_fill(kinds[None, None] != is_place[:, :, None], -torch.inf)
    return F.cross_entropy(found.flatten(0, 1), gold.flatten(), ignore_index=-1)


def _batches(
    lengths: Sequence[int], batch_size: int, seed: int, epoch: int
) -> Iterator[list[int]]:
    """Every record once, in batches of like length, in an order drawn for each
    epoch.
    """
    random = generator(seed, "parser", "batches", epoch)
    order = random.permutation(len(lengths)).tolist()
    found = []
    for low in range(0, len(order), _BUCKET * batch_size):
        bucket = sorted(
            order[low : low + _BUCKET * batch_size], key=lambda index: lengths[index]
        )
        found += [
            bucket[at : at + batch_size] for at in range(0, len(bucket), batch_size)
        ]
    for index in random.permutation(len(found)).tolist():
        yield found[index]
