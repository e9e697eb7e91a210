"""Corpora that are made: utterances drawn from a seeded grammar, never the same text twice.

Slot values follow Zipf's law over sets that are composed of parts, far larger than any corpus, so
the long tail holds names and numbers that occur in one record only, which a model can memorise.

Utterance i is a function of (seed, i) in whole-number arithmetic alone: the same bytes on every
machine and NumPy version, and a smaller corpus is the beginning of a larger one.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import product
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from trainables.config import DataConfig
from trainables.data.records import LabelSchema, Utterance
from trainables.data.storage import text_hash
from trainables.errors import InvalidInput
from trainables.seeding import stream_seed

DEFAULT_UTTERANCES = 10_000
_ALGORITHM = 1  # of the drawing below; a new one makes other corpora
_CHUNK = 32_768
_MAX_BARREN_CHUNKS = 8  # chunks in a row with hardly a new text: the grammar is exhausted
_ZIPF_UNIT = 2**20  # weight of rank 1; the weights of a rule sum to less than 2**32
_PER_SPEAKER = 25  # utterances in a row that are one speaker's
_CHOICE = re.compile(r"\(([^()]*)\)")
_REFERENCE = re.compile(r"\{(\w+)\}")

Law = Literal["zipf", "uniform"]
Rows = NDArray[np.uint64]


@dataclass(frozen=True)
class Rule:
    """Alternatives for a value, the commonest first; `{name}` in one stands for another rule.

    `zipf`: the alternative of rank r has weight 1 / r. `uniform`: all are equally likely.
    """

    alternatives: tuple[str, ...]
    law: Law = "zipf"

    @cached_property
    def limits(self) -> NDArray[np.uint64]:
        """Cumulative integer weights."""
        ranks = range(1, len(self.alternatives) + 1)
        weights = [_ZIPF_UNIT // rank if self.law == "zipf" else 1 for rank in ranks]
        return np.cumsum(np.array(weights, dtype=np.uint64))


def zipf(words: str | Sequence[str]) -> Rule:
    """A rule by Zipf's law; a string is cut at white space."""
    return Rule(tuple(words.split() if isinstance(words, str) else words))


def uniform(words: str | Sequence[str]) -> Rule:
    """A rule with equally likely alternatives; a string is cut at white space."""
    return Rule(tuple(words.split() if isinstance(words, str) else words), "uniform")


def patterns(text: str) -> tuple[str, ...]:
    """All sentences of a pattern with choices in parentheses.

    >>> patterns("(call|ring) {contact} (|now)")
    ('call {contact}', 'call {contact} now', 'ring {contact}', 'ring {contact} now')
    """
    pieces = _CHOICE.split(text)
    choices = [piece.split("|") if i % 2 else [piece] for i, piece in enumerate(pieces)]
    return tuple(" ".join("".join(chosen).split()) for chosen in product(*choices))


@dataclass(frozen=True)
class Domain:
    """A domain: `intents` (sentence patterns of each, the commonest intent first), `slots` (label
    and the rule of its values), and the `rules` that they are composed of.

    A slot `name` stands as `{name}` in a pattern, in a rule `{name}` is the rule of that name.
    `openings` and `closings` are said around any sentence. Upper case and control characters do not
    occur; values are tokens joined by single spaces.
    """

    name: str
    intents: Mapping[str, tuple[str, ...]]
    slots: Mapping[str, Rule]
    rules: Mapping[str, Rule]
    openings: Rule
    closings: Rule

    @cached_property
    def schema(self) -> LabelSchema:
        """The labels of the grammar, sorted: public, since no record is read for them."""
        return LabelSchema(
            intents=tuple(sorted(self.intents)),
            slots=tuple(sorted(self.slots)),
            source=f"grammar of the made corpus {self.name}",
        )

    @cached_property
    def sentences(self) -> Mapping[str, tuple[str, ...]]:
        """Every sentence of each intent, its choices resolved, none twice."""
        return {
            intent: tuple(dict.fromkeys(s for text in texts for s in patterns(text)))
            for intent, texts in self.intents.items()
        }

    def recipe(self, config: DataConfig) -> str:
        """SHA-256 (hex) of all that decides which utterances are made."""
        content = [_ALGORITHM, asdict(self), config.seed, num_utterances(config)]
        return hashlib.sha256(json.dumps(content).encode()).hexdigest()


def num_utterances(config: DataConfig) -> int:
    """Utterances of a made corpus: as asked for, or 10,000. All are distinct."""
    return config.num_utterances or DEFAULT_UTTERANCES


def generate(domain: Domain, *, seed: int, size: int) -> Iterator[Utterance]:
    """`size` utterances with distinct texts, in constant memory but for 8 bytes each.

    Raises: InvalidInput where the grammar has not that many texts.
    """
    seen: NDArray[np.uint64] = np.empty(0, dtype=np.uint64)
    made = barren = 0
    start = 0
    while made < size:
        rows = np.arange(start, start + _CHUNK, dtype=np.uint64)
        start += _CHUNK
        drawn = _Draw(domain, stream_seed(seed, domain.name), rows).utterances()
        hashes = np.array([text_hash(u.tokens) for u in drawn], dtype=np.uint64)
        fresh = _first_of_each(hashes, seen)
        barren = barren + 1 if len(fresh) < _CHUNK // 100 else 0
        if barren == _MAX_BARREN_CHUNKS:
            raise InvalidInput(
                f"expected data.num_utterances of at most about {made} for {domain.name}, whose"
                f" grammar has hardly more texts, got {size}"
            )
        for place in fresh[: size - made].tolist():
            yield drawn[place]
        made += len(fresh)
        # Two sorted runs: a stable sort merges them in linear time.
        seen = np.concatenate([seen, np.sort(hashes[fresh])])
        seen.sort(kind="stable")


