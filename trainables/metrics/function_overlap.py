"""Function-type overlap and top-k agreement of generated programs with human ones.

|F(G) and F(H)| / |F(H)|, and the share of the k most frequent types that both have in common
(Mireshghallah et al. 2022, Tables 1 and 8). Both read counts of occurrences, see
`parse.function_types.occurrences`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from trainables.errors import InvalidInput
from trainables.figures import text_count, text_rate

TOP = (10, 25, 50, 100)
FIGURES = (
    text_rate(
        name="function_type_overlap",
        label="function-type overlap",
        better="higher",
        objective=True,
        is_listed=True,
        has_ceiling=True,
    ),
    text_rate(name="well_formed_rate", label="well-formed programs", better="higher"),
    text_count(name="num_function_types", label="function types"),
    *(
        text_rate(
            name=f"function_top{k}",
            label=f"agreement on the {k} most frequent function types",
            better="higher",
            has_ceiling=True,
        )
        for k in TOP
    ),
)


def count(occurrences: Iterable[Iterable[str]]) -> Counter[str]:
    """Occurrences of each function type over programs."""
    return Counter(name for program in occurrences for name in program)


def value(generated: Mapping[str, int], human: Mapping[str, int]) -> float:
    """The overlap of the types that occur, in [0, 1].

    >>> value({"a": 2, "c": 1}, {"a": 1, "b": 7})
    0.5

    Raises: InvalidInput where the human programs have no function type.
    """
    if not human:
        raise InvalidInput("expected at least one function type in the human programs, got none")
    return len(generated.keys() & human.keys()) / len(human)


def top_k(generated: Mapping[str, int], human: Mapping[str, int], *, k: int) -> float:
    """Share of the k most frequent types that both have; of equal frequencies the first name.

    >>> top_k({"a": 3, "b": 2, "c": 1}, {"a": 1, "c": 1, "b": 1}, k=2)
    1.0
    """
    return len(_most_frequent(generated, k) & _most_frequent(human, k)) / k


def _most_frequent(counts: Mapping[str, int], k: int) -> set[str]:
    return set(sorted(counts, key=lambda name: (-counts[name], name))[:k])
