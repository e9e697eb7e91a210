"""Relative membership inference: a record's likelihood ratio against those of other records.

Zarifzadeh, Liu & Shokri 2024. P_x = p_target(x) / p(x), with p(x) the mean likelihood over models
with and without x; the score is the share of population records z with P_x / P_z >= gamma. Works
with a single reference model. Where no reference has seen x, its likelihood as a member is taken
as a p_out + (1 - a). Likelihoods of unlike trials are brought to one temperature first.
"""

from __future__ import annotations

from collections.abc import Sequence

from trainables.attacks._relative import relative_scores
from trainables.attacks._signals import Floats, Signals

NEEDS = frozenset({"references"})


def all_scores(trials: Sequence[Signals]) -> list[Floats]:
    """Share of the population that each record beats, in [0, 1 + 1/k) for k in it, [n], for each
    trial against all the others, in time linear in trials times records.

    Raises: InvalidInput where there are fewer than two, or their records differ.
    """
    return relative_scores(trials)
