import contextlib
import csv
import io
import json
import re
import shutil
from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest

from dashboards import report
from dashboards.results import Roc
from sweep.cli import run
from sweep.results import report_files
from sweep.results.curves import label_errors
from sweep.results.report_files import gather, write
from sweep.store.data_sets import open_data
from tests.dashboards import samples
from tests.dashboards.pages import cells_of
from tests.refusals import refused
from tests.sweep.logs import rewrite_sweep
from tests.sweep.sweeps import settings_in, write_corpus
from tests.sweep.untracked import run_untracked
from trainables.metrics._counts import NAMES, from_table
from trainables.saved_predictions import write_counts


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return tmp_path_factory.mktemp("toy")


@pytest.fixture(scope="module")
def toy(place):
    return run_untracked(place)


@pytest.fixture(autouse=True)
def home(place, toy, monkeypatch):
    monkeypatch.setenv("SWEEP_HOME", str(settings_in(place).home))


@pytest.fixture(scope="module")
def written(place, toy, tmp_path_factory):
    """What the command says, and the folder that it writes by default."""
    here = tmp_path_factory.mktemp("report")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(here)
        patch.setenv("SWEEP_HOME", str(settings_in(place).home))
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            assert run(["report", "toy", "--epsilon", "1e9", "--json"]) == 0
    return json.loads(out.getvalue()), here / "toy-report"


def test_the_page_figures_and_data_are_written_and_named(toy, written):
    said, target = written
    there = {
        str(path.relative_to(target)) for path in target.rglob("*") if path.is_file()
    }
    assert there == {"report.html", *said["beside"]}
    assert {"trials.csv", "charts/frontier-epsilon.svg"} <= there
    assert said["bytes"] == (target / "report.html").stat().st_size
    assert said["trial"] in {record.plan.id for record in toy.records()}
    assert said["name"].startswith("edp")  # the baseline is never the answer


def test_the_numbers_of_the_page_and_of_the_csv_are_those_of_the_disk(toy, written):
    _, target = written
    cells = cells_of((target / "report.html").read_text())
    rows = {row["trial"]: row for row in rows_of(target / "trials.csv")}
    for record in toy.records():
        assert cells[record.plan.id, "ser"] == record.metrics["ser"]
        assert float(rows[record.plan.id]["ser"]) == record.metrics["ser"]
        # The plan's faster form is at or above the figure of the trial's card.
        assert cells[record.plan.id, "epsilon"] == pytest.approx(
            record.plan.epsilon, rel=1e-9
        )
    assert len(rows_of(target / "epochs.csv")) == sum(
        r.epochs_done for r in toy.records()
    )


def rows_of(path):
    return list(csv.DictReader(io.StringIO(path.read_text())))


def test_without_a_private_enough_trial_the_answer_is_the_smallest_epsilon_there_is(
    toy,
):
    sweep = gather(toy, epsilon_max=1e-6)
    assert sweep.chosen_trial is None
    assert "the smallest epsilon is" in sweep.answer.below[0]
    assert "No finished trial has epsilon" in report.html(sweep)


def test_curves_and_spending_are_those_of_log_and_ledger(toy):
    found = gather(toy, epsilon_max=1e9)
    for record in toy.records():
        curve = next(c for c in found.curves if c.trial == record.plan.id)
        assert curve.points == tuple(
            (row["epochs_done"], row["metrics"]["validation_ser"])
            for row in toy.epochs(record.plan.id)
        )
    times, epsilons = zip(*found.spending.points, strict=True)
    assert list(times) == sorted(times)
    assert list(epsilons) == sorted(epsilons)
    largest = max(r.plan.epsilon for r in toy.records() if not r.plan.baseline)
    assert epsilons[-1] >= largest
    assert found.labels == ()  # these trials keep no counts


def test_errors_by_label_are_counted_over_its_records(toy, place, tmp_path):
    record = toy.records()[0]
    settings = settings_in(place)
    corpus = open_data(record.plan.config.data, settings)
    ids = np.arange(len(corpus))
    table = np.zeros((len(ids), len(NAMES)), dtype=np.int64)
    table[:, NAMES.index("utterances")] = 1
    table[::3, NAMES.index("intent_errors")] = 1
    (tmp_path / record.plan.id).mkdir()
    write_counts(tmp_path / record.plan.id, ids, from_table(table))
    folder = SimpleNamespace(trial_folder=lambda trial: tmp_path / trial)
    found = label_errors(folder, [record], settings)
    numbers = [each.num_records for each in found]
    assert numbers == sorted(numbers, reverse=True)
    names = Counter(corpus.intent_names(ids))
    assert {each.label: each.num_records for each in found} == names
    wrong = Counter(corpus.intent_names(ids[::3]))
    for each in found:
        share, slots = each.figures[record.plan.id]
        assert share == wrong[each.label] / names[each.label]
        assert slots is None
    assert label_errors(folder, toy.records()[1:2], settings) == ()


