"""Command lines and their place, for every suite of sweeps."""

import pytest

from tests.sweep.line import Line


@pytest.fixture
def place(tmp_path, monkeypatch):
    """The working directory, with a new home."""
    monkeypatch.setenv("SWEEP_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def line(capsys):
    return Line(capsys)
