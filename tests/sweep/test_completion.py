"""A shell completes what exists: commands, sweeps, spaces, fields."""

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
def place(tmp_path, monkeypatch):
    for name in ("one", "other"):
        (tmp_path / "home" / name).mkdir(parents=True)
        (tmp_path / "home" / name / "sweep.jsonl").write_text("{}")
    (tmp_path / "mine.yaml").touch()
    (tmp_path / "spaces").mkdir()
    (tmp_path / "spaces" / "deep.yaml").touch()
    monkeypatch.setenv("SWEEP_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


LINES = {
    "sweep re": {"report", "resume"},
    "sweep show on": {"one"},
    "sweep resume ot": {"other"},
    "sweep run qu": {"quick"},
    "sweep run m": {"microbatch_frontier", "mine.yaml"},
    "sweep run spa": {"spaces/"},
    "sweep run spaces/": {"spaces/deep.yaml"},
    "sweep run nowhere/": set(),
    "sweep run quick --set privacy.micro": {"privacy.microbatch_size="},
    "sweep run quick --set model.name=be": {"model.name=bert"},
    "sweep run quick --set nothing": set(),
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


@pytest.mark.parametrize("variable", ["SWEEP_HOME", "MLFLOW_TRACKING_URI"])
def test_what_is_refused_elsewhere_is_nothing_to_complete(variable, place, monkeypatch):
    monkeypatch.setenv(variable, "nowhere")
    assert _complete.sweeps("") == []


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