def test_a_public_report_holds_nothing_for_the_curator(toy):
    found = gather(toy, epsilon_max=8.0, public=True)
    assert (found.mattered, found.next_steps) == ({}, ())
    assert (found.roc, found.labels) == (Roc(), ())
    tables = [set(text.partition("\n")[0].split(",")) for text in found.files.values()]
    assert len(tables) == 2
    for names in [*tables, *(set(trial.columns) for trial in found.trials)]:
        assert not any(
            name.startswith(("mia_", "clip_", "gradient_", "train_")) for name in names
        )


def test_a_public_report_leaves_nothing_of_the_curators_in_its_folder(
    toy, tmp_path, monkeypatch
):
    with monkeypatch.context() as patch:
        patch.setattr(report_files, "gather", lambda *_, **__: samples.sweep())
        write(toy, tmp_path, epsilon_max=8.0)
    of_attacks = "charts/leakage-epsilon.svg"
    assert (tmp_path / of_attacks).exists()
    # Earlier versions wrote other pictures.
    earlier = tmp_path / "charts" / "leakage-epsilon.png"
    for path in (earlier, tmp_path / "charts" / "mine.png"):
        path.write_bytes(b"")
    made = write(toy, tmp_path, epsilon_max=8.0, public=True)
    there = {str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*") if p.is_file()}
    assert there == {"report.html", "charts/mine.png", *made.beside}
    assert of_attacks not in there
    assert not earlier.exists()


def test_the_delta_beside_an_epsilon_is_that_of_its_trial(tmp_path):
    deltas = [1 / 300_000, 1e-3]
    folder = run_untracked(
        tmp_path, variants=[{"name": "edp", "axes": {"privacy.delta": deltas}}]
    )
    tight = next(r.plan for r in folder.records() if r.plan.delta == deltas[0])
    assert tight.epsilon is not None
    records = [r for r in folder.records() if r.plan.id == tight.id]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(report_files.select, "choose", lambda *_, **__: records)
        sweep = gather(folder, epsilon_max=tight.epsilon)
    assert sweep.delta == deltas[0]
    assert "δ = 3.33334e-06." in report.html(sweep)  # rounded up


def test_trials_are_compared_with_the_baseline_of_their_own_data(tmp_path):
    mine = write_corpus(tmp_path)
    other = {**mine, "path": str(shutil.copy(mine["path"], tmp_path / "other.jsonl"))}
    folder = run_untracked(
        tmp_path,
        variants=[
            {"name": "sgd", "baseline": True, "set": {"engine": "sgd"}},
            {
                "name": "sgd-2",
                "baseline": True,
                "set": {"engine": "sgd", "data": other},
            },
            {"name": "edp-2", "set": {"data": other}},
            {"name": "edp-big", "set": {"model.hidden_size": 96}},
        ],
    )
    with refused(r"--data json_lines .*mine.* or .*other.*, got none$"):
        gather(folder, epsilon_max=8.0)
    first, second = (
        gather(folder, epsilon_max=8.0, corpus=f"json_lines {data['path']}")
        for data in (mine, other)
    )
    assert {trial.name for trial in second.trials} == {"sgd-2", "edp-2"}
    named = {trial.name: trial for trial in (*first.trials, *second.trials)}
    for name, base in (("edp-2", "sgd-2"), ("edp-big", "sgd")):
        assert named[name].baseline_id == named[base].id


def test_what_cannot_be_reported_is_refused_in_a_line(toy, tmp_path, line):
    file = tmp_path / "file"
    file.write_text("")
    assert "expected a folder for the report" in line.refused(
        "report", "toy", "--output", file
    )


def test_a_report_without_a_trial_within_epsilon_begins_with_a_fact(tmp_path, line):
    out = line.says("report", "toy", "--epsilon", "0.001", "--output", tmp_path / "out")
    assert out.startswith(
        "no finished trial has epsilon ≤ 0.001; the smallest epsilon is "
    )


def test_a_sweep_without_a_finished_trial_has_no_report(tmp_path):
    folder = run_untracked(tmp_path)
    rewrite_sweep(folder, "ended", lambda e: None)
    with refused("expected a finished trial in sweep toy"):
        gather(folder, epsilon_max=8.0)
    corpus = folder.records()[0].plan.corpus
    with refused(f"a finished trial on {re.escape(corpus)} in sweep toy"):
        gather(folder, epsilon_max=8.0, corpus=corpus)
