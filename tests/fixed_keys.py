"""Keys of noise and batches that are the same on every run of a test."""

import hashlib
import itertools
from contextlib import contextmanager

import pytest

from trainables.guarantee.noise import SecretKey
from trainables.tasks import _frame


@contextmanager
def fixed_keys():
    """Attempts of trials in this process get the keys of one fixed sequence, no two alike.

    The system's own keys would give other noise and other batches on each run, and a test of a
    trial's figures would fail now and then.
    """
    numbers = itertools.count()

    def next_key(comm):
        return SecretKey(hashlib.sha256(f"test/{next(numbers)}".encode()).digest())

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_frame, "new_key", next_key)
        yield
