"""Command lines, for every suite of sweeps."""

from __future__ import annotations

import pytest

from tests.sweep.line import Line


@pytest.fixture
def line(capsys: pytest.CaptureFixture[str]) -> Line:
    return Line(capsys)
