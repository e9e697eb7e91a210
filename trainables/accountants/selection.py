"""The cost of releasing only the best of several trials (Papernot & Steinke 2022, "Hyperparameter
Tuning with Renyi Differential Privacy"), by `dp-accounting`.

The theorem needs the number of trials drawn beforehand from a Poisson or truncated negative
binomial distribution and kept secret, and every trial an independent draw from one fixed
distribution over configurations. A grid that is run whole and a search that looks at earlier
results are neither: they are refused by name and cost their composition (`epsilon_sweep`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from dp_accounting.dp_event import NoOpDpEvent, RepeatAndSelectDpEvent
from dp_accounting.rdp import RdpAccountant
from numpy.typing import NDArray

from trainables.accountants import _renyi
from trainables.accountants._release import Release, release
from trainables.errors import CannotAnalyze
from trainables.privacy.mechanism import Mechanism

KIND = "choice"
NO_GUARANTEE = "it prices the choice among trials, not one trial"
INDEPENDENT = ("random",)  # searches whose trials are independent draws from a fixed distribution


@dataclass(frozen=True, kw_only=True)
class Search:
    """How the trials of a sweep came about.

    `kind` is "random" (also for a grid from which configurations are drawn at random), or "grid",
    "tpe", "gp", "asha", ... `mean` and `shape` are of the distribution that the number of trials
    was drawn from: shape 0 logarithmic, 1 geometric, `math.inf` Poisson, else truncated negative
    binomial; None where the number was chosen. `complete` is False where a budget, an early stop
    of the sweep or a retry changed which trials ran.
    """

    kind: str
    mean: float | None = None
    shape: float | None = None
    complete: bool = True


WHOLE_GRID = Search(kind="grid")


def epsilon(mechanism: Mechanism, *, delta: float, search: Search = WHOLE_GRID) -> float:
    """Epsilon of the best trial of `search`, where `mechanism` is the costliest configuration.

    Raises: CannotAnalyze, naming the reason, unless the theorem holds for the search.
    """
    return of_releases([release(mechanism)], delta=delta, search=search)


def of_releases(configurations: Sequence[Release], *, delta: float, search: Search) -> float:
    """Epsilon of the best trial, where each trial draws one of `configurations`.

    Costs the largest Rényi divergence of any configuration, order by order.

    Raises: CannotAnalyze where the theorem does not hold, or relations or units are mixed.
    """
    refuse(search)
    kinds = {(what.neighboring_relation, what.unit) for what in configurations}
    if len(kinds) != 1:
        raise CannotAnalyze(
            "selection: expected configurations of one neighboring_relation and one unit, got"
            f" {sorted(kinds)}"
        )
    curves = [_renyi.curve(what) for what in configurations]
    worst = np.max(np.stack(curves), axis=0)
    if not np.isfinite(worst).any():
        return math.inf
    event = RepeatAndSelectDpEvent(_Marker(), search.mean, search.shape)
    accountant = _WorstOf(worst).compose(event)
    return _renyi.to_epsilon(accountant.rdp, delta=delta)


def refuse(search: Search) -> None:
    """Raises: CannotAnalyze, naming the reason, unless the theorem holds for the search."""
    if search.kind == "grid":
        raise CannotAnalyze(
            "selection: a grid run whole costs the composition of its trials (epsilon_sweep); only"
            " a number of trials drawn at random is priced as a selection"
        )
    if search.kind not in INDEPENDENT:
        raise CannotAnalyze(
            f"selection: the adaptive search {search.kind} looks at earlier results, so it costs"
            " the composition of its trials (epsilon_sweep)"
        )
    mean, shape = search.mean, search.shape
    if mean is None or shape is None:
        raise CannotAnalyze(
            "selection: expected the number of trials drawn at random beforehand (its mean and"
            " shape), got a number that was chosen"
        )
    if not (1 <= mean < math.inf and shape >= 0):
        raise CannotAnalyze(
            f"selection: expected a finite mean >= 1 and a shape >= 0, got {mean} and {shape}"
        )
    if not search.complete:
        raise CannotAnalyze(
            "selection: a budget, an early end or a retry changed which trials ran, so they are"
            " not the number that was drawn"
        )


class _Marker(NoOpDpEvent):  # type: ignore[misc]  # the library has no types
    """Stands for one trial of the costliest configuration."""


class _WorstOf(RdpAccountant):  # type: ignore[misc]  # the library has no types
    """The library's accountant, in which a trial costs the divergences it was made with."""

    def __init__(self, divergences: NDArray[np.float64]) -> None:
        super().__init__(_renyi.ORDERS)
        self._rdp: NDArray[np.float64] = np.zeros(len(_renyi.ORDERS))
        self._divergences = divergences

    def _maybe_compose(self, event: Any, count: int, do_compose: bool) -> Any:
        if isinstance(event, _Marker):
            if do_compose:
                self._rdp = self._rdp + count * self._divergences
            return None
        return super()._maybe_compose(event, count, do_compose)
