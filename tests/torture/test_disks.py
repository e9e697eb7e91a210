"""A disk that is full, read-only or gone pauses trials, and is one line with the way
on.
"""

import errno
import json
import os
import shutil
import subprocess
from contextlib import contextmanager

import pytest
from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import zeros

from sweep import cli
from sweep.runtime import runner
from sweep.store import sweeps as store
from tests.libraries import IGNORED
from tests.refusals import refused
from tests.sweep.sweeps import TOY, prepared_in, run_toy, settings_in, statuses
from tests.sweep.untracked import without_mlflow
from tests.torture.interrupts import SPACE, write_space
from trainables.errors import InvalidData, StorageFailed
from trainables.io import disk

pytestmark = IGNORED
WORDS = {
    errno.ENOSPC: "is full",
    errno.EROFS: "is read-only",
    errno.EIO: "does not answer",
}


@contextmanager
def small_disk(place, *, megabytes):
    """A file system in memory, mounted at `place`; skips the test where this process
    may not.
    """
    place.mkdir(parents=True, exist_ok=True)
    if (mount := shutil.which("mount")) is None:
        pytest.skip("there is no mount here")
    command = [mount, "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(place)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"a file system cannot be mounted here: {done.stderr.strip()}")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


@contextmanager
def failing_flushes(number, *, after):
    """Every flush to the disk fails, but for the first `after`; their count."""
    calls = [0]
    flush = os.fsync

    def fsync(descriptor):
        calls[0] += 1
        if calls[0] > after:
            raise OSError(number, os.strerror(number))
        flush(descriptor)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", fsync)
        yield calls


@pytest.mark.parametrize(
    ("number", "every"),
    [pytest.param(errno.ENOSPC, 4, marks=pytest.mark.slow), (errno.EROFS, 13)],
)
def test_a_write_that_fails_anywhere_pauses_and_loses_nothing(number, every, tmp_path):
    """At the flushes of the store in turn: files, lines, ledger, checkpoints."""
    (tmp_path / "whole").mkdir()
    with without_mlflow(), failing_flushes(0, after=10_000) as calls:
        run_toy(tmp_path / "whole")
    assert calls[0] > 30
    begun = 0
    for after in range(0, calls[0] - 2, every):
        folder = tmp_path / f"after-{after}"
        folder.mkdir()
        with (
            without_mlflow(),
            failing_flushes(number, after=after),
            refused(WORDS[number], StorageFailed) as failure,
        ):
            run_toy(folder)
        home = settings_in(folder).home
        if not store.names(home):
            continue
        begun += 1
        assert "`sweep resume toy` continues" in str(failure.value)
        sweep = store.open_sweep(home, "toy")
        assert set(statuses(sweep)) <= {"done", "interrupted", "planned"}, after
        with without_mlflow():
            runner.resume(sweep, settings_in(folder), function=TOY)
        assert set(statuses(sweep)) == {"done"}, after
    assert begun > 30 / every


def test_the_words_of_libraries_are_understood(tmp_path):
    """safetensors, SQLite and zip have errors of their own, without a number."""
    for text, word in (
        (
            "Error: IoError(Os { code: 28, message: 'No space left on device' })",
            "is full",
        ),
        (
            "(sqlite3.OperationalError) database or disk is full [SQL: INSERT ...]",
            "is full",
        ),
        ("attempt to write a readonly database", "is read-only"),
    ):
        failure = disk.failure_of(ValueError(text), tmp_path)
        assert failure is not None
        assert f"the disk of {tmp_path} {word} (" in str(failure)
        hidden = RuntimeError("something else")
        hidden.__context__ = ValueError(text)
        assert disk.failure_of(hidden, tmp_path) is not None
    assert disk.failure_of(OSError(errno.EACCES, "Permission denied"), tmp_path) is None
    assert disk.failure_of(FileNotFoundError(2, "No such file"), tmp_path) is None


def test_a_folder_that_is_removed_under_the_sweep_is_one_sentence(tmp_path):
    home = settings_in(tmp_path).home

    def watch(trial_id, progress):
        if progress.epochs_done == 2 and (home / "toy").exists():
            shutil.rmtree(home / "toy")

    settings = settings_in(tmp_path)
    prepared = prepared_in(tmp_path)
    with without_mlflow(), refused(r"cannot read .*: it does not exist", InvalidData):
        runner.start(prepared, settings, function=TOY, watch=watch)
    assert store.names(home) == []


_SLOW_SIZES = (2, 3, 4, 5, 6, 8, 10, 12, 14, 16)


@pytest.mark.parametrize(
    "megabytes",
    [1, *(pytest.param(size, marks=pytest.mark.slow) for size in _SLOW_SIZES)],
)
def test_a_disk_that_fills_up_is_one_line(megabytes, tmp_path, capsys, monkeypatch):
    with small_disk(tmp_path / "home", megabytes=megabytes):
        monkeypatch.setenv("SWEEP_HOME", str(tmp_path / "home"))
        monkeypatch.setenv("SWEEP_DATA_DIR", str(tmp_path))
        code = cli.run(["run", str(write_space(tmp_path, executor="local")), "--json"])
        out, err = capsys.readouterr()
        if code == 0:
            assert {trial["status"] for trial in json.loads(out)["trials"]} == {"done"}
            return
        assert code == 1
        assert err.startswith("error: the disk of ")
        assert " is full (" in err
        assert err.count("\n") == 1
        assert f"`sweep resume {SPACE}` continues" in err or "the same command" in err
        for name in store.names(tmp_path / "home"):
            left = statuses(store.open_sweep(tmp_path / "home", name))
            assert set(left) <= {"done", "interrupted", "planned"}


def remount(place, how):
    subprocess.run(["mount", "-o", f"remount,{how}", str(place)], check=True)


def test_nothing_starts_on_a_read_only_disk(tmp_path):
    with small_disk(tmp_path / "home", megabytes=8):
        settings = settings_in(tmp_path)
        prepared = prepared_in(tmp_path)
        remount(settings.home, "ro")
        with without_mlflow(), refused(r"is read-only.*same command", StorageFailed):
            runner.start(prepared, settings, function=TOY)
        remount(settings.home, "rw")
        with without_mlflow():
            sweep = runner.start(prepared, settings, function=TOY).folder
        assert set(statuses(sweep)) == {"done"}


def test_tensors_on_a_full_disk_raise_a_storage_error(tmp_path):
    with small_disk(tmp_path / "small", megabytes=1):
        with pytest.raises((SafetensorError, OSError)) as error:
            save_file(
                {"x": zeros(1_000_000)}, str(tmp_path / "small" / "x.safetensors")
            )
        failure = disk.failure_of(error.value, tmp_path / "small")
        assert "is full" in str(failure)
