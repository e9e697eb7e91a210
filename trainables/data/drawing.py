"""Draws the utterances of a generated corpus from its grammar, never the same text twice.

Utterance i is a function of (seed, i) in whole-number arithmetic alone: the same on every machine
and NumPy version, and a smaller corpus is the beginning of a larger one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from trainables.data.configs import MadeFrames
from trainables.data.grammar import Domain, Occurrence, Rule, num_utterances
from trainables.data.records import LabelSchema, Utterance
from trainables.data.storage import text_hash
from trainables.errors import InvalidInput
from trainables.seeding import GOLDEN, mix, stream_seed

_CHUNK = 32_768
_MAX_BARREN_CHUNKS = 8  # consecutive chunks with few new texts: the grammar is exhausted
_PER_SPEAKER = 25  # consecutive utterances of one speaker

Rows = NDArray[np.uint64]


@dataclass(frozen=True)
class Made:
    """The functions of a data set's file, for one grammar."""

    domain: Domain

    def default_path(self) -> str:
        """None: a made corpus exists in the cache alone."""
        return f"made/{self.domain.name}"

    def files(self, path: Path, *, config: MadeFrames) -> tuple[Path, ...]:
        """None: nothing is read."""
        return ()

    def recipe(self, config: MadeFrames) -> str:
        """Hash of everything that determines the utterances."""
        return self.domain.recipe(config)

    def read(self, path: Path, *, config: MadeFrames) -> Iterator[Utterance]:
        """The utterances of a config, generated lazily."""
        return generate(
            self.domain,
            seed=config.seed,
            size=num_utterances(config),
            spelling=config.spelling_noise,
            labels=config.label_noise,
        )

    def schema(self, path: Path, *, config: MadeFrames) -> LabelSchema:
        """The grammar's labels."""
        return self.domain.schema

    def pool_size(self, config: MadeFrames) -> int | None:
        """The configured number of utterances, which are distinct."""
        return num_utterances(config)


