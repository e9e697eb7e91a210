"""The figures of a trial compared with those of its baseline. Pure.

A trial's paired comparison with the baseline is used where there is one. Otherwise a change counts
as significant where it exceeds 1.96 standard errors of the difference of independent measurements.
They share their test records, so the true error of the difference is smaller and this test is
conservative.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from dashboards.results import Estimate, Trial
from trainables.figures import LEAKAGE


@dataclass(frozen=True, kw_only=True)
class Change:
    """A relative change, (value - baseline) / baseline; `significant` None where unknown. The
    bounds are of a paired comparison, None without one.
    """

    relative: float
    significant: bool | None
    low: float | None = None
    high: float | None = None


def change(mine: Estimate | None, reference: Estimate | None) -> Change | None:
    """The relative change from `reference` to `mine`; None without both, or for a reference of 0.

    >>> change(Estimate(value=5.49), Estimate(value=6.3)).relative.__round__(3)
    -0.129
    """
    if mine is None or reference is None or reference.value == 0:
        return None
    relative = (mine.value - reference.value) / reference.value
    errors = mine.standard_error, reference.standard_error
    significant = None
    if errors[0] is not None and errors[1] is not None:
        together = math.hypot(errors[0], errors[1])
        significant = abs(mine.value - reference.value) > 1.959964 * together
    return Change(relative=relative, significant=significant)


def against(trial: Trial, base: Trial | None, metric: str) -> Change | None:
    """A trial's change: by the paired comparison of the very records where the trial has one
    (`delta_ser_percent` and kin), as `change` otherwise; None for the baseline itself.
    """
    if base is None or trial.id == base.id:
        return None
    name = {"ser": "delta_ser", LEAKAGE: "delta_mia"}.get(metric)
    paired = trial.figure(f"{name}_percent") if name else None
    if paired is not None and paired.low is not None and paired.high is not None:
        return Change(
            relative=paired.value / 100,
            significant=bool(trial.metrics.get(f"{name}_significant")),
            low=paired.low / 100,
            high=paired.high / 100,
        )
    return change(trial.figure(metric), base.figure(metric))
