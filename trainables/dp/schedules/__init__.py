"""Noise decay d(t): the factor on the noise multiplier at epoch t (Dupuy et al. 2021,
section 3.3).

Each file is one schedule and has `factor(epoch, *, tau) -> float` with factor(0) == 1,
and `MARK`, the mark of its trials in charts: circle, triangle, square, diamond or
cross.
"""

ENTRIES = ("exponential", "linear", "none")
