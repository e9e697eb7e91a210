"""Every command of the tutorial is run, in its order and as it stands there."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "tutorial.md").read_text("utf-8")


def commands():
    """(command, first line of its output) of every prompt, and the Python of the page."""
    found = re.findall(r"^\$ (.+)\n(.*)$", PAGE, re.MULTILINE)
    (code,) = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    return found, code


def test_the_tutorial_has_its_commands():
    found, code = commands()
    words = [command for command, _ in found]
    assert words[0].startswith("sweep data convert communication")
    assert len(words) == PAGE.count("\n$ ") >= 10
    assert "sweep.load_model" in code


@pytest.mark.slow  # it trains the four trials of the page
def test_every_command_of_the_tutorial_runs(tmp_path):
    shim = tmp_path / "bin" / "sweep"
    shim.parent.mkdir()
    shim.write_text(f'#!/bin/sh\nexec {sys.executable} -m sweep "$@"\n')
    shim.chmod(0o755)
    place = tmp_path / "place"
    place.mkdir()
    known = {
        "PATH": f"{shim.parent}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "SWEEP_HOME": str(tmp_path / "home"),
    }
    found, code = commands()
    for command, first in [*found, (f"{sys.executable} - <<'E'\n{code}E", "")]:
        done = subprocess.run(
            command,
            shell=True,  # as the reader types it
            cwd=place,
            env=os.environ | known,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, f"{command}\n{done.stderr}"
        print(f"$ {command}\n{done.stdout}")
        if first.startswith("requests.csv"):
            assert done.stdout.split("\n")[0] == first
