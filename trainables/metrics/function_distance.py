"""How far the frequencies of function types in generated programs are from the human ones.

Mireshghallah et al. 2022 report a chi-square distance without its formula. The half form below is
bounded, symmetric and finite, and two random halves of SMCalFlow lie .0033 apart in it, which is
the size of the paper's ground truth. Counts are normalised; a type of neither side adds nothing.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from trainables.errors import InvalidInput
from trainables.figures import text_figure, text_rate

FIGURES = (
    text_rate(
        name="chi_square",
        label="chi-square distance of function types",
        better="lower",
        objective=True,
        is_listed=True,
        has_ceiling=True,
    ),
    text_figure(
        name="chi_square_full",
        label="chi-square distance, doubled",
        better="lower",
        has_ceiling=True,
    ),
    text_rate(
        name="total_variation",
        label="total variation of function types",
        better="lower",
        has_ceiling=True,
    ),
    text_figure(
        name="jensen_shannon",
        label="Jensen-Shannon divergence of function types",
        better="lower",
        unit="nats",
        has_ceiling=True,
    ),
)


def value(generated: Mapping[str, int], human: Mapping[str, int]) -> float:
    """1/2 sum (p - q)^2 / (p + q): the chi-square distance, in [0, 1]; 1 for disjoint types.

    >>> round(value({"a": 2, "b": 1}, {"a": 1, "b": 2, "c": 1}), 6)
    0.236364

    Raises: InvalidInput where a side has no occurrence.
    """
    return full(generated, human) / 2


def full(generated: Mapping[str, int], human: Mapping[str, int]) -> float:
    """sum (p - q)^2 / (p + q): twice `value`, in [0, 2]."""
    p, q = frequencies(generated, human)
    return float(((p - q) ** 2 / (p + q)).sum())


def total_variation(generated: Mapping[str, int], human: Mapping[str, int]) -> float:
    """1/2 sum |p - q|, in [0, 1]."""
    p, q = frequencies(generated, human)
    return float(np.abs(p - q).sum() / 2)


def jensen_shannon(generated: Mapping[str, int], human: Mapping[str, int]) -> float:
    """Mean of KL(p || m) and KL(q || m) with m = (p + q) / 2, in nats, in [0, ln 2]."""
    from scipy.special import rel_entr  # here, because planning reads what figures there are

    p, q = frequencies(generated, human)
    middle = (p + q) / 2
    return float(rel_entr(p, middle).sum() + rel_entr(q, middle).sum()) / 2


def frequencies(
    generated: Mapping[str, int], human: Mapping[str, int]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Both as distributions over the union of their types, [types] each.

    Raises: InvalidInput where a side has no occurrence.
    """
    found = []
    names = sorted(generated.keys() | human.keys())
    for side, counts in (("generated", generated), ("human", human)):
        row = np.array([counts.get(name, 0) for name in names], dtype=np.float64)
        if not row.sum() > 0:
            raise InvalidInput(f"expected function types in the {side} programs, got none")
        found.append(row / row.sum())
    used = found[0] + found[1] > 0
    return found[0][used], found[1][used]
