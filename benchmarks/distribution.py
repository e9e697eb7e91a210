"""The times of one step's privacy loss distribution and of a composition of steps over those of
`dp_accounting`, which makes the first point by point and scans each 40 times for the ends of the
second: `python benchmarks/distribution.py`.

Medians of processor time over noise multipliers .8 to 2 at rate .0143 on a grid of 1e-4, of 1,000
steps. Both give the same figures (`tests/accountants/test_closed_forms.py`).
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from dp_accounting import NeighboringRelation
from dp_accounting.pld.privacy_loss_distribution import from_gaussian_mechanism

from trainables.guarantee import pld

SIGMAS = (0.8, 0.9, 1.0, 1.2, 1.5, 2.0)
RATE, GRID, STEPS = 0.0143, 1e-4, 1_000


def seconds(make: Callable[[], Any]) -> float:
    """Processor time of a call."""
    before = time.process_time()
    make()
    return time.process_time() - before


def main() -> None:
    """Print a line for each neighbouring relation and quantity."""
    for relation in (NeighboringRelation.ADD_OR_REMOVE_ONE, NeighboringRelation.REPLACE_ONE):
        replaced = relation == NeighboringRelation.REPLACE_ONE
        library = partial(
            from_gaussian_mechanism,
            value_discretization_interval=GRID,
            sampling_prob=RATE,
            neighboring_relation=relation,
        )
        times: dict[str, list[tuple[float, float]]] = {"a step": [], "a composition": []}
        for sigma in SIGMAS:
            own = partial(pld._step.__wrapped__, sigma, RATE, GRID, replaced)
            times["a step"].append((seconds(own), seconds(partial(library, sigma))))
            step = own()
            composed = (partial(pld._self_composed, step, STEPS), partial(step.self_compose, STEPS))
            times["a composition"].append((seconds(composed[0]), seconds(composed[1])))
        for what, both in times.items():
            ratio = statistics.median(ours / theirs for ours, theirs in both)
            ours, theirs = (statistics.median(each) for each in zip(*both, strict=True))
            print(
                f"{relation.name.lower()}, {what}: {ours:.3f} s, {ratio:.2f} of the library's"
                f" {theirs:.3f} s"
            )


if __name__ == "__main__":
    main()
