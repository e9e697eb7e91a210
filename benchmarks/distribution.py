"""The times of one step's privacy loss distribution, of a composition of steps, of its
epsilon and of a Gaussian's over those of `dp_accounting`, which makes the first point
by point, scans each 40 times for the ends of the second and adds up in a loop for the
third: `python benchmarks/distribution.py`.

Medians of processor time over noise multipliers .8 to 2 at rate .0143 on a grid of
1e-4, of 1,000 steps, at delta 1e-5. Both give the same figures
(`tests/accountants/test_closed_forms.py` and `test_tightness.py`).
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from dp_accounting import NeighboringRelation, get_epsilon_gaussian
from dp_accounting.pld.privacy_loss_distribution import from_gaussian_mechanism

from trainables.dp.accounting import gaussian, pld

SIGMAS = (0.8, 0.9, 1.0, 1.2, 1.5, 2.0)
RATE, GRID, STEPS, DELTA = 0.0143, 1e-4, 1_000, 1e-5


def seconds(make: Callable[[], Any]) -> float:
    """Processor time of a call."""
    before = time.process_time()
    make()
    return time.process_time() - before


def compose(step: pld.Distribution) -> pld.Distribution:
    """Our composition of many equal steps."""
    return tuple(pld._self_composed(losses, STEPS) for losses in step)


def main() -> None:
    """Print a line for each neighbouring relation and quantity."""
    for relation in (
        NeighboringRelation.ADD_OR_REMOVE_ONE,
        NeighboringRelation.REPLACE_ONE,
    ):
        replaced = relation == NeighboringRelation.REPLACE_ONE
        library = partial(
            from_gaussian_mechanism,
            value_discretization_interval=GRID,
            sampling_prob=RATE,
            neighboring_relation=relation,
        )
        times: dict[str, list[tuple[float, float]]] = {}
        for sigma in SIGMAS:
            own = partial(pld._step.__wrapped__, sigma, RATE, GRID, replaced)
            step, known = own(), library(sigma)
            whole = compose(step)
            mu = 10 / sigma
            pairs: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
                "a step": (own, partial(library, sigma)),
                "a composition": (
                    partial(compose, step),
                    partial(known.self_compose, STEPS),
                ),
                "its epsilon": (
                    partial(pld.epsilon_at, whole, delta=DELTA),
                    partial(known.self_compose(STEPS).get_epsilon_for_delta, DELTA),
                ),
                "a Gaussian's": (
                    partial(gaussian.gaussian_epsilon.__wrapped__, mu, DELTA),
                    partial(get_epsilon_gaussian, 1 / mu, DELTA),
                ),
            }
            for what, (ours, theirs) in pairs.items():
                times.setdefault(what, []).append((seconds(ours), seconds(theirs)))
        for what, both in times.items():
            ratio = statistics.median(one / other for one, other in both)
            own_time, other = (
                statistics.median(each) for each in zip(*both, strict=True)
            )
            print(
                f"{relation.name.lower()}, {what}: {own_time:.4f} s, {ratio:.2f} of the"
                f" library's {other:.4f} s"
            )


if __name__ == "__main__":
    main()
