"""Rényi divergences of the best of a random number of trials (Papernot & Steinke 2022, Theorems 2
and 6), by `dp-accounting`'s `RepeatAndSelectDpEvent`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from dp_accounting.dp_event import NoOpDpEvent, RepeatAndSelectDpEvent
from dp_accounting.rdp import RdpAccountant
from numpy.typing import NDArray


def divergences(
    one_trial: NDArray[np.float64], *, orders: tuple[float, ...], mean: float, shape: float
) -> NDArray[np.float64]:
    """Divergence of the selection at each of `orders`, from that of one trial.

    The number of trials has this `mean` and `shape` (0 logarithmic, 1 geometric, infinity Poisson).
    """
    if not np.isfinite(one_trial).any():
        return np.full(len(orders), np.inf)
    accountant = _Accountant(one_trial, orders)
    accountant.compose(RepeatAndSelectDpEvent(NoOpDpEvent(), mean, shape))
    return np.asarray(accountant.rdp, dtype=np.float64)


class _Accountant(RdpAccountant):  # type: ignore[misc]  # the library has no types
    """The library's accountant, where one trial, which is no operation, has given divergences. No
    event of the library has any at all, so its abstract method is overridden; check values hold it
    (`tests/accountants/test_check_values.py`).
    """

    def __init__(self, one_trial: NDArray[np.float64], orders: tuple[float, ...]) -> None:
        super().__init__(orders)
        self._rdp: NDArray[np.float64] = np.zeros(len(orders))
        self._one_trial = one_trial

    def _maybe_compose(self, event: Any, count: int, do_compose: bool) -> Any:
        if not isinstance(event, NoOpDpEvent):
            return super()._maybe_compose(event, count, do_compose)
        if do_compose:
            self._rdp = self._rdp + count * self._one_trial
        return None
