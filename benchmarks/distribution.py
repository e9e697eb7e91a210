"""The time of one step's privacy loss distribution over that of `dp_accounting`, which makes it
point by point: `python benchmarks/distribution.py`.

Medians of processor time over noise multipliers .8 to 2 at rate .0143 on a grid of 1e-4. Both give
the same deltas to 1e-9 (`tests/accountants/test_closed_forms.py`).
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
RATE, GRID = 0.0143, 1e-4


def seconds(make: Callable[[], Any]) -> float:
    """Processor time of a call."""
    before = time.process_time()
    make()
    return time.process_time() - before


def main() -> None:
    """Print a line for each neighbouring relation."""
    for relation in (NeighboringRelation.ADD_OR_REMOVE_ONE, NeighboringRelation.REPLACE_ONE):
        replaced = relation == NeighboringRelation.REPLACE_ONE
        library = partial(
            from_gaussian_mechanism,
            value_discretization_interval=GRID,
            sampling_prob=RATE,
            neighboring_relation=relation,
        )
        ours, theirs = [], []
        for sigma in SIGMAS:
            ours.append(seconds(partial(pld._step.__wrapped__, sigma, RATE, GRID, replaced)))
            theirs.append(seconds(partial(library, sigma)))
        ratio = statistics.median(a / b for a, b in zip(ours, theirs, strict=True))
        print(
            f"{relation.name.lower()}: {statistics.median(ours):.3f} s, {ratio:.2f} of the"
            f" library's {statistics.median(theirs):.3f} s"
        )


if __name__ == "__main__":
    main()
