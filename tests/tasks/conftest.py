"""Trials of these tests have fixed keys, and those of heads share their features."""

import pytest

from tests.fixed_keys import fixed_keys


@pytest.fixture(autouse=True)
def _fixed_keys():
    with fixed_keys():
        yield


@pytest.fixture(scope="session")
def cache(tmp_path_factory):
    """A folder of features, which the encoder takes seconds for."""
    return tmp_path_factory.mktemp("cache")
