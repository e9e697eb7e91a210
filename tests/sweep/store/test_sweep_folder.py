"""One sweep's folder: its log says what became of its trials, and any reader finds the
same.
"""

import fcntl
import math
import multiprocessing
import os
import shutil
import signal
import stat
import threading
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from search_spaces import space as spaces
from sweep.store import manifest
from sweep.store import state as log
from sweep.store import sweeps as store
from sweep.store.plans import Plan, PlannedTrial
from sweep.store.state import TrialStatus
from sweep.store.sweeps import SweepFolder
from tests.refusals import refused
from trainables.config.trial import parse
from trainables.errors import InvalidData
from trainables.io.files import read_yaml
from trainables.result import EpochReport, TrialResult

CONFIG = parse({"engine": "sgd", "training": {"epochs": 3}})
TRIAL = PlannedTrial(
    id=CONFIG.id, variant="sgd", baseline=False, values={}, origin=CONFIG
)


REFUSED = replace(TRIAL, id="refused", reason="no", refused_by="budget")
PLAN = Plan(name="toy", trials=(TRIAL, REFUSED))
ANEW = EpochReport(epochs_done=0, seconds=0.0, metrics={})


def new_sweep(home):
    """A sweep in which nothing has run."""
    space = spaces.parse({"name": "toy", "base": {"training": {"epochs": 3}}})
    return store.create(home, space, PLAN, about={"command": ["test"]})


@pytest.fixture
def files(tmp_path):
    return new_sweep(tmp_path)


def epoch(number, **metrics):
    return EpochReport(epochs_done=number, seconds=0.5, metrics=metrics)


def result(**fields):
    base = {
        "trial_id": TRIAL.id,
        "epochs_done": 3,
        "stopped_early": False,
        "metrics": {"ser": 0.25},
        "privacy": None,
        "notes": ("said",),
        "seconds": {"total": 9.0},
    }
    return TrialResult(**{**base, **fields})


def of(files):
    return files.state().trial(TRIAL.id)


def status(files, *, runs=True, running=False):
    return files.record(
        TRIAL if runs else replace(REFUSED, id=TRIAL.id), running=running
    ).status


def test_the_config_on_disk_makes_the_trial_again(files):
    """And a second start, as a resume makes one, changes nothing of it."""
    folder = files.start_trial(TRIAL)
    assert parse(read_yaml(folder / "config.yaml")) == CONFIG
    before = (folder / "config.yaml").stat().st_mtime_ns
    files.start_trial(TRIAL)
    assert (folder / "config.yaml").stat().st_mtime_ns == before


@settings(max_examples=20)
@given(epochs=st.lists(st.integers(0, 6), max_size=12))
def test_epochs_are_counted_once_and_upwards_in_whatever_order_they_are_reported(
    tmp_path_factory, epochs
):
    """A resumed trial reports the epoch of its checkpoint again, one whose checkpoint
    is older than its last epoch trains the later ones again, and one that begins anew
    (0) has none. The seconds of all that was trained count.
    """
    files = new_sweep(tmp_path_factory.mktemp("epochs"))
    expected = [
        n for place, n in enumerate(epochs) if n != (epochs[place - 1] if place else 0)
    ]
    kept = [
        n
        for place, n in enumerate(expected)
        if 0 < n < min(expected[place + 1 :], default=7)
    ]
    trained = [
        n for place, n in enumerate(epochs) if n > (epochs[place - 1] if place else 0)
    ]
    for number in epochs:
        files.add_epoch(TRIAL.id, epoch(number, loss=1.0), when=1.0)
    assert [row["epochs_done"] for row in files.epochs(TRIAL.id)] == kept
    record = files.record(TRIAL, running=True)
    assert (record.seconds, record.metrics) == (
        0.5 * len(trained),
        {"loss": 1.0} if kept else {},
    )


def test_a_denied_trial_has_begun_where_an_epoch_has_run(files):
    """Otherwise it has spent nothing, and an extension may leave it out."""
    assert (status(files), of(files).has_begun) == (TrialStatus.PLANNED, False)
    files.start_trial(TRIAL)
    assert of(files).has_begun
    files.add(log.StatusChanged(entry="denied", trial=TRIAL.id, reason="no room"))
    assert (status(files), of(files).has_begun) == (TrialStatus.PLANNED, False)
    assert files.record(TRIAL, running=True).reason == "no room"
    files.add_epoch(TRIAL.id, epoch(1), when=1.0)
    assert (status(files), of(files).has_begun) == (TrialStatus.INTERRUPTED, True)
    files.start_trial(TRIAL)
    assert status(files, running=True) is TrialStatus.RUNNING, (
        "a new start is a new permission"
    )
    assert files.record(TRIAL, running=True).reason is None


