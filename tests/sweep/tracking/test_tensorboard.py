"""Event files on a disk that fails: the delivery fails, is repeated whole, and never waits."""

from __future__ import annotations

import errno
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("tensorboardX")

from tensorboardX.record_writer import RecordWriter

from sweep.settings import Settings
from sweep.tracking.facts import Epoch, TrialFacts
from sweep.tracking.trackers.tensorboard import FOLDER, EventFiles
from tests.sweep.sweeps import settings_in
from tests.sweep.tracking import readers

NUM_FIGURES = 30  # more than any queue of the library takes


def facts(num_epochs: int, *, status: str = "running") -> TrialFacts:
    figures = {f"figure_{n}": float(n) for n in range(NUM_FIGURES)}
    epochs = tuple(Epoch(step=n, when=n, figures=figures) for n in range(1, num_epochs + 1))
    return TrialFacts(
        sweep="toy",
        sweep_id="1",
        trial="a",
        name="a",
        engine="edp_sgd",
        status=status,
        is_over=status != "running",
        params={"z0": 1.0},
        epochs=epochs,
        final={"ser": 0.5},
        infinite=("epsilon",),
    )


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return replace(settings_in(tmp_path), tracking=("tensorboard",))


def fill_disk(patch: pytest.MonkeyPatch) -> None:
    def write(self: RecordWriter, data: bytes) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    patch.setattr(RecordWriter, "write", write)


@pytest.mark.parametrize("last", [facts(3), facts(3, status="done")])
@pytest.mark.filterwarnings("error::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_full_disk_fails_a_delivery_and_the_next_one_has_everything_once(
    last: TrialFacts, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, files = settings.home / FOLDER / "toy", EventFiles()
    place.mkdir(parents=True)
    files.write(facts(1), place=place)
    with monkeypatch.context() as patch:
        fill_disk(patch)
        with pytest.raises(OSError, match="No space left"):
            files.write(facts(2), place=place)
    files.write(last, place=place)
    files.close()
    (seen,) = readers.READERS["tensorboard"](settings, "toy").values()
    assert sorted(step for step in seen.epochs if step) == [1, 2, 3]
    assert all(len(seen.epochs[step]) >= NUM_FIGURES for step in (1, 2, 3))
