"""A trial's record is what its files say, at every moment between its start and its end."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sweep.store import manifest
from sweep.store.files import write_json
from sweep.store.plans import PlannedTrial
from sweep.store.status import TrialStatus
from sweep.store.trial_files import TrialFiles, with_leakage
from trainables.config import parse
from trainables.documents import read_yaml
from trainables.errors import InvalidData
from trainables.result import EpochReport, TrialResult

CONFIG = parse({"engine": "sgd", "training": {"epochs": 3}})
TRIAL = PlannedTrial(
    id=CONFIG.id,
    name="sgd",
    variant="sgd",
    baseline=False,
    values={},
    origin=CONFIG,
    config_id=CONFIG.id,
    group="g",
    engine="sgd",
    seed=0,
    epochs=3,
)


@pytest.fixture
def files(tmp_path: Path) -> TrialFiles:
    return TrialFiles(tmp_path)


def epoch(number: int, **metrics: float) -> EpochReport:
    return EpochReport(epochs_done=number, seconds=0.5, metrics=metrics)


def result(**fields: Any) -> TrialResult:
    base: dict[str, Any] = {
        "trial_id": TRIAL.id,
        "epochs_done": 3,
        "stopped_early": False,
        "metrics": {"ser": 0.25},
        "privacy": {},
        "notes": ("said",),
        "seconds": {"total": 9.0},
    }
    return TrialResult(**{**base, **fields})


def status(files: TrialFiles, *, runs: bool = True, running: bool = False) -> TrialStatus:
    return files.status(TRIAL.id, runs=runs, running=running)


def test_the_config_on_disk_makes_the_trial_again(files: TrialFiles) -> None:
    """And a second start, as a resume makes one, changes nothing of it."""
    folder = files.start_trial(TRIAL)
    assert parse(read_yaml(folder / "config.yaml")) == CONFIG
    before = (folder / "config.yaml").stat().st_mtime_ns
    files.start_trial(TRIAL)
    assert (folder / "config.yaml").stat().st_mtime_ns == before


@settings(max_examples=20)
@given(epochs=st.lists(st.integers(1, 6), max_size=12))
def test_epochs_are_counted_once_and_upwards_in_whatever_order_they_are_reported(
    tmp_path_factory: pytest.TempPathFactory, epochs: list[int]
) -> None:
    """A resumed trial reports the epoch of its checkpoint again, and one whose checkpoint is older
    than its last epoch trains the later ones again. The seconds of all that was trained count.
    """
    files = TrialFiles(tmp_path_factory.mktemp("epochs"))
    files.start_folder(TRIAL.id)
    expected = [n for place, n in enumerate(epochs) if n != (epochs[place - 1] if place else 0)]
    kept = [n for place, n in enumerate(expected) if n < min(expected[place + 1 :], default=7)]
    trained = [n for place, n in enumerate(epochs) if n > (epochs[place - 1] if place else 0)]
    assert [n for n in epochs if files.add_epoch(TRIAL.id, epoch(n), when=1.0)] == trained
    assert [row["epochs_done"] for row in files.epochs(TRIAL.id)] == kept
    assert files.record(TRIAL, running=True).seconds == 0.5 * len(trained)


def test_a_trial_that_begins_anew_has_no_epoch_but_all_its_seconds(files: TrialFiles) -> None:
    files.start_trial(TRIAL)
    files.begin_anew(TRIAL.id, when=1.0)  # there is nothing to forget
    assert not (files.trial_folder(TRIAL.id) / "epochs.jsonl").exists()
    files.add_epoch(TRIAL.id, epoch(1, train_loss=2.0), when=1.0)
    files.begin_anew(TRIAL.id, when=2.0)
    assert files.epochs(TRIAL.id) == []
    record = files.record(TRIAL, running=True)
    assert (record.epochs_done, record.metrics, record.seconds) == (0, {}, 0.5)


def test_a_denied_trial_has_begun_where_an_epoch_has_run(files: TrialFiles) -> None:
    """Otherwise it has spent nothing, and an extension may leave it out."""
    assert (status(files), files.has_begun(TRIAL.id)) == (TrialStatus.PLANNED, False)
    files.start_trial(TRIAL)
    assert files.has_begun(TRIAL.id)
    files.deny_trial(TRIAL.id, reason="no room")
    assert (status(files), files.has_begun(TRIAL.id)) == (TrialStatus.PLANNED, False)
    assert files.record(TRIAL, running=True).reason == "no room"
    files.add_epoch(TRIAL.id, epoch(1), when=1.0)
    assert (status(files), files.has_begun(TRIAL.id)) == (TrialStatus.INTERRUPTED, True)
    files.start_trial(TRIAL)
    assert status(files, running=True) is TrialStatus.RUNNING, "a new start is a new permission"
    assert files.record(TRIAL, running=True).reason is None


def test_a_refusal_of_the_plan_gives_way_to_a_result_alone(files: TrialFiles) -> None:
    files.start_trial(TRIAL)
    files.fail_trial(TRIAL.id, when=1.0, reason="broke")
    assert status(files, runs=False) is TrialStatus.REFUSED
    assert status(files) is TrialStatus.FAILED
    files.finish_trial(result(), when=2.0, reason="")
    assert status(files, runs=False) is TrialStatus.DONE


def test_a_running_trial_has_the_figures_of_its_last_epoch(files: TrialFiles) -> None:
    files.start_trial(TRIAL)
    files.add_epoch(TRIAL.id, epoch(1, train_loss=2.0, epsilon=math.inf), when=1.0)
    files.add_epoch(TRIAL.id, epoch(2, train_loss=1.0), when=2.0)
    record = files.record(TRIAL, running=True)
    assert (record.status, record.epochs_done) == (TrialStatus.RUNNING, 2)
    assert (record.metrics, record.seconds) == ({"train_loss": 1.0}, 1.0)


def test_the_figures_of_an_epoch_are_numbers_also_where_they_are_infinite(
    files: TrialFiles,
) -> None:
    files.start_trial(TRIAL)
    figures = {"epsilon_spent": math.inf, "validation_loss": math.nan, "train_loss": 2.0}
    files.add_epoch(TRIAL.id, epoch(1, **figures), when=1.0)
    (row,) = files.epochs(TRIAL.id)
    assert row["metrics"] == {"epsilon_spent": math.inf, "validation_loss": None, "train_loss": 2.0}


def test_a_finished_trial_has_its_result_and_its_comparison(files: TrialFiles) -> None:
    files.start_trial(TRIAL)
    files.finish_trial(result(metrics={"ser": 0.25, "epsilon": math.inf}), when=7.0, reason="")
    violation = {"epsilon_lower_bound": 2.0, "epsilon_claimed": 1.0}
    panel = {"metrics": {"canary_auc": 0.5}, "notes": ["compared"], "violation": violation}
    assert files.write_panel(TRIAL.id, panel)
    record = files.record(TRIAL, running=False)
    assert record.status is TrialStatus.DONE
    assert record.metrics == {"ser": 0.25, "epsilon": math.inf, "canary_auc": 0.5}
    assert record.notes == ("said", "compared")
    assert (record.violation, record.ended_at, record.seconds) == (violation, 7.0, 9.0)


def test_a_comparison_that_says_the_same_is_not_written_again(files: TrialFiles) -> None:
    """Its time is when it was made, and trackers deliver what has a new time."""
    files.start_folder(TRIAL.id)
    panel = {"metrics": {"gap": math.inf}, "notes": [], "violation": None}
    assert files.write_panel(TRIAL.id, panel)
    written = files.panel(TRIAL.id)["time"]
    assert not files.write_panel(TRIAL.id, panel)
    assert files.panel(TRIAL.id)["time"] == written
    assert files.write_panel(TRIAL.id, {**panel, "metrics": {"gap": 1.0}})


@pytest.mark.parametrize(
    ("stopped", "reason", "shown", "expected"),
    [
        (True, "budget.seconds", "budget.seconds", TrialStatus.STOPPED),
        (True, "", None, TrialStatus.STOPPED),
        (False, "the scheduler", None, TrialStatus.DONE),  # it ended after its last epoch
    ],
)
def test_a_reason_is_shown_where_it_stopped_something(
    files: TrialFiles, stopped: bool, reason: str, shown: str | None, expected: TrialStatus
) -> None:
    files.start_trial(TRIAL)
    files.finish_trial(result(stopped_early=stopped), when=1.0, reason=reason)
    record = files.record(TRIAL, running=False)
    assert (record.status, record.reason) == (expected, shown)


def test_a_result_without_its_duration_has_that_of_its_epochs(files: TrialFiles) -> None:
    files.start_trial(TRIAL)
    for number in (1, 2, 3):
        files.add_epoch(TRIAL.id, epoch(number), when=1.0)
    files.finish_trial(result(seconds={}), when=1.0, reason="")
    assert files.record(TRIAL, running=False).seconds == 1.5


def test_the_end_of_a_trial_promises_and_keeps_its_files(files: TrialFiles) -> None:
    folder = files.start_trial(TRIAL)
    (folder / "weights").write_bytes(b"w")
    files.finish_trial(result(), when=1.0, reason="")
    assert manifest.differences(folder) == ()
    (folder / "weights").write_bytes(b"v")
    assert manifest.differences(folder) == ("weights has another content",)
    (folder / "manifest.json").unlink()
    assert manifest.differences(folder) == ("manifest.json is missing",)


@pytest.mark.parametrize("name", ["result.json", "failed.json", "denied.json", "panel.json"])
def test_a_damaged_file_is_an_error_and_no_other_status(files: TrialFiles, name: str) -> None:
    folder = files.start_trial(TRIAL)
    if name == "panel.json":
        files.finish_trial(result(), when=1.0, reason="")
    write_json(folder / name, ["damaged"])
    with pytest.raises(InvalidData, match=name):
        files.record(TRIAL, running=False)


def test_a_folder_that_cannot_be_read_is_no_trial_that_never_began(
    files: TrialFiles, tmp_path: Path
) -> None:
    (tmp_path / "trials").mkdir()
    (tmp_path / "trials" / TRIAL.id).write_text("a file")
    with pytest.raises(InvalidData, match="cannot read"):
        status(files)


def test_the_strongest_attack_is_worked_out_of_stored_figures() -> None:
    assert with_leakage({"ser": "0.5", "epsilon": "inf"}) == {"ser": 0.5, "epsilon": math.inf}
    weak, strong = 0.55, 0.9
    stored = {"mia_loss_threshold_auc": weak, "mia_shadow_auc": strong}
    assert with_leakage(stored).keys() >= stored.keys()


def test_every_status_is_pending_over_or_refused_and_nothing_twice() -> None:
    """Tables count trials by these words, and each trial is counted once."""
    for each in TrialStatus:
        kinds = [each.is_pending, each.is_over, each is TrialStatus.REFUSED]
        assert kinds.count(True) == 1, each
        assert not each.is_finished or each.is_over
        assert each.is_resumed == (each.is_pending or each is TrialStatus.FAILED)
        assert each.has_begun == (each.is_over or each.value in ("running", "interrupted"))
