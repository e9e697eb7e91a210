"""A table is run once, goes on where it stopped, and never mixes rows of different settings."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sweep.reproduction import collect, run, stages, steps
from sweep.reproduction.description import Pair, Table
from sweep.runtime.events import Interrupted
from sweep.store import sweeps as store
from tests.sweep.reproduction.small_table import (
    FAILING,
    MEASURED,
    PAIR,
    STOPPING,
    reproduce,
    small_table,
)
from tests.sweep.results.test_select import record
from tests.sweep.sweeps import settings_in
from trainables.errors import InvalidInput


def epochs_written(folder: Path) -> dict[str, str]:
    """What every trial of every sweep has written about its epochs."""
    found = (folder / "home").glob("*/trials/*/trained.txt")
    return {str(path.relative_to(folder)): path.read_text() for path in found}


def rows(folder: Path, table: Table) -> list[tuple[str, str, int]]:
    found = steps.rows(table, [PAIR], settings_in(folder).home)
    return [(row.part, row.method, row.seeds) for row in found]


def test_a_table_is_run_to_its_end_and_only_once(tmp_path: Path) -> None:
    table, said = small_table(tmp_path), list[str]()
    assert reproduce(tmp_path, table, say=said.append) == []
    heads = [line for line in said if line.startswith("stage")]
    assert [re.sub("-[0-9a-f]{6}$", "", head) for head in heads] == [
        "stage 1 of 4: table1-mine-clc-coarse-none",
        "stage 2 of 4: table1-mine-clc-coarse-linear",
        "stage 3 of 4: table1-mine-clc-full",
        "stage 4 of 4: table1-mine-clc-leakage",
    ]
    full = [("full", name, 2) for name in ("sgd", "none", "linear")]
    assert rows(tmp_path, table)[:3] == full
    assert {part for part, *_ in rows(tmp_path, table)[3:]} == {"leakage"}
    files = {path.name for path in (tmp_path / "out").iterdir()}
    assert files == {"table1.md", "table1.csv", "table1_points.csv"}
    before, again = epochs_written(tmp_path), list[str]()
    assert reproduce(tmp_path, table, say=again.append) == []
    assert again == [f"{head}: has ended" for head in heads]
    assert epochs_written(tmp_path) == before


def test_an_interrupted_table_goes_on_and_repeats_nothing(tmp_path: Path) -> None:
    table = small_table(tmp_path)
    home = settings_in(tmp_path).home
    home.mkdir()
    (home / "stop_at").write_text("6")  # in the full stage, after two of six trials
    with pytest.raises(Interrupted):
        reproduce(tmp_path, table, function=STOPPING)
    before = epochs_written(tmp_path)
    assert len(before) == 6
    assert reproduce(tmp_path, table, function=STOPPING) == []
    after = epochs_written(tmp_path)
    assert {name: after[name] for name in before} == before
    assert rows(tmp_path, table)[:3] == [("full", n, 2) for n in ("sgd", "none", "linear")]


def test_changed_settings_leave_earlier_rows_out(tmp_path: Path) -> None:
    table = small_table(tmp_path)
    reproduce(tmp_path, table)
    changed = small_table(tmp_path, assignments={"training.learning_rate": 0.002})
    assert rows(tmp_path, changed) == []
    reproduce(tmp_path, changed)
    home = settings_in(tmp_path).home
    sers = [[r.ser for r in steps.rows(each, [PAIR], home)] for each in (table, changed)]
    assert sers[0] != sers[1]
    assert len(store.names(home)) == 8


def test_more_seeds_run_the_new_ones_alone(tmp_path: Path) -> None:
    reproduce(tmp_path, small_table(tmp_path))
    before = epochs_written(tmp_path)
    more = small_table(tmp_path, seeds=3)
    reproduce(tmp_path, more)
    after = epochs_written(tmp_path)
    assert len(after) == len(before) + 3
    assert {name: after[name] for name in before} == before
    assert rows(tmp_path, more)[:3] == [("full", n, 3) for n in ("sgd", "none", "linear")]
    # Rows are those of the present description, also where the sweep has more.
    assert rows(tmp_path, small_table(tmp_path))[0] == ("full", "sgd", 2)


def test_failed_trials_are_named_and_run_again(tmp_path: Path) -> None:
    table, home = small_table(tmp_path), settings_in(tmp_path).home
    problems = reproduce(tmp_path, table, function=FAILING)
    coarse = stages.coarse(table, PAIR, "linear")
    assert problems == [f"1 of 2 trials of {coarse.name} failed"]
    # The choice is among those that have ended, and the rest of the table is there.
    assert steps.best_points(table, PAIR, home)["linear"].c == 1
    assert len(rows(tmp_path, table)) == 5
    assert reproduce(tmp_path, table) == []
    assert collect.is_complete(coarse, collect.records_of(home, coarse))


def test_the_best_point_has_the_least_validation_error() -> None:
    tried = [
        record("worse", validation_ser=0.3, ser=0.1, epsilon=1.0),
        record("best", validation_ser=0.2, ser=0.4, epsilon=9.0),
        record("failed", status="failed", validation_ser=0.1),
        record("stopped", status="stopped", validation_ser=0.25),
    ]
    for order in (tried, tried[::-1]):
        found = collect.best(order)
        assert found is not None
        assert found.plan.id == "best"
    assert collect.best([]) is None


def test_missing_data_is_named(tmp_path: Path) -> None:
    table = small_table(tmp_path)
    made = table.corpora["mine"].model_copy(update={"data": {"name": "communication"}})
    gone = table.corpora["mine"].model_copy(update={"data": {"name": "atis"}})
    table = table.model_copy(update={"corpora": {"gone": gone, "made": made}})
    pairs = [Pair(corpus=name, model="clc") for name in ("gone", "made")]
    settings = settings_in(tmp_path)
    with pytest.raises(InvalidInput, match=r"the data of gone .*--available runs the rest"):
        run.at_hand(table, pairs, settings, available=False)
    assert run.at_hand(table, pairs, settings, available=True) == ([pairs[1]], ["gone"])
    with pytest.raises(InvalidInput, match="the data of gone"):
        run.at_hand(table, pairs[:1], settings, available=True)


GOLDEN = Path(__file__).with_name("golden_table1.md")


def test_the_table_of_made_results(tmp_path: Path) -> None:
    """The flat method has twice SGD's errors; the falling one is within the noise of it."""
    table = small_table(tmp_path)
    reproduce(tmp_path, table, function=MEASURED, leakage=False)
    assert (tmp_path / "out" / "table1.md").read_text() == GOLDEN.read_text()
