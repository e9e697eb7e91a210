"""Difficulty calibration: confidence above that of other models on a record (Watson et
al. 2022).

The simplest use of a sweep as reference models: no masks, no variances, stable with few
models.
"""

from collections.abc import Sequence

from trainables.attacks._references import leave_one_out
from trainables.attacks._signals import Floats, Signals

NEEDS = frozenset({"references"})


def all_scores(trials: Sequence[Signals]) -> list[Floats]:
    """psi of a record minus its mean psi in the others [n], for each trial; higher
    means member.

    Raises: InvalidInput where there are fewer than two, or their records differ.
    """
    return [psi - others.overall_mean for psi, others in leave_one_out(trials)]
