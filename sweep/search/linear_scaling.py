"""The next trial of a search by linear scaling (Panda et al. 2024, arXiv 2212.04486). Pure.

With T steps at learning rate eta, r = eta T is the total step size. The best r grows about linearly
with epsilon. Probes at two small epsilons find the best r of each, and a line through the two gives
the r of the last run, on which the rest of the budget is spent. All trials have equally many steps,
so the line is one of learning rates.

The cost of each trial is fixed before the first one. Only the learning rate depends on results, and
no accountant reads it, so the trials compose like any fixed ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from search_spaces.domains import Branch, Domain, branches
from search_spaces.linear_scaling import LEARNING_RATE, STAGES
from search_spaces.space import SearchSpace
from sweep.search.suggest import Observation, Suggestion
from trainables.errors import InvalidInput


def suggest(
    space: SearchSpace,
    observations: Sequence[Observation],
    *,
    epsilon_of: Callable[[Branch], float],
) -> Suggestion:
    """The next trial after `observations`; `epsilon_of` gives the epsilon of a trial of a stage.

    Raises: InvalidInput where no probe of a stage has a result, which the last run needs.
    """
    stages = {branch.variant.name: branch for branch in branches(space)}
    probes = ((space.search.num_samples or 0) - 1) // 2
    for name in STAGES[:2]:
        done = sum(one.variant == name for one in observations)
        if done < probes:
            return _at(stages[name], _domain(stages[name]).at((done + 0.5) / probes))
    points = [(epsilon_of(stages[name]), _best(observations, stage=name)) for name in STAGES[:2]]
    last = stages[STAGES[2]]
    return _at(last, _within(_domain(last), line(points, at=epsilon_of(last))))


def line(points: Sequence[tuple[float, float]], *, at: float) -> float:
    """The line through two points, at `at`.

    >>> line([(1.0, 2.0), (2.0, 3.0)], at=8.0)
    9.0
    """
    (first, low), (second, high) = points
    return low + (high - low) * (at - first) / (second - first)


def _best(observations: Sequence[Observation], *, stage: str) -> float:
    """The learning rate of a stage's best probe."""
    done = [one for one in observations if one.variant == stage and one.state == "done"]
    if not done:
        raise InvalidInput(
            f"expected a finished trial of {stage}, got none: the last run needs its learning rate"
        )
    return float(min(done, key=lambda one: one.objectives).values[LEARNING_RATE])


def _within(domain: Domain, rate: float) -> float:
    """The learning rate within the axis' range, which extrapolation may exceed."""
    assert domain.range is not None  # the space was read
    return float(domain.value(min(max(rate, domain.range.low), domain.range.high)))


def _domain(branch: Branch) -> Domain:
    return branch.domains[LEARNING_RATE]


def _at(branch: Branch, rate: float) -> Suggestion:
    return Suggestion(variant=branch.variant, values={LEARNING_RATE: rate})
