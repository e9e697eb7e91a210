"""Trials of these tests have fixed keys and quick figures, and those of heads share features."""

import pytest

from tests.fixed_keys import fixed_keys
from tests.sweep.sweeps import medium_grids


@pytest.fixture(autouse=True)
def _fixed_keys():
    with fixed_keys(), medium_grids():
        yield


@pytest.fixture(scope="session")
def cache(tmp_path_factory):
    """A folder of features, which the encoder takes seconds for."""
    return tmp_path_factory.mktemp("cache")