def test_a_refusal_of_the_plan_gives_way_to_a_result_alone(files):
    files.start_trial(TRIAL)
    files.add(
        log.StatusChanged(entry="failed", trial=TRIAL.id, reason="broke", time=1.0)
    )
    assert status(files, runs=False) is TrialStatus.REFUSED
    assert status(files) is TrialStatus.FAILED
    assert files.record(TRIAL, running=False).reason == "broke"
    files.start_trial(TRIAL)  # tried again
    assert status(files, running=True) is TrialStatus.RUNNING
    files.finish_trial(result(), when=2.0, reason="")
    assert status(files, runs=False) is TrialStatus.DONE


def test_a_running_trial_has_the_figures_of_its_last_epoch_as_numbers(files):
    files.start_trial(TRIAL)
    files.add_epoch(TRIAL.id, epoch(1, train_loss=2.0), when=1.0)
    figures = {
        "epsilon_spent": math.inf,
        "validation_loss": math.nan,
        "train_loss": 1.0,
    }
    files.add_epoch(TRIAL.id, epoch(2, **figures), when=2.0)
    record = files.record(TRIAL, running=True)
    assert (record.status, record.epochs_done, record.seconds) == (
        TrialStatus.RUNNING,
        2,
        1.0,
    )
    assert record.metrics == figures | {"validation_loss": None}
    assert files.epochs(TRIAL.id)[-1]["metrics"] == record.metrics


def test_a_finished_trial_has_its_result_and_its_comparison(files):
    files.start_trial(TRIAL)
    files.finish_trial(
        result(metrics={"ser": 0.25, "epsilon": math.inf}), when=7.0, reason=""
    )
    violation = {"epsilon_lower_bound": 2.0, "epsilon_claimed": 1.0}
    panel = {
        "metrics": {"canary_auc": 0.5},
        "notes": ["compared"],
        "violation": violation,
    }
    assert files.write_panel(TRIAL.id, panel)
    record = files.record(TRIAL, running=False)
    assert record.status is TrialStatus.DONE
    assert record.metrics == {"ser": 0.25, "epsilon": math.inf, "canary_auc": 0.5}
    assert record.notes == ("said", "compared")
    assert (record.violation, record.ended_at, record.seconds) == (violation, 7.0, 9.0)


@pytest.mark.parametrize(
    ("stopped", "reason", "shown", "expected"),
    [
        (True, "budget.total", "budget.total", TrialStatus.STOPPED),
        (True, "", None, TrialStatus.STOPPED),
        (
            False,
            "the scheduler",
            None,
            TrialStatus.DONE,
        ),  # it ended after its last epoch
    ],
)
def test_a_reason_is_shown_where_it_stopped_something(
    files, stopped, reason, shown, expected
):
    files.start_trial(TRIAL)
    files.finish_trial(result(stopped_early=stopped), when=1.0, reason=reason)
    record = files.record(TRIAL, running=False)
    assert (record.status, record.reason) == (expected, shown)


def test_a_result_without_its_duration_has_that_of_its_epochs(files):
    folder = files.start_trial(TRIAL)
    for number in (1, 2, 3):
        files.add_epoch(TRIAL.id, epoch(number), when=1.0)
    (folder / "weights").write_bytes(b"w")
    files.finish_trial(result(seconds={}), when=1.0, reason="")
    assert files.record(TRIAL, running=False).seconds == 1.5
    assert manifest.differences(folder) == ()
    (folder / "weights").write_bytes(b"v")
    assert manifest.differences(folder) == ("weights has another content",)


def test_a_trial_that_is_released_twice_is_the_one_of_the_second_time(files):
    """A crash may come between its release and the mark that it is released."""
    rows = [
        {"epochs_done": n, "seconds": 0.5, "time": 1.0, "metrics": {}} for n in (1, 2)
    ]
    fields = {**vars(result(seconds={})), "time": 3.0, "reason": None}
    for _ in range(2):
        files.release_trial(TRIAL.id, epochs=rows, result=fields)
        record = files.record(TRIAL, running=False)
        assert (record.status, record.seconds, record.ended_at) == (
            TrialStatus.DONE,
            1.0,
            3.0,
        )
        assert [row["epochs_done"] for row in files.epochs(TRIAL.id)] == [1, 2]


