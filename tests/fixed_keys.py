import hashlib
import itertools
from contextlib import contextmanager

import pytest

from trainables import dry_run
from trainables.dp.noise import SecretKey
from trainables.tasks import _trial_result


@contextmanager
def fixed_keys():
    """Attempts of trials in this process get the keys of one fixed sequence, no two
    alike, so that a test of their figures does not fail now and then. Dry runs take
    none of them: a trial's key would depend on the tests before it, because trials that
    are alike have one dry run.
    """
    numbers, own_key, attempt = itertools.count(), _trial_result.new_key, dry_run._try

    def next_key(comm):
        return SecretKey(hashlib.sha256(f"test/{next(numbers)}".encode()).digest())

    def apart(*what):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(_trial_result, "new_key", own_key)
            attempt(*what)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_trial_result, "new_key", next_key)
        patch.setattr(dry_run, "_try", apart)
        yield
