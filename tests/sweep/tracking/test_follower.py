"""A tracker of files: every trial is written, none twice, wherever a process was interrupted."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from sweep.store import sweeps as store
from sweep.store.plans import Plan
from sweep.store.sweeps import SweepFolder
from sweep.tracking.facts import TrialFacts
from sweep.tracking.follower import Follower
from tests.sweep.store.test_trial_files import TRIAL, epoch, result
from tests.sweep.sweeps import space_in

OTHER = replace(TRIAL, id="other")


@dataclass
class Lines:
    """A writer of one file a trial; `fails` makes the next write fail before it writes."""

    written: list[tuple[str, int, str]] = field(default_factory=list)
    fails: bool = False
    closed: int = 0

    def write(self, trial: TrialFacts, *, place: Path) -> None:
        if self.fails:
            self.fails = False
            raise OSError("the disk is full")
        (place / f"{trial.trial}.txt").write_text(trial.state)
        self.written.append((trial.trial, len(trial.epochs), trial.status))

    def close(self) -> None:
        self.closed += 1


@pytest.fixture
def folder(tmp_path: Path) -> SweepFolder:
    plan = Plan(name="toy", trials=(TRIAL, OTHER))
    return store.create(tmp_path / "home", space_in(tmp_path), plan, about={})


def follower(folder: SweepFolder, writer: Lines) -> Follower:
    """A tracker in a process of its own, under the home."""
    return Follower(writer, root=folder.path.parent / "lines", audience="public")


def test_news_are_written_once_and_what_has_not_begun_never(folder: SweepFolder) -> None:
    writer = Lines()
    tracker = follower(folder, writer)
    tracker.deliver(folder, running=True)
    assert writer.written == []
    folder.start_trial(TRIAL)
    for _ in range(2):
        tracker.deliver(folder, running=True)
    folder.add_epoch(TRIAL.id, epoch(1, validation_ser=0.5), when=1.0)
    for _ in range(2):
        tracker.deliver(folder, running=True)
    folder.finish_trial(result(), when=2.0, reason="")
    for _ in range(2):
        tracker.deliver(folder, running=True)
    assert writer.written == [
        (TRIAL.id, 0, "running"),
        (TRIAL.id, 1, "running"),
        (TRIAL.id, 1, "done"),
    ]


def test_only_the_trials_that_are_asked_for_are_written(folder: SweepFolder) -> None:
    """A trial that the plan has lost is none."""
    writer = Lines()
    for trial in (TRIAL, OTHER):
        folder.start_trial(trial)
    follower(folder, writer).deliver(folder, [OTHER.id, "gone"], running=True)
    assert [name for name, *_ in writer.written] == [OTHER.id]


def test_another_process_writes_a_finished_trial_again_only_if_it_has_changed(
    folder: SweepFolder,
) -> None:
    folder.start_trial(TRIAL)
    folder.finish_trial(result(), when=2.0, reason="")
    follower(folder, Lines()).deliver(folder, running=False)
    again = Lines()
    follower(folder, again).deliver(folder, running=False)
    assert again.written == []
    folder.write_panel(TRIAL.id, {"metrics": {"epsilon": 3.0}, "notes": [], "violation": None})
    follower(folder, again).deliver(folder, running=False)
    assert again.written == [(TRIAL.id, 0, "done")]


def test_an_unfinished_trial_is_written_whole_by_the_next_process(folder: SweepFolder) -> None:
    folder.start_trial(TRIAL)
    folder.add_epoch(TRIAL.id, epoch(1), when=1.0)
    follower(folder, Lines()).deliver(folder, running=True)
    again = Lines()
    follower(folder, again).deliver(folder, running=False)
    assert again.written == [(TRIAL.id, 1, "interrupted")]


def test_what_failed_to_be_written_is_written_by_the_next_delivery(folder: SweepFolder) -> None:
    writer = Lines(fails=True)
    tracker = follower(folder, writer)
    folder.start_trial(TRIAL)
    folder.finish_trial(result(), when=2.0, reason="")
    with pytest.raises(OSError, match="full"):
        tracker.deliver(folder, running=False)
    tracker.deliver(folder, running=False)
    assert writer.written == [(TRIAL.id, 0, "done")]


def test_a_damaged_note_costs_a_second_writing_and_no_result(folder: SweepFolder) -> None:
    folder.start_trial(TRIAL)
    folder.finish_trial(result(), when=2.0, reason="")
    follower(folder, Lines()).deliver(folder, running=False)
    (folder.path.parent / "lines" / "toy" / f"{TRIAL.id}.json").write_text("{")
    again = Lines()
    follower(folder, again).deliver(folder, running=False)
    assert len(again.written) == 1


def test_a_deleted_sweep_leaves_no_file_and_one_of_its_name_starts_anew(
    folder: SweepFolder, tmp_path: Path
) -> None:
    writer = Lines()
    tracker = follower(folder, writer)
    folder.start_trial(TRIAL)
    folder.finish_trial(result(), when=2.0, reason="")
    tracker.deliver(folder, running=False)
    kept = folder.path.parent / "lines" / "another"
    kept.mkdir()
    tracker.delete(folder)
    assert writer.closed == 1
    assert [path.name for path in kept.parent.iterdir()] == ["another"]
    folder.delete()
    plan = Plan(name="toy", trials=(TRIAL,))
    new = store.create(tmp_path / "home", space_in(tmp_path), plan, about={})
    new.start_trial(TRIAL)
    new.finish_trial(result(), when=3.0, reason="")
    tracker.deliver(new, running=False)
    assert len(writer.written) == 2