_STEPS = {
    "begin": lambda files: files.start_trial(TRIAL),
    "first epoch": lambda files: files.add_epoch(
        TRIAL.id, epoch(1, loss=math.nan), when=1.0
    ),
    "third epoch": lambda files: files.add_epoch(
        TRIAL.id, epoch(3, epsilon=math.inf), when=3.0
    ),
    "begin anew": lambda files: files.add_epoch(TRIAL.id, ANEW, when=4.0),
    "deny": lambda files: files.add(
        log.StatusChanged(entry="denied", trial=TRIAL.id, reason="no room")
    ),
    "fail": lambda files: files.add(
        log.StatusChanged(entry="failed", trial=TRIAL.id, reason="broke", time=5.0)
    ),
    "end": lambda files: (
        files.start_trial(TRIAL),
        files.finish_trial(result(), when=6.0, reason="why"),
    ),
    "compare": lambda files: files.write_panel(
        TRIAL.id, {"metrics": {"gap": math.inf}, "notes": ["n"], "violation": None}
    ),
    "choose": lambda files: files.add(
        log.TrialsSuggested(trials=(replace(TRIAL, id="chosen"), TRIAL))
    ),
    "plan": lambda files: files.replace_plan(files.space(), PLAN),
    "note": lambda files: files.note(budget_total=8.0),
}


@settings(max_examples=25, deadline=None)
@given(steps=st.lists(st.sampled_from(sorted(_STEPS)), max_size=10))
def test_whoever_reads_the_log_at_whatever_time_finds_the_same_state(
    tmp_path_factory, steps
):
    files = new_sweep(tmp_path_factory.mktemp("state"))
    follower = SweepFolder(files.path)
    for step in steps:
        _STEPS[step](files)
        for reader in (follower, SweepFolder(files.path)):
            assert reader.records() == files.records()
            assert reader.about() == files.about()
            assert of(reader) == of(files)
            assert reader.state().statuses(running=False) == Counter(
                record.status for record in files.records()
            )


def test_every_status_is_pending_over_or_refused_and_nothing_twice():
    """Tables count trials by these words, and each trial is counted once."""
    for each in TrialStatus:
        kinds = [each.is_pending, each.is_over, each is TrialStatus.REFUSED]
        assert kinds.count(True) == 1, each
        assert not each.is_finished or each.is_over
        assert each.is_resumed == (each.is_pending or each is TrialStatus.FAILED)
        assert each.has_begun == (
            each.is_over or each.value in ("running", "interrupted")
        )


def _hold(path, ready):
    with SweepFolder(path).hold_lock():
        ready.send("locked")
        signal.pause()


def test_the_lock_is_exclusive_and_falls_with_its_process(files, monkeypatch):
    assert not files.is_running
    context = multiprocessing.get_context("spawn")
    mine, theirs = context.Pipe()
    process = context.Process(target=_hold, args=(files.path, theirs))
    process.start()
    assert mine.recv() == "locked"
    assert files.is_running
    with refused(r"toy is running: `sweep stop toy`"), files.hold_lock():
        pass
    assert process.pid is not None
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    assert not files.is_running
    with files.hold_lock(), monkeypatch.context() as patch:
        patch.setattr(
            store.locks, "is_held", None
        )  # which would try for a tenth of a second
        assert files.is_running
    assert not files.is_running
    files.delete()
    assert store.names(files.path.parent) == []
    for end in (mine, theirs):
        end.close()
    process.close()


def test_checking_the_lock_does_not_block_a_sweep(files, monkeypatch):
    """`sweep list` at the instant of a `sweep resume`: the resume waits, and is not
    refused.
    """
    assert 0 < store.PATIENCE_SECONDS < 1, "a second start is refused at once"
    monkeypatch.setattr(store, "PATIENCE_SECONDS", 60.0)  # on a busy machine too
    (files.path / "lock").touch()
    with (files.path / "lock").open() as looking:
        fcntl.flock(looking, fcntl.LOCK_SH)
        done_looking = threading.Timer(0.3, fcntl.flock, [looking, fcntl.LOCK_UN])
        done_looking.start()
        with files.hold_lock():
            assert SweepFolder(files.path).is_running
        done_looking.join()
    assert not files.is_running


