"""The price of a private selection before it runs: of the best trial alone, and for
comparison of all of them. Pure but for `account`.
"""

from dataclasses import asdict, dataclass
from typing import Any

from search_spaces.expansion import at_ends
from search_spaces.independent_draws import NOISE
from search_spaces.space import SearchSpace
from sweep.planning import plan as planning
from sweep.planning.accounting import Accounting
from sweep.planning.covering import require_covered
from sweep.search.private_selection import law_of
from sweep.store.plans import Plan
from trainables.dp.accounting.accountants import selection
from trainables.dp.accounting.certification import certify
from trainables.dp.accounting.privacy_semantics import ClaimMeaning
from trainables.dp.accounting.releases import BestOf, Number, Release, of_training
from trainables.dp.accounting.rounding import format_delta, format_epsilon
from trainables.errors import InvalidInput


@dataclass(frozen=True, kw_only=True)
class SelectionPrice:
    """Both prices of a private selection at `delta`.

    `epsilon_selected` holds where only the best trial is released. `epsilon_composed`
    is the composition of the (rounded) mean number of trials of the costliest
    configuration, and `epsilon_one_trial` the cost of one of them. `claim` is the
    meaning of `epsilon_selected` for an attacker. The ledger is charged with `release`;
    `configurations` are the releases of a trial of each configuration.
    """

    law: str
    mean: float
    delta: float
    epsilon_selected: float
    epsilon_composed: float
    epsilon_one_trial: float
    num_configurations: int
    claim: ClaimMeaning
    release: BestOf
    configurations: tuple[Release, ...]

    def to_dict(self) -> dict[str, Any]:
        """The figures for JSON and the card, those of the claim beside the others."""
        figures = {
            name: each for name, each in vars(self).items() if name not in _BESIDE
        }
        return figures | asdict(self.claim)

    def sentence(self) -> str:
        """A sentence with both prices."""
        selected, composed, one = map(
            format_epsilon,
            (self.epsilon_selected, self.epsilon_composed, self.epsilon_one_trial),
        )
        return (
            f"The best of a {self.law} number of trials with mean {self.mean:g}, drawn"
            f" from {self.num_configurations} configurations: epsilon_selected"
            f" {selected} at delta {format_delta(self.delta)}. One trial: {one};"
            f" {round(self.mean)} trials that are all shown: {composed}."
        )


_OFF = 1.01  # times a target: what two versions of an accountant may differ by
_BESIDE = {"claim", "release", "configurations"}


def priced(
    space: SearchSpace, *, account: Accounting
) -> tuple[SearchSpace, Plan, SelectionPrice]:
    """A private selection with the noise that its target needs, its plan and its price.

    Raises: InvalidInput where no noise reaches the target, or one that was given misses
    it; for a mean above the number of points of a space without ranges, a range that
    changes the cost of a trial, configurations with different units of privacy, a
    `budget.total` that the selection exceeds.
    """
    law, target = law_of(space), space.search.target_epsilon
    number = Number(law=law.law, mean=law.mean)
    if target is not None and NOISE not in space.override:
        _, releases, delta = _configurations(_at_noise(space, 1.0), account)
        found = selection.noise_for(
            releases, target_epsilon=target, delta=delta, number=number
        )
        space = _at_noise(space, found)
    plan, releases, delta = _configurations(space, account)
    ends = [[*at_ends(space, trial.variant, trial.values)] for trial in plan.to_run]
    if not any(ends) and law.mean > len(ends):
        raise InvalidInput(
            f"expected search.num_trials.mean of at most {len(ends)}, the points of the"
            f" space, got {law.mean:g}"
        )
    for release, along in zip(releases, ends, strict=True):
        # The middle of a range, which was priced, costs what its ends do.
        for path, point in along:
            config = point.config
            if config and of_training(account.mechanism(config)) != release:
                raise InvalidInput(
                    f"axes.{path}: expected a list of values with strategy"
                    f" private_selection, got"
                    " a range along which a trial's epsilon changes"
                )
    chosen = selection.release_of(releases, number=number)
    claim = selection.claim_of(chosen, delta=delta)
    selected, total = claim.epsilon, space.budget.total
    if total is not None and selected > total:
        alone = selection.epsilon_of_choice_alone(number, delta=delta)
        if alone > total:
            raise InvalidInput(
                f"expected budget.total of at least {format_epsilon(alone)}, what the"
                f" choice alone"
                f" costs among a number of trials with mean {law.mean:g}, got {total:g}"
            )
        raise InvalidInput(
            f"the selection costs epsilon {format_epsilon(selected)} at delta"
            f" {format_delta(delta)}, which exceeds budget.total={total:g}"
        )
    # The calibrated noise is an override, too, and may be slightly off under another
    # version.
    if target is not None and selected > _OFF * target:
        raise InvalidInput(
            f"expected no {NOISE} with search.target_epsilon={target:g}: one value for"
            f" all trials is found for the target, got {space.override.get(NOISE)},"
            f" with which the selection costs epsilon {format_epsilon(selected)}"
        )
    of_dearest = max(
        releases,
        key=lambda what: certify(what, delta=delta, effort="plan").epsilon,
    )
    every = [of_dearest] * max(1, round(law.mean))
    composed = certify(every, delta=delta).epsilon
    price = SelectionPrice(
        law=law.law,
        mean=law.mean,
        delta=delta,
        epsilon_selected=selected,
        epsilon_composed=composed,
        epsilon_one_trial=certify(of_dearest, delta=delta).epsilon,
        num_configurations=len(releases),
        claim=claim.meaning,
        release=chosen,
        configurations=tuple(dict.fromkeys(releases)),
    )
    return space, plan, price


def _configurations(
    space: SearchSpace, account: Accounting
) -> tuple[Plan, selection.Configurations, float]:
    """The plan of the configurations that trials are drawn from, what a trial of each
    releases, and the smallest delta.
    """
    plan = planning.make(space, account=account)
    planning.require_one_corpus(space, plan)
    planning.require_trials(plan)
    require_covered(space, plan)
    mechanisms = [account.mechanism(trial.config) for trial in plan.to_run]
    if any(mechanism.starts for mechanism in mechanisms):
        raise InvalidInput(
            "expected a public encoder with strategy private_selection, got an export"
            " that was"
            " trained on records of this data set: another strategy composes with it"
        )
    releases = [of_training(mechanism) for mechanism in mechanisms]
    return plan, releases, min(mechanism.delta for mechanism in mechanisms)


def _at_noise(space: SearchSpace, noise_multiplier: float) -> SearchSpace:
    """The space with one noise multiplier in every trial."""
    return space.model_copy(
        update={"override": {**space.override, NOISE: noise_multiplier}}
    )
