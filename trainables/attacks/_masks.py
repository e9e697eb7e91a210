"""Check that membership masks are independent coins, as trials used as references require."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from trainables.attacks import one_run
from trainables.attacks._signals import Signals
from trainables.errors import InvalidInput


def refuse_dependent_masks(trials: Sequence[Signals]) -> None:
    """Raises: InvalidInput where the trials' masks are not independent fair coins.

    Two trials with one mask, or a design that gives every record the same number of trials, would
    reveal a target's coin through the others'. Refused are a correlation of two masks beyond 6
    standard errors, and a variance of a record's number of trials outside 1/2 to 2 of a binomial's.
    Independent coins are refused with probability below 1e-4. A record of a trial's population has
    no coin in it, and trials of one `data.split_seed` have the same population.
    """
    first = trials[0]
    rows = first.is_evaluated
    if first.mode == "paired":  # the other of a pair repeats the coin
        rows = rows & np.isin(
            np.arange(len(first)), one_run.pair_rows(np.where(rows, first.pairs, -1))[0]
        )
    masks = np.stack(
        [np.where(trial.population, 0.0, trial.member - 0.5)[rows] for trial in trials]
    ).astype(np.float32)
    n = masks.shape[1]
    correlation = 4 * (masks @ masks.T) / n
    np.fill_diagonal(correlation, 0.0)
    worst = float(np.abs(correlation).max())
    if worst > 6 / np.sqrt(n):
        raise InvalidInput(
            f"expected an independent membership mask for each trial, got two of correlation"
            f" {worst:.3f}"
        )
    spread = float(masks.sum(axis=0).var() / np.square(masks).sum(axis=0).mean())
    if n >= 500 and not 0.5 < spread < 2:
        raise InvalidInput(
            "expected independent membership masks, got a number of trials a record whose variance"
            f" is {spread:.2f} of that of coins"
        )
