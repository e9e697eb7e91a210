"""Command lines, for every suite of sweeps."""

import pytest

from tests.sweep.line import Line


@pytest.fixture
def line(capsys):
    return Line(capsys)
