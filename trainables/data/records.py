"""The plain values that pass between datasets, models, metrics and attacks. No
torch.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from trainables.data.tokenization import Tokenization

Part = Literal["train", "validation", "test"]
# Names of the official parts as people write them.
PART_NAMES: dict[str, Part] = {
    "train": "train",
    "dev": "validation",
    "valid": "validation",
    "validation": "validation",
    "test": "test",
    "training": "train",
    "val": "validation",
    "eval": "validation",
    "validate": "validation",
    "testing": "test",
}
MAX_TOKENS, MAX_CHARACTERS = 1_024, 1_000  # of a record, of a token
NO_INTENT = ""  # the intent of every record of a corpus that has slots alone


@dataclass(frozen=True, slots=True)
class Utterance:
    """One record of kind frames: `tokens` and their BIO `tags`, equally many and at
    least one, and the `intent` of the whole (`NO_INTENT` in a corpus of slots alone).
    `part` is that of the official split; `group` is the key of the person or session it
    belongs to, where that is the unit of privacy.
    """

    tokens: tuple[str, ...]
    tags: tuple[str, ...]
    intent: str
    part: Part = "train"  # part of the official split
    group: str | None = None  # key of its group, where the unit of privacy is a group


def size_problem(tokens: Sequence[str]) -> str | None:
    """Why an utterance is too long, to train on and to predict alike; None: it is not.
    Attention's memory grows with the square of the tokens.

    >>> size_problem(["a"] * 1_025), size_problem(["a"] * 1_024)
    ('expected at most 1024 words, got 1025', None)
    """
    if len(tokens) > MAX_TOKENS:
        return f"expected at most {MAX_TOKENS} words, got {len(tokens)}"
    if max(map(len, tokens), default=0) > MAX_CHARACTERS:
        return (
            f"expected words of at most {MAX_CHARACTERS} characters, got a longer one"
        )
    return None


@dataclass(frozen=True, slots=True)
class LabelSchema:
    """The public label sets of a corpus, which define a model's heads.

    `tags` is derived: "O", then B- and I- of every slot, in the order of `slots`.
    `source` says where the labels come from; `public` is False where they were read
    from the private records, which no epsilon covers. A corpus of slots alone has the
    one intent `NO_INTENT`. `tokenize` is how the corpus' texts were cut into tokens.
    """

    intents: tuple[str, ...]
    slots: tuple[str, ...]
    source: str
    public: bool = True
    tokenize: Tokenization = "space"

    @property
    def has_intents(self) -> bool:
        """Whether records have intents."""
        return self.intents != (NO_INTENT,)

    @property
    def labels(self) -> frozenset[str]:
        """The kinds of labels in the schema: intents, slots.

        >>> LabelSchema(intents=("a",), slots=(), source="doc").labels
        frozenset({'intents'})
        """
        found = {"intents": self.has_intents, "slots": bool(self.slots)}
        return frozenset(kind for kind, there in found.items() if there)

    @property
    def tags(self) -> tuple[str, ...]:
        """All BIO tags, "O" first.

        >>> LabelSchema(intents=("a",), slots=("city",), source="doc").tags
        ('O', 'B-city', 'I-city')
        """
        return ("O", *(f"{kind}-{slot}" for slot in self.slots for kind in "BI"))


Slot = tuple[str, int, int]  # name, first token, one past the last token


@dataclass(frozen=True, slots=True)
class Frame:
    """The meaning of an utterance as metrics compare it: one `intent`, and `slots` as
    (name, first token, one past the last token), in the order of the tokens. The words
    themselves are no part of it.
    """

    intent: str
    slots: tuple[Slot, ...]
