"""A few of the harness's rounds with fixed seeds: `python -m tests.torture` runs them for as long
as it is told.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.sweep.untracked import run_untracked
from tests.torture import bad_input
from tests.torture.damage import DAMAGES, Home
from tests.torture.outcome import Tally, run

# The first is a base whose task is a mapping, which ended in a traceback.
SEEDS = (3_000_129, *range(1, 25))


@pytest.mark.parametrize("seed", SEEDS)
def test_bad_input_is_an_answer_or_one_line(seed: int, tmp_path: Path) -> None:
    tally = Tally()
    bad_input.one(tmp_path, seed, tally)
    assert tally.findings == []
    assert set(tally.counts) <= {"answered", "refused"}


def test_the_harness_sees_a_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sweep.store.sweeps.names", lambda home: 1 / 0)
    tally = Tally()
    run(["list"], tally, how="broken on purpose")
    assert tally.counts == {"tracebacks": 1}
    assert "ZeroDivisionError" in tally.findings[0]


@pytest.mark.slow
@pytest.mark.parametrize("name", DAMAGES)
def test_a_damaged_file_is_noticed_or_harmless(name: str, tmp_path: Path) -> None:
    home = Home(run_untracked(tmp_path / "made"), tmp_path)
    tally = Tally()
    for place in home.files():
        if place.suffix in (".json", ".jsonl", ".yaml"):
            home.damage(name, place, 1, tally)
    assert tally.findings == []
    assert tally.counts["damages noticed"] > 0
