"""Figures of records that a trial does not train on, released with noise.

A release has sums over the units of one part. A unit adds a whole number between 0 and
a bound to each, whatever the unit is, so that one unit more or less moves a sum by at
most its bound. Each of J sums gets noise of standard deviation sqrt(J) * bound * s:
together they are a Gaussian mechanism of noise multiplier s. A release that pays for
`epochs` epochs at once has 1 / sqrt(epochs) of the noise, which composes to as much.

The noise is a normal number rounded to a whole one, and is added to a whole sum: what
is released is a rounding of the sum plus Gaussian noise, so it has the guarantee of the
Gaussian mechanism at every (epsilon, delta). The low bits of a floating-point sum
(Mironov 2012) do not exist. The discrete Gaussian of Canonne, Kamath & Steinke (2020)
has none either, but is not known to be as private at every pair.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import mpmath
import numpy as np
from numpy.typing import NDArray

from trainables.errors import TrialFailed

if TYPE_CHECKING:  # planning reads the size of the noise, and needs no torch
    from trainables.dp.noise import SecretKey

Integers = NDArray[np.int64]
_BYTES = 32  # of a uniform number: a probability is off by less than 2^-250
_DIGITS = 100  # of the arithmetic, more than those of any probability


def rounded_gaussian(stream: bytes, *, std: float) -> int:
    """A normal number of standard deviation `std` > 0, rounded to a whole one: the
    quantile of the first 32 bytes of `stream`, as a uniform number, in exact
    arithmetic.

    >>> rounded_gaussian(bytes([0] * 31 + [128] + [0] * 32), std=10.0)
    0
    """
    number = 2 * int.from_bytes(stream[:_BYTES], "little") + 1
    with mpmath.workdps(_DIGITS):
        centred = mpmath.mpf(number) / 2 ** (8 * _BYTES) - 1  # 2 u - 1
        normal = mpmath.sqrt(2) * mpmath.erfinv(centred)
        return int(mpmath.floor(mpmath.mpf(std) * normal + mpmath.mpf("0.5")))


@dataclass(frozen=True, kw_only=True, eq=False)
class Contributions:
    """What each unit of a part adds to one sum, whole numbers [n], and the `bound` to
    which they are cut, at least 1. An empty part has no unit.
    """

    values: Integers
    bound: int

    @property
    def sum(self) -> int:
        """The sum of the cut contributions."""
        return int(np.clip(self.values, 0, self.bound).sum(dtype=np.int64))


@dataclass(frozen=True, kw_only=True)
class Released:
    """A sum with its noise, of standard deviation `std`. It may be below 0."""

    value: int
    std: float


@dataclass(eq=False)
class HeldOut:
    """The releases of one attempt at a trial about its validation and test parts, with
    noise from the attempt's own `key`. `noise` is that of one evaluation over its
    sensitivity (`Mechanism.held_out_noise`).
    """

    noise: float
    key: SecretKey
    trial_id: str
    _paid: dict[str, range] = field(default_factory=dict, init=False)

    def release(
        self, part: str, sums: Mapping[str, Contributions], *, epochs: range
    ) -> dict[str, Released]:
        """The sums of a part, with noise that the charge of these `epochs` pays for.
        Each epoch pays for one release of a part.

        Raises: TrialFailed for epochs of which one has paid, or none.
        """
        before = self._paid.get(part, range(0))
        if not epochs or epochs.step != 1 or epochs.start < before.stop:
            raise TrialFailed(
                f"expected epochs that have paid for no figure of the {part} records,"
                f" got {epochs.start + 1} to {epochs.stop}"
            )
        self._paid[part] = range(before.start, epochs.stop)
        found = {}
        for name, each in sums.items():
            std = self.std(each.bound, num_sums=len(sums), num_epochs=len(epochs))
            stream = self.key.stream(
                "held out", self.trial_id, part, epochs.start, epochs.stop, name
            )
            noise = rounded_gaussian(stream, std=std)
            found[name] = Released(value=each.sum + noise, std=std)
        return found

    def std(self, bound: int, *, num_sums: int, num_epochs: int) -> float:
        """Standard deviation of the noise on one of `num_sums` sums of a release."""
        return noise_on_sum(
            self.noise, bound=bound, num_sums=num_sums, num_epochs=num_epochs
        )


def noise_on_sum(
    noise: float, *, bound: int, num_sums: int = 1, num_epochs: int = 1
) -> float:
    """Standard deviation of the noise on one of `num_sums` sums to each of which a unit
    adds at most `bound`, with `noise` over the sensitivity of an evaluation that one of
    `num_epochs` epochs pays for.

    >>> noise_on_sum(0.85, bound=3)
    2.55
    """
    return noise * bound * math.sqrt(num_sums / num_epochs)


def ratio_interval(
    errors: Released, labels: Released, *, bounds: tuple[int, int], least: float
) -> tuple[float, float, float]:
    """A ratio of two released sums, and an interval of at least 95 % for that of a
    larger population of which the units are a sample: (ratio, low, high), each at
    least 0. `least` > 0 is a declared floor of the denominator.

    No square of a contribution is released: a sum of squares is at most the bound times
    the sum. The variance is that of the units, and that of the noise of both sums, at
    the largest sums and the smallest denominator that the noise allows.
    """
    total = max(float(labels.value), least)
    ratio = max(float(errors.value), 0.0) / total
    most_errors, most_labels = (
        max(float(each.value), 0.0) + _NORMAL * each.std for each in (errors, labels)
    )
    low_total = max(labels.value - _NORMAL * labels.std, least)
    largest = most_errors / low_total
    variance = (
        bounds[0] * most_errors
        + largest**2 * bounds[1] * most_labels
        + errors.std**2
        + (largest * labels.std) ** 2
    )
    half = _NORMAL * math.sqrt(variance) / low_total
    return ratio, max(0.0, ratio - half), ratio + half


_NORMAL = 1.96
