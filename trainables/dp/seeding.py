"""Randomness is an argument: named, independent generators from one public seed.

Only for public randomness: initialisation, splits, dropout, bootstrap. The noise, the
Poisson sampling and the micro-batch assignment come from a secret key (`noise`).
"""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray

GOLDEN = np.uint64(
    0x9E3779B97F4A7C15
)  # the odd number next to 2**64 over the golden ratio


def stream_seed(seed: int, *names: str | int) -> int:
    """A 63-bit seed for the public stream called `names` under one public `seed`: equal
    arguments give equal seeds on every machine, and different names independent ones
    (SHA-256). Only for public randomness such as initial weights, splits and dropout;
    noise and sampling come from a `SecretKey`.
    """
    text = "/".join(str(part) for part in (seed, *names))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


def generator(seed: int, *names: str | int) -> np.random.Generator:
    """A NumPy generator for the public stream called `names` under `seed`, at its
    beginning: equal arguments draw equal numbers on every machine and NumPy version
    that keeps PCG64. Only for public randomness, as `stream_seed`.

    >>> bool(generator(0, "split").integers(2**60) == generator(0, "split").integers(2**60))
    True
    """
    return np.random.Generator(np.random.PCG64(stream_seed(seed, *names)))


def mix(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The output function of SplitMix64 (Steele et al. 2014) on each of `values`
    uint64[...]: a bijection that mixes all bits, so that neighbouring counters give
    numbers that look independent. Whole-number arithmetic modulo 2^64, equal on every
    machine; not a cipher.
    """
    with np.errstate(over="ignore"):
        mixed = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return mixed ^ (mixed >> np.uint64(31))


@contextmanager
def torch_seeded(seed: int) -> Iterator[None]:
    """A context in which torch draws from `seed` on the CPU, for initial weights that
    depend on nothing but the seed; at its end the global generator is as it was before.
    Generators of other devices are not touched, so build a model on the CPU and move it
    then.
    """
    import torch

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield
