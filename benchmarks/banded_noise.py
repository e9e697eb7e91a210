"""Would noise that is correlated over b steps (banded matrix factorisation, Choquette-Choo et al.
2023) be worth its code on ATIS? Noise over a run at epsilon 8, beside that of larger batches.

    python benchmarks/banded_noise.py

With bands of b steps the records are split into b parts, step i samples part i mod b at rate
b B / n, and the noise of step i is row i of C^-1 Z for a lower-triangular Toeplitz C with b
coefficients of norm 1. A record's columns do not overlap, so that T steps cost as T / b
Poisson-sampled Gaussian steps.

`mean` is the standard deviation of the noise in the mean gradient of the run, in units of C per
coordinate; `prefix` that of the iterates under plain gradient descent, root mean square over steps.
The last two columns are of b times the batch in a b-th of the steps, with independent noise of the
same sigma: it has seen as many records.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.linalg import solve_triangular, toeplitz

from trainables.accountants import certify
from trainables.accountants._calibration import smallest_noise_multiplier
from trainables.guarantee.releases import Sampled, Training

NUM_RECORDS, DELTA, EPSILON = 2_463, 1e-5, 8.0
RUNS = ((64, 576), (128, 448), (256, 304))  # batch size, steps
BANDS = (1, 2, 4, 8, 16)


def noise_multiplier(batch: int, steps: int) -> float:
    """The least sigma with which the run costs EPSILON, rounded up."""

    def epsilon(sigma: float) -> float:
        step = Sampled(sigma=sigma, rate=batch / NUM_RECORDS, count=steps)
        what = Training(steps=(step,), neighboring_relation="add_or_remove_one")
        return certify(what, delta=DELTA, effort="plan").epsilon

    return smallest_noise_multiplier(epsilon, target_epsilon=EPSILON, precision=1e-3)


def coefficients(band: int) -> np.ndarray:
    """Of C: those of (1 - x)^(-1/2), near the best for sums (Fichtenberger et al. 2023)."""
    found = np.ones(band)
    for k in range(1, band):
        found[k] = found[k - 1] * (2 * k - 1) / (2 * k)
    return found / np.linalg.norm(found)


def noise_of_run(sigma: float, band: int, batch: int, steps: int) -> tuple[float, float]:
    """(mean, prefix) of a run."""
    column = np.zeros(steps)
    column[:band] = coefficients(band)
    inverse = solve_triangular(toeplitz(column, np.zeros(steps)), np.eye(steps), lower=True)
    sums = np.cumsum(inverse, axis=0)  # row i: the noise in the sum of the first i + 1 updates
    of_one = sigma / (batch * steps)
    mean = of_one * float(np.linalg.norm(sums[-1]))
    return mean, of_one * math.sqrt(float((sums**2).sum()) / steps)


def main() -> None:
    """Print the table."""
    print("| B | steps | band | sigma | mean | prefix | larger batch: mean | prefix |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for batch, steps in RUNS:
        for band in BANDS:
            if batch * band > NUM_RECORDS:
                continue
            sigma = noise_multiplier(batch * band, steps // band)
            figures = (
                *noise_of_run(sigma, band, batch, steps),
                *noise_of_run(sigma, 1, batch * band, steps // band),
            )
            shown = " | ".join(f"{figure:.3g}" for figure in figures)
            print(f"| {batch} | {steps} | {band} | {sigma:.3f} | {shown} |", flush=True)


if __name__ == "__main__":
    main()
