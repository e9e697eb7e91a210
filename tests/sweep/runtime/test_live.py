"""What is shown while a sweep runs: what is done, how long the rest takes, why a trial
failed.
"""

import errno
import io
import os
from dataclasses import replace

import pytest
from rich.console import Console

from sweep import status
from sweep.progress_display import lines, num_expected, preparing, watching
from sweep.results.tables.progress import Progress, View
from sweep.store.plans import PlannedTrial
from sweep.store.state import TrialStatus
from sweep.store.sweeps import TrialRecord
from tests.sweep.sweeps import prepared_in, space_in
from tests.trials import run_alone
from trainables.config.trial import parse
from trainables.system import phase


class Clock:
    """Seconds that pass when a test says so."""

    now = 1000.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def view(clock):
    return View("toy", clock=clock)


PLANNED = Progress(name="a", status=TrialStatus.PLANNED, epochs_done=0, epochs=4)
RUNNING = replace(PLANNED, status=TrialStatus.RUNNING)


def after(epochs, name="a"):
    return replace(RUNNING, name=name, epochs_done=epochs, validation=("SER", 0.5))


def done(name="a"):
    return replace(after(4, name), status=TrialStatus.DONE)


def test_trials_that_a_search_has_yet_to_choose_take_time_too(clock):
    view = View("toy", num_expected=10, clock=clock)
    view.update("a", RUNNING)
    clock.now += 20
    view.update("a", after(2))
    # 2 of 40 epochs in 20 s: 38 are left.
    assert view.summary() == "0 of 10 done, about 6 min 20 s left"
    view.update("a", done())
    clock.now += 20
    assert view.summary() == "1 of 10 done, about 6 min 00 s left"


def test_an_epoch_of_full_batches_takes_as_many_passes_as_it_has_steps(view, clock):
    sampled, full = (
        PlannedTrial(
            id=name, variant=name, baseline=False, values={}, steps=40, num_records=600,
            origin={"privacy": {"sampling": sampling}, "training": {"expected_batch_size": 60}},
        )
        for name, sampling in (("a", "poisson"), ("b", "full"))
    )  # fmt: skip
    view.update("a", replace(RUNNING, plan=sampled))
    view.update("b", replace(RUNNING, plan=full))
    clock.now += 20
    view.update("a", replace(after(2), plan=sampled))
    # 2 of 4 + 40 passes in 20 s.
    assert view.summary() == "0 of 2 done, about 7 min 00 s left"


def test_what_passes_before_the_first_trial_is_not_the_trials_pace(view, clock):
    view.update("a", PLANNED)
    clock.now += 100  # Ray starts
    view.update("a", RUNNING)
    clock.now += 10
    view.update("a", after(1))
    assert view.summary() == "0 of 1 done, about 30 s left"


def test_epochs_of_an_earlier_run_are_not_this_ones_pace(view, clock):
    view.update("a", done())
    view.update("b", replace(PLANNED, epochs_done=2))
    view.update("b", replace(RUNNING, epochs_done=2))
    assert view.summary() == "1 of 2 done"
    clock.now += 10
    view.update("b", after(3))
    assert view.summary() == "1 of 2 done, about 10 s left"
    view.update("b", done())
    assert view.summary() == "2 of 2 done"


def test_what_the_first_trial_does_once_is_not_the_pace_of_later_ones(view, clock):
    for name in "abcd":
        view.update(name, PLANNED)
    for name in "ab":
        view.update(name, replace(RUNNING, name=name))
        for epochs in (1, 2, 3, 4):
            clock.now += 10
            view.update(name, after(epochs, name))
        clock.now += 600 if name == "a" else 0  # the shadow model of all trials
        view.update(name, done(name))
    assert view.summary() == "2 of 4 done, about 1 min 20 s left"


def test_a_trial_that_failed_at_once_does_not_hasten_the_others(view, clock):
    for name in "abcd":
        view.update(name, PLANNED)
    for name in "abc":
        view.update(name, RUNNING)
        view.update(name, replace(PLANNED, status=TrialStatus.FAILED))
    view.update("d", RUNNING)
    clock.now += 60
    view.update("d", after(1))
    assert view.summary() == "3 of 4 done, about 3 min 00 s left"


def test_a_trial_without_budget_takes_no_time(view, clock):
    view.update("a", RUNNING)
    view.update("b", replace(PLANNED, reason="no room left in budget.total=1"))
    clock.now += 60
    view.update("a", after(1))
    assert view.summary() == "0 of 2 done, about 3 min 00 s left"


@pytest.mark.parametrize("status", [TrialStatus.FAILED, TrialStatus.INTERRUPTED])
def test_what_a_resume_runs_again_is_not_done(status, tmp_path):
    plan = prepared_in(tmp_path).plan.trials[0]
    fields = {"epochs_done": 2, "metrics": {}, "seconds": 1.0, "reason": "no room left"}
    record = TrialRecord(plan=plan, status=status, **fields)
    assert Progress.of(record).status is TrialStatus.PLANNED
    assert (
        Progress.of(replace(record, status=TrialStatus.DONE)).status is TrialStatus.DONE
    )


