"""LiRA with variances under a normal-inverse-gamma prior, for few models (arXiv 2603.11799).

Each record's variance is shrunk towards the common one, and the ratio is of two Student-t
predictives, which account for the small number of models. The strongest of the panel at low
false-positive rates in a sweep of a dozen trials or more.
"""

from __future__ import annotations

from collections.abc import Sequence

from trainables.attacks._gaussians import ratio
from trainables.attacks._knowledge import Knowledge, require
from trainables.attacks._references import leave_one_out, psi_against
from trainables.attacks._signals import Floats, Signals

NEEDS = frozenset({"references"})


def scores(target: Signals, knowledge: Knowledge, *, seed: int = 0) -> Floats:
    """Log-ratio of the predictive densities with and without the record, [n].

    Raises: InvalidInput without references, or where their records differ.
    """
    require("bavaria", NEEDS, knowledge)
    psi, references = psi_against(target, knowledge.references)
    return ratio(psi, references, variance="shrunk")


def all_scores(trials: Sequence[Signals]) -> list[Floats]:
    """Scores of every trial against all the others, in time linear in trials times records.

    Raises: InvalidInput where there are fewer than two, or their records differ.
    """
    return [ratio(psi, others, variance="shrunk") for psi, others in leave_one_out(trials)]