def test_a_running_sweep_keeps_its_plan_and_its_folder(files):
    other = SweepFolder(files.path)
    plan = files.plan()
    with files.hold_lock():
        with refused("running"):
            other.replace_plan(other.space(), replace(plan, trials=()))
        with refused("running"):
            other.delete()
        files.replace_plan(files.space(), replace(plan, trials=plan.trials[:1]))
    assert len(files.plan().trials) == 1, "who holds the lock may"
    other.replace_plan(other.space(), plan)
    assert files.plan() == plan


def test_a_deleted_sweep_cannot_be_locked_by_an_earlier_handle(files):
    other = SweepFolder(files.path)
    with files.hold_lock():
        pass
    files.delete()
    assert [path.name for path in files.path.parent.iterdir()] == []
    with refused("no sweep named toy: it was deleted"), other.hold_lock():
        pass


def test_a_run_that_comes_between_the_look_and_the_deletion_is_kept(files, monkeypatch):
    monkeypatch.setattr(
        SweepFolder, "require_at_rest", lambda self: None
    )  # it was at rest
    with files.hold_lock(), refused("running"):
        SweepFolder(files.path).delete()
    assert files.plan() == PLAN


def test_the_space_is_that_of_the_log_whatever_became_of_its_file(files):
    """Without its last fields a YAML file is a valid space, which may have no
    budget.
    """
    path, space = files.path / "space.yaml", files.space()
    assert spaces.parse(read_yaml(path)) == space
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:2]))
    assert SweepFolder(files.path).space() == space
    changed = space.model_copy(update={"description": "another"})
    files.replace_plan(changed, files.plan())
    assert spaces.parse(read_yaml(path)) == SweepFolder(files.path).space() == changed


def test_everything_is_its_owners_alone(files):
    files.start_trial(TRIAL)
    for path in [files.path.parent, files.path, *files.path.rglob("*")]:
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path


def test_each_choice_is_seen_once_and_in_its_order(files):
    """By a reader that was there before, and by one that comes later."""

    def ids(reader):
        assert reader.state().statuses(running=False).total() == len(
            reader.plan().trials
        )
        return [trial.id for trial in reader.plan().trials]

    c, d, e = (replace(TRIAL, id=name) for name in "cde")
    early = SweepFolder(files.path)
    assert early.plan().trials[0] is early.plan().trials[0], "nothing is parsed again"
    files.add(log.TrialsSuggested(trials=(c, d)))
    assert ids(early) == [TRIAL.id, "refused", "c", "d"]
    files.add(log.TrialsSuggested(trials=(d, TRIAL, e)))
    assert (
        ids(early)
        == ids(SweepFolder(files.path))
        == [TRIAL.id, "refused", "c", "d", "e"]
    )
    files.replace_plan(files.space(), Plan(name="toy", trials=(c,)))
    assert ids(early) == ids(SweepFolder(files.path)) == ["c"]


def test_a_damaged_log_is_one_problem_with_the_next_step(files):
    files.start_trial(TRIAL)
    files.finish_trial(result(), when=1.0, reason="")
    path = files.path / store.LOG
    path.write_bytes(path.read_bytes()[:-5])
    again = SweepFolder(files.path)
    named = (
        rf"expected whole entries in {path}, .*: restore the sweep's folder from a copy"
    )
    for use in (again.records, again.state, again.plan, again.about, again.start_trial):
        with refused(named, InvalidData):
            use(*[TRIAL] * (use == again.start_trial))
    path.unlink()
    with refused(f"cannot read {path}: it does not exist", InvalidData):
        again.records()


def test_a_restored_copy_of_a_log_is_read_anew(files, tmp_path):
    shutil.copytree(files.path, tmp_path / "copy")
    files.start_trial(TRIAL)
    assert of(files).has_begun
    for name in ("sweep.jsonl", "sweep.head"):
        (tmp_path / "copy" / name).replace(files.path / name)
    assert not of(files).has_begun


def test_nothing_is_recorded_in_a_folder_that_was_removed(files):
    files.plan()
    shutil.rmtree(files.path)
    with refused("cannot read", InvalidData):
        files.note(budget_total=8.0)
    assert not files.path.exists()


def test_threads_record_and_read_at_once(files):
    """The driver records while a tracker reads what is new."""
    done, seen = threading.Event(), list[int]()

    def read():
        while not done.is_set():
            seen.append(len(files.epochs(TRIAL.id)))
            files.records(running=True)

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    for number in range(1, 60):
        files.add_epoch(TRIAL.id, epoch(number), when=1.0)
    done.set()
    for reader in readers:
        reader.join()
    assert len(files.epochs(TRIAL.id)) == 59
    assert set(seen) <= set(range(60))
