"""A shell completes commands and the values of their options."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer._completion_shared import get_completion_script

from sweep import cli

SCRIPT = Path(sys.executable).with_name("sweep")


LINES = {"sweep re": {"report", "resume"}, "sweep run quick --tracking ml": {"mlflow"}}


@pytest.mark.parametrize("line", LINES)
def test_a_line_is_completed(line, monkeypatch, capsys):
    """As the script that a shell runs asks for it."""
    monkeypatch.setenv("_SWEEP_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", line)
    monkeypatch.setenv("COMP_CWORD", str(len(line.split()) - 1))
    with pytest.raises(SystemExit):
        cli.build()(args=[], prog_name="sweep")
    assert set(capsys.readouterr().out.split()) == LINES[line]


def test_bash_completes_a_line():
    """By the script that `--install-completion` installs, in a real bash."""
    words = (line := "sweep re").split()
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
