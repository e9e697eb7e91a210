"""Every command of the tutorial is run, in its order and as it stands there."""

import os
import re
import subprocess
import sys
from itertools import takewhile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "tutorial.md").read_text("utf-8")


def commands():
    """(command, its output on the page) of every prompt, and the Python of the page."""
    blocks = re.findall(r"^```\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    found = [
        (command, output)
        for block in blocks
        for command, _, output in (
            each.partition("\n") for each in block.split("$ ")[1:]
        )
    ]
    (code,) = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    return found, code


def run(command, place):
    """Standard output of a command in a shell, where `sweep` is this checkout's."""
    shim = place.parent / "bin" / "sweep"
    if not shim.exists():
        place.mkdir()
        shim.parent.mkdir()
        shim.write_text(f'#!/bin/sh\nexec {sys.executable} -m sweep "$@"\n')
        shim.chmod(0o755)
    known = {
        "PATH": f"{shim.parent}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "SWEEP_HOME": str(place.parent / "home"),
    }
    done = subprocess.run(
        command,
        shell=True,  # as the reader types it
        cwd=place,
        env=os.environ | known,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{command}\n{done.stderr}"
    return done.stdout


def test_the_commands_before_the_sweep_print_what_the_page_shows(tmp_path):
    found, _ = commands()
    first = list(takewhile(lambda each: not each[0].startswith("sweep run"), found))
    assert len(first) == 4
    for command, output in first:
        printed = run(command, tmp_path / "place")
        for line in output.splitlines():
            is_of_ids = re.match(r"\w{6}  ", line) or "CPUs" in line
            if line not in ("", "...") and not is_of_ids:
                assert line in printed.splitlines(), command


@pytest.mark.slow  # it trains the four trials of the page
def test_every_command_of_the_tutorial_runs(tmp_path):
    found, code = commands()
    assert len(found) == PAGE.count("\n$ ") >= 10
    for command, _ in found:
        run(command, tmp_path / "place")
    run(f"{sys.executable} - <<'E'\n{code}E", tmp_path / "place")
