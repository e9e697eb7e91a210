"""Randomness is an argument: named, independent generators from one public seed.

Only for public randomness: initialisation, splits, dropout, bootstrap. The noise, the Poisson coins
and the micro-batch assignment come from a secret key (`privacy.noise`).
"""

from __future__ import annotations

import hashlib

import numpy as np


def stream_seed(seed: int, *names: str | int) -> int:
    """A 63-bit seed for the stream called `names`, independent between different names."""
    text = "/".join(str(part) for part in (seed, *names))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


def generator(seed: int, *names: str | int) -> np.random.Generator:
    """A NumPy generator for the stream called `names`.

    >>> bool(generator(0, "split").integers(2**60) == generator(0, "split").integers(2**60))
    True
    """
    return np.random.Generator(np.random.PCG64(stream_seed(seed, *names)))
