"""The metrics of a running sweep match its files, under the names that panels use."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from dashboards.live_metrics import LiveMetric, metrics
from sweep.results.tables.progress import Progress
from sweep.runtime.on_ray.metrics import Recorder, record_metrics
from sweep.store.files import append_line
from sweep.store.status import TrialStatus
from sweep.store.sweeps import SweepFolder
from tests.sweep.sweeps import write_corpus
from tests.sweep.untracked import run_untracked
from trainables.figures import is_public


class FakeGauge:
    def __init__(self, metric: LiveMetric) -> None:
        self.metric = metric
        self.values: dict[tuple[str, ...], float] = {}

    def set(self, value: float, tags: dict[str, str]) -> None:
        assert set(tags) == set(self.metric.labels)
        self.values[tuple(tags[label] for label in self.metric.labels)] = value


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> SweepFolder:
    return run_untracked(tmp_path_factory.mktemp("toy"))


def gauges_after(toy: SweepFolder, status: str = "done") -> dict[str, FakeGauge]:
    gauges: dict[str, FakeGauge] = {}

    def make(metric: LiveMetric) -> FakeGauge:
        return gauges.setdefault(metric.name, FakeGauge(metric))

    recorder = Recorder(toy, gauge=make)
    for record in toy.records():
        progress = Progress(
            name=record.plan.name, status=TrialStatus(status), epochs_done=3, epochs=3
        )
        recorder.record(record.plan.id, progress)
    return gauges


def test_every_trial_has_its_last_epochs_figures(toy: SweepFolder) -> None:
    gauges = gauges_after(toy)
    for record in toy.records():
        labels = (toy.name, record.plan.id, record.plan.name, record.plan.engine)
        row = toy.epochs(record.plan.id)[-1]
        assert gauges["sweep_validation_ser"].values[labels] == row["metrics"]["validation_ser"]
        assert gauges["sweep_ser"].values[labels] == record.metrics["ser"]
        assert gauges["sweep_epochs_done"].values[labels] == 3
        assert (labels in gauges["sweep_epsilon_spent"].values) == (record.plan.engine != "sgd")


def test_trials_are_counted_by_status(toy: SweepFolder) -> None:
    counts = gauges_after(toy)["sweep_trials"].values
    assert counts[toy.name, "done"] == 3
    assert counts[toy.name, "running"] == 0


def test_a_trial_that_has_not_begun_has_no_figures(toy: SweepFolder) -> None:
    assert set(gauges_after(toy, status="planned")) == {"sweep_trials"}


def test_throughput_is_records_over_the_seconds_of_an_epoch(tmp_path: Path) -> None:
    toy = run_untracked(tmp_path)
    plan = toy.plan().trials[0]
    row = {"epochs_done": 4, "seconds": 2.0, "metrics": {}, "time": 0.0}
    append_line(toy.trial_folder(plan.id) / "epochs.jsonl", row)
    [value] = [
        value
        for labels, value in gauges_after(toy)["sweep_utterances_per_second"].values.items()
        if plan.id in labels
    ]
    assert plan.num_records is not None
    assert value == plan.num_records / 2.0


def test_no_public_metric_reveals_a_counted_number_of_records(tmp_path: Path) -> None:
    """Seconds of an epoch times utterances a second is the number of training records."""
    data = {**write_corpus(tmp_path), "num_records": None}
    toy = run_untracked(tmp_path, base={"data": data})
    plan = toy.plan().trials[1]
    row = {"epochs_done": 4, "seconds": 2.0, "metrics": {"epsilon_paper_spent": 3.0}, "time": 0.0}
    append_line(toy.trial_folder(plan.id) / "epochs.jsonl", row)
    gauges = gauges_after(toy)
    assert plan.num_records
    assert "sweep_epoch_seconds" in gauges
    assert not {"sweep_utterances_per_second", "sweep_epsilon_paper_spent"} & gauges.keys()


def test_metrics_that_no_epsilon_covers_are_called_so() -> None:
    for source, metric in metrics().items():
        assert metric.name.startswith("curator_") != (is_public(source) or not metric.source), (
            metric.name
        )
        assert ("curator" in metric.help) != (is_public(source) or not metric.source)


def test_without_ray_nothing_is_recorded_and_ray_is_not_imported(
    toy: SweepFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "ray", raising=False)
    heard: list[Any] = []
    watch = record_metrics(lambda trial_id, progress: heard.append(trial_id), toy)
    watch(
        toy.plan().trials[0].id,
        Progress(name="a", status=TrialStatus.RUNNING, epochs_done=1, epochs=3),
    )
    assert len(heard) == 1
    assert "ray" not in sys.modules
