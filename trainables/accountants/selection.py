"""The cost of releasing only the best of several trials (Papernot & Steinke 2022, "Hyperparameter
Tuning with Renyi Differential Privacy"), by `dp-accounting`.

The theorem needs the number of trials drawn beforehand from a Poisson or truncated negative
binomial distribution and kept secret, and every trial an independent draw from one fixed
distribution over configurations. A grid that is run whole and a search that looks at earlier
results are neither: they are refused by name and cost their composition (`certify`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from trainables.accountants._calibration import smallest_noise_multiplier
from trainables.errors import CannotAnalyze, InvalidInput
from trainables.guarantee import renyi
from trainables.guarantee.certify import certify
from trainables.guarantee.releases import BestOf, Number, Training, Unaccounted
from trainables.privacy.rounding import format_delta, format_epsilon

NO_GUARANTEE = "it prices the choice among trials, not one trial"
# Searches whose trials are independent draws from a fixed distribution.
INDEPENDENT = ("random", "private_selection")


@dataclass(frozen=True, kw_only=True)
class Search:
    """How the trials of a sweep were chosen.

    `kind` is "random" (also for a grid from which configurations are drawn at random), or "grid",
    "tpe", "gp", "asha", ... `number` is the law of the number of trials; None where the number was
    chosen. `complete` is False where a budget, an early stop of the sweep or a retry changed which
    trials ran.
    """

    kind: str
    number: Number | None = None
    complete: bool = True


def by_law(law: str, *, mean: float) -> Search:
    """Independent draws whose number has this law ("geometric", "logarithmic", "poisson").

    Raises: CannotAnalyze for another law, or a mean below 1.
    """
    try:
        return Search(kind="private_selection", number=Number(law=law, mean=mean))
    except ValueError as problem:
        raise CannotAnalyze(f"selection: {problem}") from None


Configurations = Sequence[Training | Unaccounted]


def of_releases(configurations: Configurations, *, delta: float, search: Search) -> float:
    """Epsilon of the best trial, where each trial draws one of `configurations`.

    Costs the largest Rényi divergence of any configuration, order by order.

    Raises: CannotAnalyze where the theorem does not hold, or relations or units are mixed.
    """
    return certify(release_of(configurations, search=search), delta=delta).epsilon


def release_of(configurations: Configurations, *, search: Search) -> BestOf:
    """The release of a search that publishes only its best trial, for the ledger.

    Raises: as `of_releases`.
    """
    number = refuse(search)
    try:
        return BestOf(number=number, configurations=tuple(dict.fromkeys(configurations)))
    except ValueError as problem:
        raise CannotAnalyze(str(problem)) from None


def epsilon_of_choice_alone(search: Search, *, delta: float) -> float:
    """Epsilon of the choice among trials that cost nothing: a lower bound of every selection.

    Raises: CannotAnalyze where the theorem does not hold for the search.
    """
    nothing = np.zeros(len(renyi.ORDERS))
    return renyi.to_epsilon(renyi.best_of(nothing, refuse(search)), delta=delta)


def noise_for(
    at_unit_noise: Configurations, *, target_epsilon: float, delta: float, search: Search
) -> float:
    """The smallest noise multiplier, rounded up, with which a selection costs at most
    `target_epsilon`, where each trial draws one of `at_unit_noise`: what configurations release at
    noise multiplier 1.

    Raises: InvalidInput for a target that no noise reaches, because of the cost of the choice
    alone or of a noised histogram.
    """
    number, alone = refuse(search), epsilon_of_choice_alone(search, delta=delta)
    if alone >= target_epsilon:
        raise InvalidInput(
            f"no noise multiplier reaches target_epsilon={target_epsilon:g}: the choice among a"
            f" number of trials with mean {number.mean:g} alone costs {format_epsilon(alone)} at"
            f" delta {format_delta(delta)}"
        )

    def price(noise_multiplier: float) -> float:
        scaled = [what.scale_noise(noise_multiplier) for what in at_unit_noise]
        return of_releases(scaled, delta=delta, search=search)

    without = [
        replace(what, steps=()) if isinstance(what, Training) else what for what in at_unit_noise
    ]
    beside = of_releases(without, delta=delta, search=search)
    if beside >= target_epsilon:
        raise InvalidInput(
            f"no noise multiplier reaches target_epsilon={target_epsilon:g}: without the training"
            f" steps the selection costs {format_epsilon(beside)} (a noised histogram, or parts"
            " without an accountant)"
        )
    return smallest_noise_multiplier(price, target_epsilon=target_epsilon, precision=1e-5)


def refuse(search: Search) -> Number:
    """The law of the number of trials, where the theorem holds for the search.

    Raises: CannotAnalyze, naming the reason, where it does not.
    """
    if search.kind == "grid":
        raise CannotAnalyze(
            "selection: a grid run whole costs the composition of its trials (certify); only"
            " a number of trials drawn at random is priced as a selection"
        )
    if search.kind not in INDEPENDENT:
        raise CannotAnalyze(
            f"selection: the adaptive search {search.kind} looks at earlier results, so it costs"
            " the composition of its trials (certify)"
        )
    if search.number is None:
        raise CannotAnalyze(
            "selection: expected the number of trials drawn at random beforehand (its law and"
            " mean), got a number that was chosen"
        )
    if not search.complete:
        raise CannotAnalyze(
            "selection: a budget, an early end or a retry changed which trials ran, so they are"
            " not the number that was drawn"
        )
    return search.number
