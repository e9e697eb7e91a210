"""Are the draws of all steps of a run pairwise independent? Two-sided tests that share
one false-alarm rate, 1e-6, over all pairs.
"""

import itertools

import numpy as np
from scipy.stats import binom, norm

FALSE_ALARM = 1e-6


def check_vectors(rows):
    """Rows [T, D] of independent numbers of mean 0: no two correlate."""
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    found = np.abs(unit @ unit.T)[np.triu_indices(len(rows), 1)] * np.sqrt(
        rows.shape[1]
    )
    worst, limit = found.max(), norm.isf(FALSE_ALARM / (2 * len(found)))
    assert worst < limit, (
        f"two steps correlate: {worst:.1f} standard deviations of {limit:.1f}"
    )


def check_bits(rows, rate):
    """Rows [T, N] of independent bits that are True with probability `rate`: in two
    rows as many are True together as chance has it.
    """
    pairs = list(itertools.combinations(range(len(rows)), 2))
    both = np.array([np.count_nonzero(rows[a] & rows[b]) for a, b in pairs])
    level = FALSE_ALARM / (2 * len(pairs))
    low, high = (f(level, rows.shape[1], rate**2) for f in (binom.ppf, binom.isf))
    assert low <= both.min(), f"two steps share {both.min()}, not {low:g} or more"
    assert both.max() <= high, f"two steps share {both.max()}, not {high:g} or fewer"


def check_rate(rows, rate):
    """Rows [T, N] of bits that are True with probability `rate`: as many are as chance
    has it.
    """
    total, trials = rows.sum(), rows.size
    low, high = (f(FALSE_ALARM / 2, trials, rate) for f in (binom.ppf, binom.isf))
    assert low <= total <= high, (
        f"{total} of {trials} records drawn, not {low:g} to {high:g}"
    )
