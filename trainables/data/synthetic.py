"""Generated corpora: the grammar of one, and its utterances, never the same text twice.

A grammar has sentence patterns of intents and rules for values of slots. Values are
composed and drawn by Zipf's law over ranks (Zipf 1949), so a few are frequent and most
are rare. The long tail holds names and numbers that occur in one record only, which a
model can memorise.

Utterance i is a function of (seed, i) in whole-number arithmetic alone: the same on
every machine and NumPy version, and a smaller corpus is the beginning of a larger one.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, product
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from trainables.data.bio import tags_of
from trainables.data.records import LabelSchema, Slot, Utterance
from trainables.data.storage import text_hash
from trainables.dp.seeding import GOLDEN, mix, stream_seed
from trainables.errors import InvalidInput

_ZIPF_UNIT = 2**20  # weight of rank 1; the weights of a rule sum to less than 2**32
_CHOICE = re.compile(r"\(([^()]*)\)")
_REFERENCE = re.compile(r"\{(\w+)\}")
ALGORITHM = 1  # raise it whenever the same grammar gives other utterances
_CHUNK = 32_768
_MAX_BARREN_CHUNKS = (
    8  # consecutive chunks with few new texts: the grammar is exhausted
)
_PER_SPEAKER = 25  # consecutive utterances of one speaker

Law = Literal["zipf", "uniform"]
Rows = NDArray[np.uint64]


@dataclass(frozen=True)
class Rule:
    """Alternatives for a value, the commonest first; `{name}` in one stands for another
    rule.

    `zipf`: the alternative of rank r has weight 1 / r. `uniform`: all are equally
    likely.
    """

    alternatives: tuple[str, ...]
    law: Law = "zipf"

    @cached_property
    def limits(self) -> NDArray[np.uint64]:
        """Cumulative integer weights."""
        ranks = range(1, len(self.alternatives) + 1)
        weights = [_ZIPF_UNIT // rank if self.law == "zipf" else 1 for rank in ranks]
        return np.cumsum(np.array(weights, dtype=np.uint64))

    @cached_property
    def composites(self) -> tuple[tuple[int, tuple[str, ...]], ...]:
        """The alternatives that name other rules: index, and literal and rule name by
        turns.
        """
        split = [
            (i, tuple(_REFERENCE.split(text)))
            for i, text in enumerate(self.alternatives)
        ]
        return tuple((index, pieces) for index, pieces in split if len(pieces) > 1)


def zipf(alternatives: str | Sequence[str]) -> Rule:
    """A rule by Zipf's law; a string is cut at semicolons, or at white space without
    any.

    >>> zipf("red wine; beer").alternatives
    ('red wine', 'beer')
    """
    return Rule(_cut(alternatives))


def uniform(alternatives: str | Sequence[str]) -> Rule:
    """A rule with equally likely alternatives, cut as in `zipf`."""
    return Rule(_cut(alternatives), "uniform")


def _cut(text: str | Sequence[str]) -> tuple[str, ...]:
    if not isinstance(text, str):
        return tuple(text)
    if ";" not in text:
        return tuple(text.split())
    return tuple(" ".join(part.split()) for part in text.split(";"))


def patterns(text: str) -> tuple[str, ...]:
    """All sentences of a pattern with choices in parentheses.

    >>> patterns("(call|ring) {contact} (|now)")
    ('call {contact}', 'call {contact} now', 'ring {contact}', 'ring {contact} now')
    """
    pieces = _CHOICE.split(text)
    choices = [piece.split("|") if i % 2 else [piece] for i, piece in enumerate(pieces)]
    return tuple(" ".join("".join(chosen).split()) for chosen in product(*choices))


Occurrence = tuple[
    str, int
]  # a slot, and how many of its name stand before it in the sentence


@dataclass(frozen=True)
class Sentence:
    """One sentence of an intent: pieces that are literal words, or an occurrence of a
    slot.
    """

    intent: str
    pieces: tuple[tuple[tuple[str, ...], Occurrence | None], ...]


def _sentence(intent: str, text: str) -> Sentence:
    pieces: list[tuple[tuple[str, ...], Occurrence | None]] = []
    names: list[str] = []
    for position, piece in enumerate(_REFERENCE.split(text)):
        if position % 2:
            pieces.append(((), (piece, names.count(piece))))
            names.append(piece)
        elif piece.split():
            pieces.append((tuple(piece.split()), None))
    return Sentence(intent, tuple(pieces))


@dataclass(frozen=True)
class Domain:
    """A domain: `intents` (sentence patterns of each, one a line, the commonest intent
    first), `slots` (label and the rule of its values), and the `rules` that they are
    composed of.

    A slot `name` stands as `{name}` in a pattern, in a rule `{name}` is the rule of
    that name. `openings` and `closings` are said around any sentence. Upper case and
    control characters do not occur; values are tokens joined by single spaces.
    """

    name: str
    intents: Mapping[str, str]
    slots: Mapping[str, Rule]
    rules: Mapping[str, Rule]
    openings: Rule
    closings: Rule

    @cached_property
    def schema(self) -> LabelSchema:
        """The labels of the grammar, sorted; public, because no record is read for
        them.
        """
        return LabelSchema(
            intents=tuple(sorted(self.intents)),
            slots=tuple(sorted(self.slots)),
            source=f"grammar of the made corpus {self.name}",
        )

    @cached_property
    def sentences(self) -> tuple[Sentence, ...]:
        """Every sentence of every intent, its choices resolved, none twice in an
        intent.
        """
        return tuple(
            _sentence(intent, text)
            for intent, lines in self.intents.items()
            for text in dict.fromkeys(chain(*map(patterns, lines.strip().splitlines())))
        )

    @cached_property
    def occurrences(self) -> tuple[Occurrence, ...]:
        """Every occurrence of a slot in a sentence; a slot that occurs twice counts
        twice.
        """
        return tuple(
            dict.fromkeys(
                slot for s in self.sentences for _, slot in s.pieces if slot is not None
            )
        )


def generate(
    domain: Domain, *, seed: int, size: int, spelling: float = 0.0, labels: float = 0.0
) -> Iterator[Utterance]:
    """`size` utterances with distinct texts, in constant memory but for 8 bytes each.

    The share `spelling` of the words of three letters or more is misspelt; the share
    `labels` of intents, and of slots, has the label of another.

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
                f"expected data.num_utterances of at most about {made} for"
                f" {domain.name}, whose grammar has hardly more texts, got {size}"
            )
        for place in fresh[: size - made].tolist():
            yield drawn[place]
        made += len(fresh)
        # Two sorted runs: a stable sort merges them in linear time.
        seen = np.concatenate([seen, np.sort(hashes[fresh])])
        seen.sort(kind="stable")


