"""A shell completes what exists: commands, sweeps, spaces, fields."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer._completion_shared import get_completion_script

from sweep import cli
from sweep.commands import _complete

SCRIPT = Path(sys.executable).with_name("sweep")


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("one", "other"):
        (tmp_path / "home" / name).mkdir(parents=True)
        (tmp_path / "home" / name / "sweep.jsonl").write_text("{}")
    (tmp_path / "mine.yaml").touch()
    (tmp_path / "spaces").mkdir()
    (tmp_path / "spaces" / "deep.yaml").touch()
    monkeypatch.setenv("SWEEP_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_sweeps_are_those_of_the_home(place, monkeypatch):
    assert sorted(_complete.sweeps("o")) == ["one", "other"]
    assert _complete.sweeps("ot") == ["other"]
    monkeypatch.setenv("SWEEP_HOME", str(place / "nowhere"))
    assert _complete.sweeps("") == []
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "nowhere")
    assert _complete.sweeps("") == [], "what is refused elsewhere is nothing to complete"


def test_spaces_are_shipped_ones_and_files(place):
    assert _complete.spaces("epsilon_") == ["epsilon_1", "epsilon_3", "epsilon_8"]
    assert _complete.spaces("m") == ["microbatch_frontier", "mine.yaml"]
    assert _complete.spaces("spa") == ["spaces/"]
    assert _complete.spaces("spaces/") == ["spaces/deep.yaml"]
    assert _complete.spaces(f"{place}/m") == [f"{place}/mine.yaml"]
    assert _complete.spaces("nowhere/") == []


def test_a_field_gets_its_sign_then_its_values():
    assert _complete.fields("privacy.micro") == ["privacy.microbatch_size"]
    assert _complete.assignments("privacy.micro") == ["privacy.microbatch_size="]
    assert {"model.name=bert", "model.name=clc"} <= set(_complete.assignments("model.name"))
    assert _complete.assignments("model.name=be") == ["model.name=bert"]
    assert "data.split_seed=" in _complete.assignments("data.split")
    assert _complete.assignments("nothing") == []


LINES = {
    "sweep re": {"report", "resume"},
    "sweep show on": {"one"},
    "sweep resume ot": {"other"},
    "sweep run qu": {"quick"},
    "sweep run quick --set model.nam": {"model.name="},
    "sweep run quick --tracking ml": {"mlflow"},
    "sweep fields budget.tot": {"budget.total"},
}


@pytest.mark.parametrize("line", LINES)
def test_a_line_is_completed(line, place, monkeypatch, capsys):
    """As the script that a shell runs asks for it."""
    monkeypatch.setenv("_SWEEP_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", line)
    monkeypatch.setenv("COMP_CWORD", str(len(line.split()) - 1))
    with pytest.raises(SystemExit):
        cli.build()(args=[], prog_name="sweep")
    assert set(capsys.readouterr().out.split()) == LINES[line]


def test_bash_completes_a_line(place):
    """By the script that `--install-completion` installs, in a real bash."""
    words = (line := "sweep run quick --set model.nam").split()
    source = get_completion_script(prog_name="sweep", complete_var="_SWEEP_COMPLETE", shell="bash")
    asked = (
        f"{source}\nCOMP_WORDS=({' '.join(words)}); COMP_CWORD={len(words) - 1};"
        f' _sweep_completion sweep; printf "%s\\n" "${{COMPREPLY[@]}}"'
    )
    path = os.pathsep.join([str(SCRIPT.parent), os.environ["PATH"]])
    done = subprocess.run(
        ["bash", "-c", asked], env={**os.environ, "PATH": path}, capture_output=True, text=True
    )
    assert set(done.stdout.split()) == LINES[line]


def test_it_is_installed_for_the_shell_that_asks(tmp_path):
    environment = {**os.environ, "HOME": str(tmp_path)}
    done = subprocess.run(
        ["bash", "-c", f"{SCRIPT} --install-completion; true"],
        env=environment, capture_output=True, text=True,
    )  # fmt: skip
    assert "bash completion installed" in done.stdout, done.stderr
    installed = tmp_path / ".bash_completions" / "sweep.sh"
    assert str(installed) in (tmp_path / ".bashrc").read_text()
    subprocess.run(["bash", "-n", str(installed)], check=True)
