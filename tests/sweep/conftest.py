from functools import partial

import pytest

from sweep.runtime import runner
from tests.sweep.line import Line
from tests.sweep.sweeps import TOY, settings_in
from trainables.io.documents import format_yaml


@pytest.fixture
def place(tmp_path, monkeypatch):
    """The working directory, with a new home and its data."""
    monkeypatch.setenv("SWEEP_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("SWEEP_DATA_DIR", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def settings(tmp_path):
    """A home and a data directory of their own."""
    return settings_in(tmp_path)


@pytest.fixture
def line(capsys):
    return Line(capsys)


@pytest.fixture
def toy_trials(monkeypatch):
    """Trials of a few milliseconds in the place of real ones."""
    for name in ("start", "resume", "extend"):
        monkeypatch.setattr(runner, name, partial(getattr(runner, name), function=TOY))


@pytest.fixture
def pretraining(tmp_path):
    """The file of a pretraining of a tiny encoder on little text."""
    from tests.encoders import family_folders  # which loads PyTorch

    family_folders.write(tmp_path / "bert", "bert")
    file = tmp_path / "tiny.yaml"
    corpus = {"name": "video", "num_utterances": 1_000, "max_records": 200}
    fields = {"name": "tiny", "corpora": [corpus], "epochs": 1}
    file.write_text(
        format_yaml(fields | {"encoder": {"encoder": str(tmp_path / "bert")}})
    )
    return file
