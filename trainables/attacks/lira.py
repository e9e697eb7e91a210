"""Likelihood-ratio attack: models trained with the record against models trained
without it.

Carlini et al. 2022, online. psi = log p - log(1 - p) of a record is near Gaussian over
models; the other trials of the sweep, with independent memberships, are draws with and
without the record. The score is log N(psi; in) - log N(psi; out). Variances are one
number for all records below 64 models (their rule), by record above.
"""

from collections.abc import Sequence

from trainables.attacks._gaussians import ratio
from trainables.attacks._references import leave_one_out
from trainables.attacks._signals import Floats, Signals

NEEDS = frozenset({"references"})


def all_scores(trials: Sequence[Signals]) -> list[Floats]:
    """Log-likelihood ratio of every record [n], for each trial against all the others,
    in time linear in trials times records.

    Raises: InvalidInput where there are fewer than two, or their records differ.
    """
    return [ratio(psi, references) for psi, references in leave_one_out(trials)]
