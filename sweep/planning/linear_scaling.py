"""The stages of a search by linear scaling and their budgets, fixed beforehand."""

from __future__ import annotations

import itertools
from typing import Any

from search_spaces.expansion import Point, point_at, searched_variants
from search_spaces.independent_draws import NOISE
from search_spaces.linear_scaling import LEARNING_RATE, stages_as_variants
from search_spaces.paths import is_within
from search_spaces.space import SearchSpace
from sweep.spending.account import Account
from trainables import accountants
from trainables.errors import InvalidInput
from trainables.privacy.mechanism import Mechanism


def with_stages(space: SearchSpace, *, account: Account) -> SearchSpace:
    """The space whose variants are its stages: probes at their shares of `budget.total`, and a last
    run whose noise makes all of them together cost the total.

    Raises: InvalidInput where the probes leave no budget to the last run, or an override sets the
    learning rate or the noise.
    """
    for field, path in itertools.product((LEARNING_RATE, NOISE), space.override):
        if is_within(field, path):
            raise InvalidInput(
                f"expected no override of {field} with strategy linear_scaling, which finds it, got"
                f" {path}"
            )
    total, samples = space.budget.total, space.search.num_samples
    assert total is not None  # the space was read
    assert samples is not None
    shares = [{"target_epsilon": share * total} for share in space.search.probe_shares]
    first, second, last = (_mechanism(space, noise, account=account) for noise in (*shares, 1.0))
    probes = [accountants.release(each) for each in (first, second)] * ((samples - 1) // 2)
    noise = accountants.noise_beside(
        accountants.release(last), probes, target_epsilon=total, delta=last.delta
    )
    return stages_as_variants(space, (first.noise_multiplier, second.noise_multiplier, noise))


def _mechanism(space: SearchSpace, noise: Any, *, account: Account) -> Mechanism:
    (variant,) = searched_variants(space)
    spread = space.axes[LEARNING_RATE].range
    assert spread is not None  # the space was read
    point: Point
    (point,) = point_at(space, variant, {LEARNING_RATE: spread.at(0.5), NOISE: noise})
    if point.config is None or point.reason is not None:
        raise InvalidInput(str(point.reason))
    return account(point.config).mechanism