def _first_of_each(hashes: Rows, seen: Rows) -> NDArray[np.int64]:
    """Places, ascending, of the first of each hash that is not among the sorted `seen`."""
    _, first = np.unique(hashes, return_index=True)
    if len(seen):
        at = np.minimum(np.searchsorted(seen, hashes[first]), len(seen) - 1)
        first = first[seen[at] != hashes[first]]
    return np.sort(first)


class _Draw:
    """The utterances of some rows. A random number depends on the seed, the row and the name of
    the decision, on nothing else.
    """

    def __init__(self, domain: Domain, seed: int, rows: Rows) -> None:
        self._domain = domain
        self._seed = seed
        self._rows = rows
        self._tags: dict[tuple[str, int], tuple[str, ...]] = {}

    def utterances(self) -> list[Utterance]:
        """One utterance a row."""
        domain, rows = self._domain, self._rows
        intents = list(domain.intents)
        intent_of = self._choose(Rule(tuple(intents)), "intent", rows)
        opening = self._values(domain.openings, "opening", rows)
        closing = self._values(domain.closings, "closing", rows)
        groups = [f"speaker{number}" for number in (rows // np.uint64(_PER_SPEAKER)).tolist()]
        texts: list[Utterance | None] = [None] * len(rows)
        for number, intent in enumerate(intents):
            here = np.flatnonzero(intent_of == number)
            sentences = Rule(domain.sentences[intent], "uniform")
            which = self._choose(sentences, "sentence", rows[here])
            for index, sentence in enumerate(sentences.alternatives):
                places = here[which == index]
                if len(places) == 0:
                    continue
                columns = self._columns(sentence, places)
                for place, parts in zip(places.tolist(), zip(*columns, strict=True), strict=True):
                    tokens, tags = self._assemble((opening[place], *parts, closing[place]))
                    texts[place] = Utterance(tokens, tags, intent, "train", groups[place])
        return [utterance for utterance in texts if utterance is not None]

    def _columns(
        self, sentence: str, places: NDArray[np.int64]
    ) -> list[list[str] | list[tuple[str, str]]]:
        """The parts of a sentence for each row: literal text, or a slot's (name, value)."""
        columns: list[list[str] | list[tuple[str, str]]] = []
        for position, piece in enumerate(_REFERENCE.split(sentence)):
            if position % 2 == 0:
                columns.append([piece] * len(places))
            else:
                path = f"slot/{position}/{piece}"
                values = self._values(self._domain.slots[piece], path, self._rows[places])
                columns.append([(piece, value) for value in values])
        return columns

    def _assemble(
        self, parts: Sequence[str | tuple[str, str]]
    ) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Tokens and tags of one utterance."""
        tokens: list[str] = []
        tags: list[str] = []
        for part in parts:
            if isinstance(part, str):
                words = part.split()
                tags += ["O"] * len(words)
            else:
                words = part[1].split()
                tags += self._slot_tags(part[0], len(words))
            tokens += words
        return tuple(tokens), tuple(tags)

    def _slot_tags(self, slot: str, length: int) -> tuple[str, ...]:
        found = self._tags.get((slot, length))
        if found is None:
            found = (f"B-{slot}", *[f"I-{slot}"] * (length - 1))
            self._tags[slot, length] = found
        return found

    def _values(self, rule: Rule, path: str, rows: Rows) -> list[str]:
        """A value of the rule for each row, its references resolved."""
        chosen = self._choose(rule, path, rows)
        values = [rule.alternatives[index] for index in chosen.tolist()]
        for index, alternative in enumerate(rule.alternatives):
            pieces = _REFERENCE.split(alternative)
            if len(pieces) == 1:
                continue
            places = np.flatnonzero(chosen == index)
            if len(places) == 0:
                continue
            columns = [
                self._values(self._domain.rules[piece], f"{path}/{position}", rows[places])
                if position % 2
                else [piece] * len(places)
                for position, piece in enumerate(pieces)
            ]
            for place, parts in zip(places.tolist(), zip(*columns, strict=True), strict=True):
                values[place] = "".join(parts)
        return values

    def _choose(self, rule: Rule, path: str, rows: Rows) -> NDArray[np.int64]:
        """The index of an alternative for each row."""
        limits = rule.limits
        high = _mix(rows, stream_seed(self._seed, path)) >> np.uint64(32)
        drawn = (high * limits[-1]) >> np.uint64(32)
        return np.searchsorted(limits, drawn, side="right").astype(np.int64)


def _mix(rows: Rows, seed: int) -> Rows:
    """64 well-mixed bits of each row number (splitmix64: Steele, Lea & Flood 2014)."""
    golden, first, second = (
        np.uint64(c) for c in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
    )
    z = np.uint64(seed) + (rows + np.uint64(1)) * golden
    z = (z ^ (z >> np.uint64(30))) * first
    z = (z ^ (z >> np.uint64(27))) * second
    mixed: Rows = z ^ (z >> np.uint64(31))
    return mixed