def generate(
    domain: Domain, *, seed: int, size: int, spelling: float = 0.0, labels: float = 0.0
) -> Iterator[Utterance]:
    """`size` utterances with distinct texts, in constant memory but for 8 bytes each.

    The share `spelling` of the words of three letters or more is misspelt; the share `labels` of
    intents, and of slots, has the label of another.

    Raises: InvalidInput where the grammar has not that many texts.
    """
    seen: NDArray[np.uint64] = np.empty(0, dtype=np.uint64)
    made = barren = 0
    start = 0
    while made < size:
        count = min(_CHUNK, max(1_024, size - made))
        rows = np.arange(start, start + count, dtype=np.uint64)
        start += count
        draw = _Draw(domain, stream_seed(seed, domain.name), rows)
        drawn = draw.with_noise(draw.utterances(), spelling=spelling, labels=labels)
        hashes = np.array([text_hash(u.tokens) for u in drawn], dtype=np.uint64)
        fresh = _first_of_each(hashes, seen)
        barren = barren + 1 if len(fresh) < count // 100 else 0
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
    """The utterances of some rows. A random number depends only on the seed, the row and the name
    of the decision.
    """

    def __init__(self, domain: Domain, seed: int, rows: Rows) -> None:
        self._domain = domain
        self._seed = seed
        self._rows = rows
        self._tags: dict[tuple[str, int], tuple[str, ...]] = {}

    def utterances(self) -> list[Utterance]:
        """One utterance a row."""
        domain, rows = self._domain, self._rows
        sentence_of = self._sentences()
        columns = {slot: self._column(slot, sentence_of) for slot in domain.occurrences}
        openings = self._values(domain.openings, "opening", rows)
        closings = self._values(domain.closings, "closing", rows)
        speakers = (rows // np.uint64(_PER_SPEAKER)).tolist()
        found = []
        for row, number in enumerate(sentence_of.tolist()):
            sentence = domain.sentences[number]
            tokens = openings[row].split()
            tags = ["O"] * len(tokens)
            for words, slot in sentence.pieces:
                if slot is None:
                    tokens += words
                    tags += ["O"] * len(words)
                else:
                    value = columns[slot][row].split()
                    tokens += value
                    tags += self._slot_tags(slot[0], len(value))
            after = closings[row].split()
            tokens += after
            tags += ["O"] * len(after)
            speaker = f"speaker{speakers[row]}"
            found.append(Utterance(tuple(tokens), tuple(tags), sentence.intent, group=speaker))
        return found

    def with_noise(
        self, made: list[Utterance], *, spelling: float, labels: float
    ) -> list[Utterance]:
        """The utterances with wrong letters and labels, each by a random number of its own."""
        if not spelling and not labels:
            return made
        longest = max(len(u.tokens) for u in made)
        wrong, letter, other, name = (
            np.stack([self._numbers(f"{path}/{place}", self._rows) for place in range(longest)], 1)
            for path in ("misspelt", "letter", "relabelled", "label")
        )
        is_wrong, is_other = wrong < spelling * 2.0**32, other < labels * 2.0**32
        intents, slots = self._domain.schema.intents, self._domain.schema.slots
        is_mistaken = self._numbers("mistaken", self._rows) < labels * 2.0**32
        mistaken = self._numbers("intent instead", self._rows)
        found = []
        for row, u in enumerate(made):
            tokens = tuple(
                misspelt(word, int(letter[row, place])) if is_wrong[row, place] else word
                for place, word in enumerate(u.tokens)
            )
            tags, slot = [], ""
            for place, tag in enumerate(u.tags):
                if tag.startswith("B-"):
                    slot = tag[2:]
                    if is_other[row, place]:
                        slot = _another(slots, slot, int(name[row, place]))
                tags.append(tag if tag == "O" else tag[:2] + slot)
            intent = u.intent
            if is_mistaken[row]:
                intent = _another(intents, intent, int(mistaken[row]))
            found.append(Utterance(tokens, tuple(tags), intent, group=u.group))
        return found

    def _sentences(self) -> NDArray[np.int64]:
        """The sentence of each row: an intent by Zipf's law, then any of its sentences."""
        intents = tuple(self._domain.intents)
        intent_of = self._choose(Rule(intents), "intent", self._rows)
        owners = np.array([intents.index(s.intent) for s in self._domain.sentences])
        sentence_of = np.empty(len(self._rows), dtype=np.int64)
        for number in range(len(intents)):
            here = np.flatnonzero(intent_of == number)
            own = np.flatnonzero(owners == number)
            which = self._choose(Rule(("",) * len(own), "uniform"), "sentence", self._rows[here])
            sentence_of[here] = own[which]
        return sentence_of

    def _column(self, slot: Occurrence, sentence_of: NDArray[np.int64]) -> list[str]:
        """The value of a slot for each row whose sentence has it."""
        has = np.array([any(slot == s for _, s in x.pieces) for x in self._domain.sentences])
        places = np.flatnonzero(has[sentence_of])
        path = f"slot/{slot[0]}/{slot[1]}"
        column = [""] * len(self._rows)
        values = self._values(self._domain.slots[slot[0]], path, self._rows[places])
        for place, value in zip(places.tolist(), values, strict=True):
            column[place] = value
        return column

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
        for index, pieces in rule.composites:
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
        drawn = (self._numbers(path, rows) * limits[-1]) >> np.uint64(32)
        return np.asarray(np.searchsorted(limits, drawn, side="right"), dtype=np.int64)

    def _numbers(self, path: str, rows: Rows) -> Rows:
        """A random whole number below 2^32 for each row."""
        numbered = np.uint64(stream_seed(self._seed, path)) + (rows + np.uint64(1)) * GOLDEN
        return np.asarray(mix(numbered) >> np.uint64(32))


def misspelt(word: str, number: int) -> str:
    """The word with a letter left out, doubled or exchanged with the next one; as it is with fewer
    than three.

    >>> misspelt("monday", 7), misspelt("monday", 0), misspelt("at", 5)
    ('monnday', 'onday', 'at')
    """
    if len(word) < 3:
        return word
    kind, place = number % 3, number // 3 % (len(word) - 1)
    if kind == 0:
        return word[:place] + word[place + 1 :]
    if kind == 1:
        return word[: place + 1] + word[place:]
    return word[:place] + word[place + 1] + word[place] + word[place + 2 :]


def _another(labels: tuple[str, ...], label: str, number: int) -> str:
    """A label that is not `label`, unless it is the only one."""
    place = labels.index(label)
    return labels[(place + 1 + number % max(1, len(labels) - 1)) % len(labels)]
