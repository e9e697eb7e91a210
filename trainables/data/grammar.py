"""The grammar of a generated corpus: sentence patterns of intents, rules for values of slots.

Values are composed and drawn by Zipf's law over ranks (Zipf 1949), so a few are frequent and most
are rare. The long tail holds names and numbers that occur in one record only, which a model can
memorise. `drawing` makes the utterances.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import product
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from trainables.data.configs import MadeFrames
from trainables.data.records import LabelSchema

DEFAULT_UTTERANCES = 10_000
_ALGORITHM = 1  # of `drawing`: raise it whenever the same grammar gives other utterances
_ZIPF_UNIT = 2**20  # weight of rank 1; the weights of a rule sum to less than 2**32
_CHOICE = re.compile(r"\(([^()]*)\)")
_REFERENCE = re.compile(r"\{(\w+)\}")

Law = Literal["zipf", "uniform"]


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

    @cached_property
    def composites(self) -> tuple[tuple[int, tuple[str, ...]], ...]:
        """The alternatives that name other rules: index, and literal and rule name by turns."""
        split = [(i, tuple(_REFERENCE.split(text))) for i, text in enumerate(self.alternatives)]
        return tuple((index, pieces) for index, pieces in split if len(pieces) > 1)


def zipf(alternatives: str | Sequence[str]) -> Rule:
    """A rule by Zipf's law; a string is cut at semicolons, or at white space without any.

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


Occurrence = tuple[str, int]  # a slot, and how many of its name stand before it in the sentence


@dataclass(frozen=True)
class Sentence:
    """One sentence of an intent: pieces that are literal words, or an occurrence of a slot."""

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
        """The labels of the grammar, sorted; public, because no record is read for them."""
        return LabelSchema(
            intents=tuple(sorted(self.intents)),
            slots=tuple(sorted(self.slots)),
            source=f"grammar of the made corpus {self.name}",
        )

    @cached_property
    def sentences(self) -> tuple[Sentence, ...]:
        """Every sentence of every intent, its choices resolved, none twice in an intent."""
        return tuple(
            _sentence(intent, text)
            for intent, texts in self.intents.items()
            for text in dict.fromkeys(text for choices in texts for text in patterns(choices))
        )

    @cached_property
    def occurrences(self) -> tuple[Occurrence, ...]:
        """Every occurrence of a slot in a sentence; a slot that occurs twice counts twice."""
        return tuple(
            dict.fromkeys(slot for s in self.sentences for _, slot in s.pieces if slot is not None)
        )

    def recipe(self, config: MadeFrames) -> str:
        """SHA-256 (hex) of everything that determines the utterances."""
        content = [_ALGORITHM, asdict(self), config.seed, num_utterances(config)]
        noise = [config.spelling_noise, config.label_noise]
        content += noise if any(noise) else []
        return hashlib.sha256(json.dumps(content).encode()).hexdigest()


def num_utterances(config: MadeFrames) -> int:
    """Utterances of a generated corpus: as configured, or 10,000. All are distinct."""
    return config.num_utterances or DEFAULT_UTTERANCES
