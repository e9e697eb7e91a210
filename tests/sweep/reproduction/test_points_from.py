"""A table takes the best points of an earlier run and leaves their coarse passes out."""

from __future__ import annotations

from pathlib import Path

import pytest

from sweep.reproduction import chosen, description, run, steps
from tests.sweep.reproduction.small_table import PAIR, reproduce, small_table
from tests.sweep.sweeps import settings_in
from trainables.errors import InvalidInput

_HEAD = "corpus,model,decay,c,z0,tau,status,epochs_done,seconds,validation_ser,is_best\n"


def test_the_full_stage_is_that_of_the_run_which_chose_the_points(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    table = small_table(tmp_path)
    reproduce(first, table, leakage=False)
    run.write(table, [PAIR], settings_in(first).home, first / "out")
    said: list[str] = []
    later = chosen.with_points_from(table, first / "out" / "table1_points.csv")
    assert reproduce(second, later, leakage=False, say=said.append) == []
    assert [line for line in said if line.startswith("stage")] == [
        "stage 1 of 1: " + next(p.name for p in (first / "home").glob("table1-mine-clc-full-*"))
    ]
    homes = [settings_in(each).home for each in (first, second)]
    trials = [{p.name for p in home.glob("table1-*-full-*/trials/*")} for home in homes]
    assert trials[0] == trials[1] != set()
    rows = [steps.rows(t, [PAIR], h) for t, h in zip((table, later), homes, strict=True)]
    assert [(r.method, r.point) for r in rows[0]] == [(r.method, r.point) for r in rows[1]]
    assert steps.coarse_rows(later, [PAIR], homes[0]) == steps.coarse_rows(table, [PAIR], homes[0])


def test_a_decay_without_a_chosen_point_has_its_coarse_pass(tmp_path: Path) -> None:
    file = tmp_path / "points.csv"
    file.write_text(_HEAD + "mine,clc,none,2.0,1.0,0.0,done,6,1,0.3,True\n")
    table = chosen.with_points_from(small_table(tmp_path), file)
    assert [s.decay for s in steps.steps(table, [PAIR], leakage=False)] == ["linear", None]


def test_the_shipped_points_are_read() -> None:
    folder = Path(__file__).parents[3] / "docs" / "notes" / "reproduction"
    files = sorted(folder.glob("table1_*_points.csv"))
    assert files
    table = description.read("table1")
    for file in files:
        found = chosen.with_points_from(table, file).chosen
        assert all({"none", "linear", "exponential"} == set(best) for best in found.values())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("corpus,model\natis,clc\n", "got none named decay, c, z0, tau, is_best"),
        (_HEAD, "with is_best True, got none"),
        (_HEAD + "mine,clc,slow,1,1,0,done,6,1,0.3,True\n", "got 'slow' \\(line 2 of"),
        (
            _HEAD + "mine,clc,none,much,1,0,,6,1,0.3,True\n",
            "^c: expected a number, got 'much' .line 2",
        ),
        (_HEAD + "mine,clc,none,-1,1,0,done,6,1,0.3,True\n", "^c: .*-1.* .line 2"),
        (_HEAD + "mine,clc\n", "with is_best True, got none"),
    ],
)
def test_other_files_are_refused_in_one_line(tmp_path: Path, text: str, expected: str) -> None:
    file = tmp_path / "points.csv"
    file.write_text(text)
    with pytest.raises(InvalidInput, match=expected) as error:
        chosen.with_points_from(small_table(tmp_path), file)
    assert "\n" not in str(error.value)


def test_a_missing_or_binary_file_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "points.csv"
    for content in (None, b"\xff\xfe\x00"):
        if content is not None:
            file.write_bytes(content)
        with pytest.raises(InvalidInput, match="expected --points-from to be a CSV file"):
            chosen.with_points_from(small_table(tmp_path), file)