def test_a_search_is_expected_to_run_its_seeds_and_its_baselines(tmp_path):
    grid = space_in(tmp_path)
    plan = prepared_in(tmp_path).plan
    assert num_expected(grid, plan) == 3
    asked = replace(plan, to_choose=5)
    assert num_expected(grid, asked) == 1 + 5
    twice = grid.model_copy(update={"repeats": (0, 1)})
    assert num_expected(twice, asked) == 1 + 10
    short = twice.budget.model_copy(update={"trials": 7})
    assert num_expected(twice.model_copy(update={"budget": short}), asked) == 7
    fixed = twice.model_copy(update={"override": {"training.seed": 9}})
    assert num_expected(fixed, asked) == 1 + 5


def test_off_a_terminal_lines_report_progress(clock):
    out = io.StringIO()
    tell = lines(
        View("toy", num_expected=3, clock=clock),
        Console(file=out, width=140),
        clock=clock,
    )
    tell("old", done("old"))
    assert out.getvalue() == "", "it ended before this process began"
    tell("a", RUNNING)
    for epoch in (1, 2, 3):
        clock.now += 25
        tell("a", after(epoch))
    clock.now += 25
    tell("a", replace(RUNNING, status=TrialStatus.DONE, epochs_done=4))
    tell("a", replace(RUNNING, status=TrialStatus.DONE, epochs_done=4))
    assert out.getvalue().splitlines() == [
        "running: a (3 of 4 epochs, validation SER 0.5); 1 of 3 done, about 2 min 05 s"
        " left",
        "done: a (4 of 4 epochs, validation SER 0.5); 2 of 3 done, about 1 min 40 s"
        " left",
    ]


def test_a_failed_trials_line_says_why(clock):
    out = io.StringIO()
    tell = lines(View("toy", clock=clock), Console(file=out, width=140), clock=clock)
    tell("a", RUNNING)
    tell("a", replace(PLANNED, status=TrialStatus.FAILED, reason="no room left"))
    assert out.getvalue() == "failed: a (0 of 4 epochs): no room left; 1 of 1 done\n"


def render(view):
    console = Console(file=io.StringIO(), width=140)
    console.print(view.table(max_rows=20))
    return console.file.getvalue()


def test_the_table_shows_phases_outside_of_training(clock, tmp_path):
    view = View(
        "toy", phase_of=lambda trial_id: phase.of(tmp_path / trial_id), clock=clock
    )
    view.phase = status.STARTING_RAY
    assert "starting Ray: 0 of 0 done" in render(view)
    (tmp_path / "a").mkdir()
    view.phase = status.TRAINING
    view.update("a", RUNNING)
    assert "running" in render(view)
    phase.FOLDER.set(tmp_path / "a")
    phase.enter(phase.ATTACKS)
    assert "attacks" in render(view)
    assert "running" not in render(view)
    phase.enter("")
    assert "running" in render(view)
    assert list((tmp_path / "a").iterdir()) == []


def test_in_a_pipe_each_phase_is_a_line_once():
    console = Console(file=io.StringIO(), width=140)
    with preparing(console, quiet=False):
        status.enter(status.PLANNING)  # a refusal stays one line
    with watching(View("toy"), console, quiet=False):
        status.enter(status.STARTING_RAY)
        status.enter(status.STARTING_RAY)
        status.enter(status.TRAINING)
        status.enter(status.COMPARING)
    status.enter(status.DELIVERING)  # without a listener
    printed = console.file.getvalue().splitlines()
    assert printed == ["starting Ray ...", "comparing trials ..."]


def test_a_real_trial_notes_what_it_does_and_leaves_no_note(tmp_path, monkeypatch):
    noted = []
    monkeypatch.setattr(phase, "enter", noted.append)
    training = {"epochs": 1, "expected_batch_size": 30, "num_workers": 1}
    model = {"name": "clc", "word_vectors": "hashed", "hidden_size": 8, "num_layers": 1}
    fields = {"training": training, "model": model, "engine": "sgd"}
    config = parse(space_in(tmp_path).base | fields)
    before = phase.FOLDER.get()
    run_alone(config, tmp_path / "trial", data=tmp_path)
    assert phase.FOLDER.get() is before
    assert noted == ["loading the corpus", "", "evaluating", "attacks", ""]


def test_the_live_table_fits_the_height():
    out = io.StringIO()
    console = Console(file=out, width=80, height=24, force_terminal=True)
    with watching(View("toy"), console, quiet=False) as watch:
        for trial in range(40):
            for epoch, found in ((1, 0.9), (2, 0.5), (3, 0.1)):
                row = replace(
                    RUNNING, name="a long name of a trial " * 3, epochs_done=epoch
                )
                watch(str(trial), replace(row, validation=("SER", found)))
        out.truncate(0)
    last = out.getvalue().partition("\x1b[?25h")[0]
    assert 20 < last.count("\n") <= 23
    assert out.getvalue().count("\x1b[1A") == last.count("\n"), "it is removed"


class Gone(io.StringIO):
    """A terminal that was closed (EIO), or a pipe whose reader has ended (EPIPE)."""

    def __init__(self, number):
        super().__init__()
        self.number = number

    def write(self, text):
        raise OSError(self.number, os.strerror(self.number))

    def flush(self):
        self.write("")


@pytest.mark.parametrize("is_terminal", [True, False])
@pytest.mark.parametrize("number", [errno.EIO, errno.EPIPE])
def test_a_sweep_outlives_the_screen_that_shows_it(number, is_terminal):
    console = Console(file=Gone(number), force_terminal=is_terminal)
    with preparing(console, quiet=False):
        status.enter(status.CALIBRATING)
    with watching(View("toy"), console, quiet=False) as watch:
        status.enter(status.STARTING_RAY)
        watch("a", RUNNING)
        watch("a", done())
