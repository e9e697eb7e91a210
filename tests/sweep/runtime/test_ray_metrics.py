"""The metrics of a running sweep match its files, under the names that panels use."""

import shutil
import sys
from dataclasses import replace

import pytest

from dashboards.live_metrics import metrics
from sweep.results.tables.progress import Progress
from sweep.runtime import ray_metrics as ray_metrics
from sweep.runtime.ray_metrics import record_metrics
from sweep.store.state import TrialStatus
from sweep.store.sweeps import SweepFolder
from tests.libraries import IGNORED
from tests.sweep.ray_metrics import own_ray
from tests.sweep.sweeps import write_corpus
from tests.sweep.untracked import run_untracked
from trainables.figures import is_public
from trainables.result import EpochReport

pytestmark = IGNORED


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    return run_untracked(tmp_path_factory.mktemp("toy"))


@pytest.fixture(scope="module")
def cluster():
    with own_ray() as started:
        yield started


def values_after(cluster, toy, status="done"):
    """What Ray serves once the trials are recorded."""
    record_trial = record_metrics(lambda trial_id, progress: None, toy)
    for record in toy.records():
        progress = Progress(
            name="a", status=TrialStatus(status), epochs_done=3, epochs=3, plan=record.plan
        )
        record_trial(record.plan.id, progress)
    return cluster.recorded(toy.name)


def test_every_trial_has_its_last_epochs_figures(cluster, toy):
    values = values_after(cluster, toy)
    for record in toy.records():
        labels = (toy.name, record.plan.id, record.plan.name, record.plan.engine)
        row = toy.epochs(record.plan.id)[-1]
        assert values["sweep_validation_ser"][labels] == row["metrics"]["validation_ser"]
        assert values["sweep_ser"][labels] == record.metrics["ser"]
        assert values["sweep_epochs_done"][labels] == 3
        assert (labels in values["sweep_epsilon_spent"]) == (record.plan.engine != "sgd")
    assert values["sweep_trials"][toy.name, "done"] == 3
    assert values["sweep_trials"][toy.name, "running"] == 0


def test_a_trial_that_has_not_begun_has_no_figures(cluster, toy, tmp_path):
    planned = SweepFolder(shutil.copytree(toy.path, tmp_path / "planned"))
    assert set(values_after(cluster, planned, status="planned")) == {"sweep_trials"}


@pytest.mark.parametrize(
    ("name", "label"),
    [
        ("ε≤8, naïve", r"epsilon<=8, na\xefve, C=1"),
        ('测\u8bd5 "a\\b" {c="d"} 🙂', r'\u6d4b\u8bd5 "a\\b" {c="d"} \U0001f642, C=1'),
    ],
)
def test_names_of_any_script_are_labels_in_ascii(cluster, name, label, tmp_path):
    axes = {"privacy.max_grad_norm": [1.0]}
    toy = run_untracked(tmp_path, name=f"s{len(name)}", variants=[{"name": name, "axes": axes}])
    [(_, _, found, _)] = values_after(cluster, toy)["sweep_epochs_done"]
    assert found == label


def test_a_help_text_of_any_script_is_taken(cluster, toy, monkeypatch):
    """As that of a figure which a user has added."""
    odd = {source: replace(each, help=f"{each.help}, ≤ 1 é") for source, each in metrics().items()}
    monkeypatch.setattr(ray_metrics, "metrics", lambda: odd)
    assert values_after(cluster, toy)["sweep_trials"]


def test_throughput_is_records_over_the_seconds_of_an_epoch(cluster, tmp_path):
    toy = run_untracked(tmp_path, name="paced")
    plan = toy.plan().trials[0]
    report = EpochReport(epochs_done=4, seconds=2.0, metrics={})
    toy.add_epoch(plan.id, report, when=0.0)
    [value] = [
        value
        for labels, value in values_after(cluster, toy)["sweep_utterances_per_second"].items()
        if plan.id in labels
    ]
    assert plan.num_records is not None
    assert value == plan.num_records / 2.0


def test_no_public_metric_reveals_a_counted_number_of_records(cluster, tmp_path):
    """Seconds of an epoch times utterances a second is the number of training records."""
    data = {**write_corpus(tmp_path), "num_records": None}
    toy = run_untracked(tmp_path, name="counted", base={"data": data})
    plan = toy.plan().trials[1]
    report = EpochReport(epochs_done=4, seconds=2.0, metrics={"epsilon_paper_spent": 3.0})
    toy.add_epoch(plan.id, report, when=0.0)
    values = values_after(cluster, toy)
    assert plan.num_records
    assert "sweep_epoch_seconds" in values
    assert not {"sweep_utterances_per_second", "sweep_epsilon_paper_spent"} & values.keys()


def test_metrics_that_no_epsilon_covers_are_called_so():
    for source, metric in metrics().items():
        assert metric.name.startswith("curator_") != (is_public(source) or not metric.source), (
            metric.name
        )
        assert ("curator" in metric.help) != (is_public(source) or not metric.source)


def test_without_ray_nothing_is_recorded_and_ray_is_not_imported(toy, monkeypatch):
    monkeypatch.delitem(sys.modules, "ray", raising=False)
    heard = []
    watch = record_metrics(lambda trial_id, progress: heard.append(trial_id), toy)
    watch(
        toy.plan().trials[0].id,
        Progress(name="a", status=TrialStatus.RUNNING, epochs_done=1, epochs=3),
    )
    assert len(heard) == 1
    assert "ray" not in sys.modules
