"""Frequencies of prompts: counts of the records in public bins, with Gaussian noise.

A record is in one bin at most, so one record more or less changes one count by 1: with
noise of standard deviation sigma the counts are a Gaussian mechanism of that
multiplier. The bins are public (a declared list, or the prompts of the public part); a
record in none of them is not counted. Negative counts become 0 afterwards, which as
post-processing costs no epsilon.
"""

from collections import Counter
from collections.abc import Iterable, Sequence

import torch

from trainables.dp import box_muller  # noqa: F401  # the noise in less time
from trainables.dp.noise import SecretKey, add_noise_
from trainables.errors import InvalidInput


def counts_of(prompts: Iterable[str], bins: Sequence[str]) -> dict[str, float]:
    """How many of `prompts` are in each bin.

    Raises: InvalidInput where there is no bin.
    """
    if not bins:
        raise InvalidInput(
            "expected at least one public prompt for the histogram, got none"
        )
    found = Counter(prompts)
    return {name: float(found[name]) for name in bins}


def add_noise(
    counts: dict[str, float], *, std: float, key: SecretKey, trial_id: str
) -> dict[str, float]:
    """The counts with noise of standard deviation `std`, negative ones as 0.

    One trial's histogram may be drawn once from a key.
    """
    values = torch.tensor(list(counts.values()), dtype=torch.float64)
    add_noise_(
        values,
        stream=key.stream("histogram", trial_id),
        segments=[(slice(0, len(values)), std)],
    )
    return dict(zip(counts, values.clamp(min=0).tolist(), strict=True))
