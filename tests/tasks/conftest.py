"""Trials have fixed keys and quick figures; they share step audits and features, which
are slow.
"""

import functools

import pytest

from tests.fixed_keys import fixed_keys
from tests.sweep.sweeps import medium_grids
from trainables.dp.engines import step_audit
from trainables.tasks import _trial_result

_audit_step = functools.cache(step_audit.audit_step)


@pytest.fixture(autouse=True)
def _fixed_keys(monkeypatch):
    monkeypatch.setattr(_trial_result, "audit_step", _audit_step)
    with fixed_keys(), medium_grids():
        yield


@pytest.fixture(scope="session")
def cache(tmp_path_factory):
    """A folder of features, which the encoder takes seconds for."""
    return tmp_path_factory.mktemp("cache")
