"""Relative membership inference: a record's likelihood ratio against those of other records.

Zarifzadeh, Liu & Shokri 2024. P_x = p_target(x) / p(x), with p(x) the mean likelihood over models
with and without x; the score is the share of population records z with P_x / P_z >= gamma. Works
with a single reference model. Where no reference has seen x, its likelihood as a member is taken
as a p_out + (1 - a). Likelihoods of unlike trials are brought to one temperature first.
"""

from __future__ import annotations

from collections.abc import Sequence

from trainables.attacks._knowledge import Knowledge, require
from trainables.attacks._references import (
    Moments,
    align,
    leave_one_out,
    likelihoods,
    moments_of,
)
from trainables.attacks._relative import A_DEFAULT, Variant, best_a, relative_scores
from trainables.attacks._signals import Floats, Signals
from trainables.errors import InvalidInput

NEEDS = frozenset({"references"})


def scores(
    target: Signals,
    knowledge: Knowledge,
    *,
    seed: int = 0,
    gamma: float = 1.0,
    a: float | None = None,
    variant: Variant = "online",
) -> Floats:
    """Share of the population that the record beats, in [0, 1 + 1/k) for k in it, [n].

    `a` None, offline: the value of a grid with which the other references attack the first one
    best. The population is the records that no trial trains on; without any, the scored records.

    Raises: InvalidInput without references, or where their records differ.
    """
    require("rmia", NEEDS, knowledge)
    near = align(target, knowledge.references)
    p_target, *p = likelihoods([target, *near])
    moments = moments_of(p, [each.member for each in near], num_records=len(target))
    if a is None:
        a = _choose_a(p[0], near[0], moments, variant)
    return relative_scores(
        p_target, moments, population=target.population, gamma=gamma, a=a, variant=variant
    )


def all_scores(
    trials: Sequence[Signals],
    *,
    gamma: float = 1.0,
    a: float | None = None,
    variant: Variant = "online",
) -> list[Floats]:
    """Scores of every trial against all the others, in time linear in trials times records.

    Raises: InvalidInput where there are fewer than two, or their records differ.
    """
    if len(trials) < 2:
        raise InvalidInput(f"expected at least 2 trials as references, got {len(trials)}")
    near = align(trials[0], trials)
    p, found = likelihoods(near), []
    for place, (p_target, moments) in enumerate(leave_one_out(near, p)):
        first = 0 if place else 1
        chosen = _choose_a(p[first], near[first], moments, variant) if a is None else a
        found.append(
            relative_scores(
                p_target,
                moments,
                population=near[place].population,
                gamma=gamma,
                a=chosen,
                variant=variant,
            )
        )
    return found


def _choose_a(p_first: Floats, first: Signals, references: Moments, variant: Variant) -> float:
    """The value of a: online a constant, offline the best on one reference against the others."""
    if variant == "online":
        return A_DEFAULT
    others = references.plus(p_first, first.member, sign=-1)
    return best_a(p_first, first.member, others, population=first.population)
