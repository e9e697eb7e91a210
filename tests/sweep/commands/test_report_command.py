"""`sweep report`: its output matches the sweep's files, and refusals are one line."""

from __future__ import annotations

import contextlib
import csv
import io
import json
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from dashboards import report
from sweep.cli import run
from sweep.results.report_data import gather
from sweep.store.sweeps import SweepFolder
from tests.sweep.sweeps import settings_in
from tests.sweep.untracked import run_untracked
from trainables.errors import InvalidInput


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("toy")


@pytest.fixture(scope="module")
def toy(place: Path) -> SweepFolder:
    return run_untracked(place)


@pytest.fixture(autouse=True)
def home(place: Path, toy: SweepFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SWEEP_HOME", str(settings_in(place).home))


class Cells(HTMLParser):
    """The exact numbers of a page's tables: (trial, metric) -> value."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.trial = ""
        self.found: dict[tuple[str, str], float] = {}
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag == "tr":
            self.trial = given.get("data-trial") or ""
        if self.trial and given.get("data-metric") and given.get("data-value"):
            self.found[self.trial, str(given["data-metric"])] = float(str(given["data-value"]))


@pytest.fixture(scope="module")
def written(
    place: Path, toy: SweepFolder, tmp_path_factory: pytest.TempPathFactory
) -> tuple[dict[str, Any], Path]:
    """What the command says, and the folder that it writes by default."""
    here = tmp_path_factory.mktemp("report")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(here)
        patch.setenv("SWEEP_HOME", str(settings_in(place).home))
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            assert run(["report", "toy", "--epsilon", "1e9", "--json"]) == 0
    return json.loads(out.getvalue()), here / "toy-report"


def test_the_page_figures_and_data_are_written_and_named(
    toy: SweepFolder, written: tuple[dict[str, Any], Path]
) -> None:
    said, target = written
    there = {str(path.relative_to(target)) for path in target.rglob("*") if path.is_file()}
    assert there == {"report.html", *said["beside"]}
    assert {"trials.csv", "charts/frontier-epsilon.png", "charts/frontier-epsilon.csv"} <= there
    assert said["bytes"] == (target / "report.html").stat().st_size
    assert said["trial"] in {record.plan.id for record in toy.records()}
    assert said["name"].startswith("edp")  # the baseline is nobody's answer


def test_the_numbers_of_the_page_and_of_the_csv_are_those_of_the_disk(
    toy: SweepFolder, written: tuple[dict[str, Any], Path]
) -> None:
    _, target = written
    cells = Cells((target / "report.html").read_text()).found
    rows = {row["trial"]: row for row in rows_of(target / "trials.csv")}
    for record in toy.records():
        assert cells[record.plan.id, "ser"] == record.metrics["ser"]
        assert float(rows[record.plan.id]["ser"]) == record.metrics["ser"]
        assert cells[record.plan.id, "epsilon"] == record.plan.epsilon
    assert len(rows_of(target / "epochs.csv")) == sum(r.epochs_done for r in toy.records())


def rows_of(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(path.read_text())))


def test_without_a_private_enough_trial_the_answer_is_the_smallest_epsilon_there_is(
    toy: SweepFolder,
) -> None:
    sweep = gather(toy, epsilon_max=1e-6)
    assert sweep.chosen_trial is None
    assert "the smallest epsilon is" in sweep.choice.reason
    assert "No trial has epsilon" in report.html(sweep)


def test_a_public_report_holds_nothing_for_the_curator(toy: SweepFolder) -> None:
    for trial in gather(toy, epsilon_max=8.0, public=True).trials:
        names = {*trial.metrics, *(name for row in trial.history for name in row)}
        assert not any(name.startswith(("mia_", "clip_", "gradient_", "train_")) for name in names)
        assert trial.rocs == ()


def test_what_cannot_be_reported_is_refused_in_a_line(
    toy: SweepFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["report", "nobody"]) == 2
    assert "no sweep named nobody" in capsys.readouterr().err
    file = tmp_path / "file"
    file.write_text("")
    assert run(["report", "toy", "--output", str(file)]) == 2
    assert "expected a folder for the report" in capsys.readouterr().err


def test_a_sweep_without_a_finished_trial_has_no_report(tmp_path: Path) -> None:
    folder = run_untracked(tmp_path)
    for record in folder.records():
        (folder.trial_folder(record.plan.id) / "result.json").unlink()
    with pytest.raises(InvalidInput, match="expected a finished trial in sweep toy"):
        gather(folder, epsilon_max=8.0)
