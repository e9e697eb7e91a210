"""Likelihood-ratio attack: models trained with the record against models trained without it.

Carlini et al. 2022. psi = log p - log(1 - p) of a record is near Gaussian over models; the other
trials of the sweep, with independent coins, are draws with and without the record. Online:
log N(psi; in) - log N(psi; out). Offline, from models without the record only: Phi((psi - mean_out)
/ std_out). Variances are one number for all records below 64 models (their rule), by record above.
"""

from __future__ import annotations

from collections.abc import Sequence

from trainables.attacks._gaussians import Variance, Variant, ratio
from trainables.attacks._knowledge import Knowledge, require
from trainables.attacks._references import leave_one_out, psi_against
from trainables.attacks._signals import Floats, Signals

NEEDS = frozenset({"references"})


def scores(
    target: Signals,
    knowledge: Knowledge,
    *,
    seed: int = 0,
    variant: Variant = "online",
    variance: Variance = "auto",
) -> Floats:
    """Log-likelihood ratio of every record (online) or a probability (offline), [n].

    Raises: InvalidInput without references, or where their records differ.
    """
    require("lira", NEEDS, knowledge)
    psi, references = psi_against(target, knowledge.references)
    return ratio(psi, references, variant=variant, variance=variance)


def all_scores(
    trials: Sequence[Signals], *, variant: Variant = "online", variance: Variance = "auto"
) -> list[Floats]:
    """Scores of every trial against all the others, in time linear in trials times records.

    Raises: InvalidInput where there are fewer than two, or their records differ.
    """
    return [
        ratio(psi, references, variant=variant, variance=variance)
        for psi, references in leave_one_out(trials)
    ]
