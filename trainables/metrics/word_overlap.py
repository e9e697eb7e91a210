"""Word-type overlap: how much of the human vocabulary generated text covers.

|V(G) and V(H)| / |V(H)|, V the white-space tokens, case and punctuation kept (Mireshghallah et al.
2022). It grows with the number of utterances: compare equal numbers, and see the human ceiling.
"""

from __future__ import annotations

from collections.abc import Iterable

from trainables.errors import InvalidInput
from trainables.figures import text_count, text_rate

FIGURES = (
    text_rate(
        name="word_type_overlap",
        label="word-type overlap",
        better="higher",
        objective=True,
        is_listed=True,
        has_ceiling=True,
    ),
    text_count(name="num_word_types", label="word types"),
    text_rate(name="distinct_rate", label="distinct texts", better="higher"),
)


def value(generated: Iterable[str], human: Iterable[str]) -> float:
    """The overlap, in [0, 1].

    >>> human = ["what is the weather", "cancel the meeting"]
    >>> round(value(["what is the time", "cancel it"], human), 6)
    0.666667

    Raises: InvalidInput where the human texts have no word.
    """
    wanted = vocabulary(human)
    if not wanted:
        raise InvalidInput("expected at least one word in the human texts, got none")
    return len(wanted & vocabulary(generated)) / len(wanted)


def vocabulary(texts: Iterable[str]) -> frozenset[str]:
    """The distinct tokens of texts."""
    return frozenset(token for text in texts for token in text.split())