def _first_of_each(hashes: Rows, seen: Rows) -> NDArray[np.int64]:
    """Places, ascending, of the first of each hash that is not among the sorted
    `seen`.
    """
    _, first = np.unique(hashes, return_index=True)
    if len(seen):
        at = np.minimum(np.searchsorted(seen, hashes[first]), len(seen) - 1)
        first = first[seen[at] != hashes[first]]
    return np.sort(first)


class _Draw:
    """The utterances of some rows. A random number depends only on the seed, the row
    and the name of the decision.
    """

    def __init__(self, domain: Domain, seed: int, rows: Rows) -> None:
        self._domain = domain
        self._seed = seed
        self._rows = rows

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
            tokens, slots = openings[row].split(), list[Slot]()
            for words, slot in sentence.pieces:
                start = len(tokens)
                tokens += words if slot is None else columns[slot][row].split()
                if slot is not None:
                    slots.append((slot[0], start, len(tokens)))
            tokens += closings[row].split()
            tags, speaker = tags_of(slots, len(tokens)), f"speaker{speakers[row]}"
            found.append(Utterance(tuple(tokens), tags, sentence.intent, group=speaker))
        return found

    def with_noise(
        self, made: list[Utterance], *, spelling: float, labels: float
    ) -> list[Utterance]:
        """The utterances with wrong letters and labels, each by a random number of its
        own.
        """
        if not spelling and not labels:
            return made
        longest = max(len(u.tokens) for u in made)
        wrong, letter, other, name = (
            np.stack(
                [
                    self._numbers(f"{path}/{place}", self._rows)
                    for place in range(longest)
                ],
                1,
            )
            for path in ("misspelt", "letter", "relabelled", "label")
        )
        is_wrong, is_other = wrong < spelling * 2.0**32, other < labels * 2.0**32
        intents, slots = self._domain.schema.intents, self._domain.schema.slots
        is_mistaken = self._numbers("mistaken", self._rows) < labels * 2.0**32
        mistaken = self._numbers("intent instead", self._rows)
        found = []
        for row, u in enumerate(made):
            tokens = tuple(
                misspelt(word, int(letter[row, place]))
                if is_wrong[row, place]
                else word
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
        """The sentence of each row: an intent by Zipf's law, then any of its
        sentences.
        """
        intents = tuple(self._domain.intents)
        intent_of = self._choose(Rule(intents), "intent", self._rows)
        owners = np.array([intents.index(s.intent) for s in self._domain.sentences])
        sentence_of = np.empty(len(self._rows), dtype=np.int64)
        for number in range(len(intents)):
            here = np.flatnonzero(intent_of == number)
            own = np.flatnonzero(owners == number)
            which = self._choose(
                Rule(("",) * len(own), "uniform"), "sentence", self._rows[here]
            )
            sentence_of[here] = own[which]
        return sentence_of

    def _column(self, slot: Occurrence, sentence_of: NDArray[np.int64]) -> list[str]:
        """The value of a slot for each row whose sentence has it."""
        has = np.array(
            [any(slot == s for _, s in x.pieces) for x in self._domain.sentences]
        )
        places = np.flatnonzero(has[sentence_of])
        path = f"slot/{slot[0]}/{slot[1]}"
        column = np.full(len(self._rows), "", dtype=object)
        column[places] = self._values(
            self._domain.slots[slot[0]], path, self._rows[places]
        )
        return list(column)

    def _values(self, rule: Rule, path: str, rows: Rows) -> list[str]:
        """A value of the rule for each row, its references resolved."""
        chosen = self._choose(rule, path, rows)
        values = np.array(rule.alternatives, dtype=object)[chosen]
        for index, pieces in rule.composites:
            places = np.flatnonzero(chosen == index)
            if len(places) == 0:
                continue
            columns = [
                self._values(
                    self._domain.rules[piece], f"{path}/{position}", rows[places]
                )
                if position % 2
                else [piece] * len(places)
                for position, piece in enumerate(pieces)
            ]
            values[places] = ["".join(parts) for parts in zip(*columns, strict=True)]
        return list(values)

    def _choose(self, rule: Rule, path: str, rows: Rows) -> NDArray[np.int64]:
        """The index of an alternative for each row."""
        limits = rule.limits
        drawn = (self._numbers(path, rows) * limits[-1]) >> np.uint64(32)
        return np.asarray(np.searchsorted(limits, drawn, side="right"), dtype=np.int64)

    def _numbers(self, path: str, rows: Rows) -> Rows:
        """A random whole number below 2^32 for each row."""
        numbered = (
            np.uint64(stream_seed(self._seed, path)) + (rows + np.uint64(1)) * GOLDEN
        )
        return np.asarray(mix(numbered) >> np.uint64(32))


def misspelt(word: str, number: int) -> str:
    """The word with a letter left out, doubled or exchanged with the next one; as it is
    with fewer than three.

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
