"""`sweep reproduce table1 --smoke` on ATIS: interrupted, gone on with, and its table."""

from __future__ import annotations

import csv
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

DATA = Path(os.environ.get("SWEEP_DATA_DIR", "data")).absolute()
COMMAND = [sys.executable, "-m", "sweep", "reproduce", "table1", "--smoke"]
PATIENCE = 1_200.0  # seconds


def heed_interrupts() -> None:
    """A shell starts background jobs with Ctrl-C ignored, which programs below inherit."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def start(home: Path, errors: Path) -> subprocess.Popen[bytes]:
    given = {
        **os.environ,
        "SWEEP_HOME": str(home),
        "SWEEP_DATA_DIR": str(DATA),
        "SWEEP_TRACKING": "none",
    }
    with errors.open("wb") as file:
        return subprocess.Popen(
            COMMAND,
            cwd=Path(__file__).parents[3],
            env=given,
            stdout=subprocess.DEVNULL,
            stderr=file,
            preexec_fn=heed_interrupts,
        )


@pytest.mark.slow  # trains 11 small models
@pytest.mark.skipif(not (DATA / "atis").exists(), reason="needs ATIS in $SWEEP_DATA_DIR")
def test_an_interrupted_smoke_version_goes_on_to_its_table(tmp_path: Path) -> None:
    home, errors = tmp_path / "home", tmp_path / "errors"
    first = start(home, errors)
    deadline = time.monotonic() + PATIENCE
    while "stage 2 of 4" not in errors.read_text() and time.monotonic() < deadline:
        assert first.poll() is None, errors.read_text()
        time.sleep(0.2)
    first.send_signal(signal.SIGINT)
    assert first.wait(timeout=120) == 130
    assert "interrupted: every finished epoch is saved" in errors.read_text()
    before = {path: path.read_bytes() for path in home.glob("*/trials/*/result.json")}
    assert len(before) >= 2

    second = start(home, errors)
    assert second.wait(timeout=PATIENCE) == 0, errors.read_text()
    said = errors.read_text()
    assert "-coarse-none" in said.splitlines()[0]
    assert said.splitlines()[0].endswith(": has ended")
    assert {path: path.read_bytes() for path in before} == before
    with (home / "reproduction" / "table1.csv").open() as file:
        rows = {row["method"]: row for row in csv.DictReader(file)}
    assert list(rows) == ["sgd", "none", "linear", "exponential", "dp"]
    for method, row in rows.items():
        assert 0 < float(row["ser"]) < 1
        assert 0 < float(row["mia"]) < 1
        assert bool(row["ser_change_low"]) == (method != "sgd")
    assert float(rows["dp"]["epsilon"]) <= 8
    text = (home / "reproduction" / "table1.md").read_text()
    assert "| atis | clc | paper | 6.3 | 67.5 |" in text
    assert text.count("| best |") == 3
