"""Difficulty calibration: confidence above that of other models on a record (Watson et al. 2022).

The simplest use of a sweep as reference models: no masks, no variances, stable with few models.
"""

from __future__ import annotations

from collections.abc import Sequence

from trainables.attacks._knowledge import Knowledge, require
from trainables.attacks._references import leave_one_out, psi_against
from trainables.attacks._signals import Floats, Signals

NEEDS = frozenset({"references"})


def scores(target: Signals, knowledge: Knowledge, *, seed: int = 0) -> Floats:
    """psi of the target minus the mean psi of the references, [n]; higher means member.

    Raises: InvalidInput without references, or where their records differ.
    """
    require("calibrated", NEEDS, knowledge)
    psi, references = psi_against(target, knowledge.references)
    return psi - references.overall_mean


def all_scores(trials: Sequence[Signals]) -> list[Floats]:
    """Scores of every trial against all the others.

    Raises: InvalidInput where there are fewer than two, or their records differ.
    """
    return [psi - others.overall_mean for psi, others in leave_one_out(trials)]
