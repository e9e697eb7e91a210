"""Command lines and their place, for every suite of sweeps."""

from functools import partial

import pytest

from sweep.runtime import runner
from tests.sweep.line import Line
from tests.sweep.sweeps import TOY


@pytest.fixture
def place(tmp_path, monkeypatch):
    """The working directory, with a new home and its data."""
    monkeypatch.setenv("SWEEP_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("SWEEP_DATA_DIR", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def line(capsys):
    return Line(capsys)


@pytest.fixture
def toy_trials(monkeypatch):
    """Trials of a few milliseconds in the place of real ones."""
    for name in ("start", "resume"):
        monkeypatch.setattr(runner, name, partial(getattr(runner, name), function=TOY))
