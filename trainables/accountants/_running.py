"""An upper bound of the composition of releases, updated as releases are added or removed.

An update is one addition, whatever came before, so it is quick enough before every epoch of a long
history. Where the bound is too large, `epsilon_sweep` over all releases decides.
"""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
from numpy.typing import NDArray

from trainables.accountants import _renyi
from trainables.accountants._release import Release

_SAMPLED_COUPLES = ("add_or_remove_one", "couple")
_ROUNDING = 1e-9  # relative, of divergences that are summed in another order
_UNIT = np.finfo(np.float64).eps


class RunningBound:
    """The sum of the releases' Rényi divergences at a few orders, which holds for composition."""

    def __init__(self) -> None:
        self._finite = np.zeros(len(_renyi.FEW_ORDERS))
        self._lost = np.zeros(len(_renyi.FEW_ORDERS))  # at most, by the rounding of each sum so far
        self._num_infinite = np.zeros(len(_renyi.FEW_ORDERS), dtype=np.int64)
        self._kinds: Counter[tuple[str, str]] = Counter()

    def add(self, what: Release, *, times: int = 1) -> None:
        """Count a release; with `times` -1 one that was counted is taken out."""
        divergences = _renyi.curve(what, _renyi.FEW_ORDERS)
        infinite = np.isinf(divergences)
        self._sum(times * np.where(infinite, 0.0, divergences))
        self._num_infinite += times * infinite
        kind = (what.neighboring_relation, what.unit)
        self._kinds[kind] += times
        if not self._kinds[kind]:
            del self._kinds[kind]

    def merge(self, other: RunningBound) -> None:
        """Count all that `other` counts."""
        self._sum(other._finite)
        self._lost = self._lost + other._lost
        self._num_infinite = self._num_infinite + other._num_infinite
        self._kinds = self._kinds + other._kinds

    def _sum(self, change: NDArray[np.float64]) -> None:
        self._finite = self._finite + change
        self._lost = self._lost + _UNIT * np.abs(self._finite)

    def copy(self) -> RunningBound:
        """A copy with the same counts."""
        made = RunningBound()
        made.merge(self)
        return made

    def epsilon(self, *, delta: float) -> float:
        """An upper bound of epsilon at `delta`; infinite where units of privacy or neighbouring
        relations are mixed, and for several releases of couples, whose total is for one record
        replaced.

        >>> RunningBound().epsilon(delta=1e-5)
        0.0
        """
        if not self._kinds:
            return 0.0
        if len(self._kinds) > 1 or self._kinds[_SAMPLED_COUPLES] > 1:
            return math.inf
        upper = np.maximum(self._finite + self._lost, 0.0) * (1 + _ROUNDING) + _ROUNDING
        divergences = np.where(self._num_infinite > 0, np.inf, upper)
        return _renyi.to_epsilon(divergences, delta=delta, orders=_renyi.FEW_ORDERS)
