"""The cost of releasing only the best of several trials (Papernot & Steinke 2022,
"Hyperparameter Tuning with Renyi Differential Privacy"), by `dp-accounting`.

The theorem needs the number of trials drawn beforehand from a Poisson or truncated
negative binomial distribution and kept secret, and every trial an independent draw from
one fixed distribution over configurations. A grid that is run whole and a search that
looks at earlier results are neither: they cost the composition of their trials
(`certify`).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from trainables.dp.accounting import renyi
from trainables.dp.accounting.calibration import smallest_noise_multiplier
from trainables.dp.accounting.certification import certify, meaning_of
from trainables.dp.accounting.privacy_semantics import ClaimMeaning
from trainables.dp.accounting.releases import BestOf, Number, Training, Unaccounted
from trainables.dp.accounting.rounding import format_delta, format_epsilon
from trainables.errors import CannotAnalyze, InvalidInput

NO_GUARANTEE = "it prices the choice among trials, not one trial"

Configurations = Sequence[Training | Unaccounted]


def of_releases(
    configurations: Configurations, *, delta: float, number: Number
) -> float:
    """Epsilon of the best of a secret `number` of trials that draw one of
    `configurations` each.

    Costs the largest Rényi divergence of any configuration, order by order.

    Raises: CannotAnalyze where relations or units are mixed.
    """
    return certify(release_of(configurations, number=number), delta=delta).epsilon


@dataclass(frozen=True, kw_only=True)
class SelectionClaim:
    """What the best trial of a selection costs alone, and what that allows an
    attacker.
    """

    epsilon: float
    meaning: ClaimMeaning


def claim_of(chosen: BestOf, *, delta: float) -> SelectionClaim:
    """The claim of a selection at `delta`."""
    found = certify(chosen, delta=delta)
    return SelectionClaim(epsilon=found.epsilon, meaning=meaning_of(chosen, found))


def release_of(configurations: Configurations, *, number: Number) -> BestOf:
    """The release of a search that publishes only its best trial, for the ledger.

    Raises: as `of_releases`.
    """
    try:
        return BestOf(
            number=number, configurations=tuple(dict.fromkeys(configurations))
        )
    except ValueError as problem:
        raise CannotAnalyze(str(problem)) from None


def epsilon_of_choice_alone(number: Number, *, delta: float) -> float:
    """Epsilon of the choice among trials that cost nothing: a lower bound of every
    selection.
    """
    nothing = np.zeros(len(renyi.ORDERS))
    return renyi.to_epsilon(renyi.best_of(nothing, number), delta=delta)


def noise_for(
    at_unit_noise: Configurations,
    *,
    target_epsilon: float,
    delta: float,
    number: Number,
) -> float:
    """The smallest noise multiplier, rounded up, with which a selection costs at most
    `target_epsilon`, where each trial draws one of `at_unit_noise`: what configurations
    release at noise multiplier 1.

    Raises: InvalidInput for a target that no noise reaches, because of the cost of the
    choice alone or of a noised histogram.
    """
    alone = epsilon_of_choice_alone(number, delta=delta)
    if alone >= target_epsilon:
        raise InvalidInput(
            f"no noise multiplier reaches target_epsilon={target_epsilon:g}: the choice"
            f" among a number of trials with mean {number.mean:g} alone costs"
            f" {format_epsilon(alone)} at delta {format_delta(delta)}"
        )

    def price(noise_multiplier: float) -> float:
        scaled = [what.scale_noise(noise_multiplier) for what in at_unit_noise]
        return of_releases(scaled, delta=delta, number=number)

    without = [
        replace(what, steps=()) if isinstance(what, Training) else what
        for what in at_unit_noise
    ]
    beside = of_releases(without, delta=delta, number=number)
    if beside >= target_epsilon:
        raise InvalidInput(
            f"no noise multiplier reaches target_epsilon={target_epsilon:g}: without"
            f" the training steps the selection costs {format_epsilon(beside)} (a"
            " noised histogram, or parts without an accountant)"
        )
    return smallest_noise_multiplier(
        price, target_epsilon=target_epsilon, precision=1e-5
    )
