import pytest

from tests.sweep.sweeps import settings_in


@pytest.fixture
def settings(tmp_path):
    """A home and a data directory of their own."""
    return settings_in(tmp_path)
