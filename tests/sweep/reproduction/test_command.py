"""`sweep reproduce table1` from the command line: refusals in one line, an empty table."""

from __future__ import annotations

import csv
from functools import partial
from pathlib import Path

import pytest

from sweep import cli
from sweep.reproduction import description, run
from tests.sweep.json_schemas import checked
from tests.sweep.reproduction.small_table import MEASURED, small_table


@pytest.fixture(autouse=True)
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SWEEP_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("SWEEP_DATA_DIR", str(tmp_path / "data"))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--data", "atis"], "expected the data of atis in"),
        (["--data", "atis", "--available"], "expected the data of atis in"),
        (["--data", "communication"], "expected the data of atis in"),
        (["--data", "atos"], "expected --data to be one of atis, snips"),
        (["--model", "gpt"], "expected --model to be one of clc, bert"),
        (["--method", "adam"], "expected --method to be one of sgd"),
        (["--smoke", "--method", "heads"], "expected --method to be one of sgd, none"),
        (["--data", "communication", "--method", "heads"], "expected --method to be one of sgd"),
        (["--set", "training.epoch=3", "--show"], "training.epoch"),
        (["--output", __file__], "expected --output to be a folder, got the file"),
        (["--set", "data.name=snips"], "expected --data in place of --set data.name"),
    ],
    ids=lambda each: " ".join(each) if isinstance(each, list) else "",
)
def test_refusals_are_one_line(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert cli.run(["reproduce", "table1", *arguments]) == 2
    said = capsys.readouterr().err
    assert words in said
    assert said.count("\n") == 1
    assert not (tmp_path / "home").exists()


def test_a_table_that_has_not_begun_is_empty(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    arguments = ["reproduce", "table1", "--show", "--output", str(tmp_path / "out")]
    assert cli.run([*arguments, "--json"]) == 0
    document = checked("reproduce table1", capsys.readouterr().out)
    assert document["rows"] == document["points"] == []
    assert cli.run(arguments) == 0
    assert "No trial of a full stage has finished." in capsys.readouterr().out


def test_files_keep_the_rows_of_earlier_commands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Table 1 is run pair by pair and row by row over days; `--show` alone narrows the files."""
    monkeypatch.setattr(description, "read", lambda _: small_table(tmp_path))
    monkeypatch.setattr(run, "Execution", partial(run.Execution, function=MEASURED))
    out = tmp_path / "out"

    def methods(*arguments: str) -> list[str]:
        fixed = ["--seeds", "1", "--tracking", "none", "--output", str(out), "--json"]
        assert cli.run(["reproduce", "table1", *fixed, *arguments]) == 0
        with (out / "table1.csv").open(encoding="utf-8", newline="") as file:
            return [row["method"] for row in csv.DictReader(file)]

    assert methods("--method", "none") == ["sgd", "none"]
    assert methods("--method", "linear") == ["sgd", "none", "linear"]
    assert methods("--show", "--method", "linear") == ["sgd", "linear"]
    assert methods("--show") == ["sgd", "none", "linear"]
