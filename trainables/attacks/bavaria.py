"""LiRA with variances under a normal-inverse-gamma prior, for few models (arXiv
2603.11799).

Each record's variance is shrunk towards the common one, and the ratio is of two
Student-t predictives, which account for the small number of models. The strongest of
the panel at low false-positive rates in a sweep of a dozen trials or more.
"""

from collections.abc import Sequence

from trainables.attacks._gaussians import ratio
from trainables.attacks._references import leave_one_out
from trainables.attacks._signals import Floats, Signals

NEEDS = frozenset({"references"})


def all_scores(trials: Sequence[Signals]) -> list[Floats]:
    """Log-ratio of the predictive densities with and without each record [n], for each
    trial against all the others, in time linear in trials times records.

    Raises: InvalidInput where there are fewer than two, or their records differ.
    """
    return [
        ratio(psi, others, variance="shrunk") for psi, others in leave_one_out(trials)
    ]
