"""A lock has one holder, is released with its process, and is not disturbed by
checks.
"""

import errno
import multiprocessing
import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import psutil
import pytest

from tests.refusals import refused
from trainables.system import locks
from trainables.system.locks import alone, is_held


def _hold(path, sender):
    with alone(path):
        sender.send("held")
        signal.pause()


def test_one_process_holds_it_until_it_dies(tmp_path):
    path = tmp_path / "a.lock"
    assert not is_held(path)
    assert not path.exists(), "looking makes no file"
    mine, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("fork").Process(
        target=_hold, args=(path, theirs)
    )
    process.start()
    assert mine.recv() == "held"
    assert is_held(path)
    with pytest.raises(TimeoutError), alone(path, patience=0.05):
        pass
    assert process.pid is not None
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    assert not is_held(path)
    with alone(path, patience=1):
        assert is_held(path), "this process's own hold is one"


def holding(path):
    """A process that holds the lock at `path`."""
    mine, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("fork").Process(
        target=_hold, args=(path, theirs)
    )
    process.start()
    assert mine.recv() == "held"
    return process


@pytest.mark.skipif(
    not Path("/proc/locks").exists(), reason="Linux names who holds a lock"
)
@pytest.mark.parametrize("is_stopped", [False, True])
def test_who_waits_for_long_is_told_for_whom(tmp_path, monkeypatch, capsys, is_stopped):
    monkeypatch.setattr(locks, "_SILENT_SECONDS", 0.1)
    path = tmp_path / "a.lock"
    process = holding(path)
    try:
        if is_stopped:
            os.kill(process.pid, signal.SIGSTOP)
            while psutil.Process(process.pid).status() != psutil.STATUS_STOPPED:
                time.sleep(0.01)
        with pytest.raises(TimeoutError), alone(path, patience=0.3):
            pass
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.join()
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"waiting for {path}, which process {process.pid} (")
    assert ("kill -CONT" in line) == is_stopped
    assert line.endswith(" holds")
    with alone(path):  # which waits for nobody
        pass
    assert capsys.readouterr().err == ""


def test_a_holder_that_this_machine_does_not_show_is_said_to_be_one(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr(locks, "_SILENT_SECONDS", 0.05)
    monkeypatch.setattr(
        locks, "_holder", lambda path: None
    )  # as of another machine, over NFS
    process = holding(tmp_path / "a.lock")
    try:
        with pytest.raises(TimeoutError), alone(tmp_path / "a.lock", patience=0.1):
            pass
    finally:
        process.kill()
        process.join()
    assert (
        "which a process that this machine does not show holds"
        in capsys.readouterr().err
    )


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP])
def test_a_disk_without_locks_is_one_line_with_a_way_on(tmp_path, monkeypatch, number):
    """No soft lock in its place, which a killed process would leave."""

    def flock(*args):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("fcntl.flock", flock)
    with (
        refused(
            f"^expected a disk that grants locks in {tmp_path}, got .*local"
            f" disk.*SWEEP_HOME"
        ),
        alone(tmp_path / "a.lock"),
    ):
        pass
    assert not is_held(tmp_path / "a.lock")


def by_four(work):
    """What `work` returns on each of four threads."""
    with ThreadPoolExecutor(4) as pool:
        return [each.result() for each in [pool.submit(work) for _ in range(4)]]


def test_threads_exclude_each_other(tmp_path):
    inside, most = [0], [0]

    def enter():
        for _ in range(20):
            with alone(tmp_path / "a.lock"):
                inside[0] += 1
                most[0] = max(most[0], inside[0])
                time.sleep(0.0005)
                inside[0] -= 1

    by_four(enter)
    assert most == [1]


def test_many_may_look_at_once(tmp_path):
    """A look holds the lock for an instant: another look does not take it for a
    holder.
    """
    path = tmp_path / "a.lock"
    path.touch(mode=0o600)
    assert by_four(lambda: [is_held(path) for _ in range(30)]) == [[False] * 30] * 4


def test_a_process_that_was_stopped_while_it_looked_looks_again(tmp_path, monkeypatch):
    """A pause of its own is no wait for the look of another, which ends at once."""
    path, pauses, sleep = tmp_path / "a.lock", list[float](), time.sleep
    with ExitStack() as other:
        other.enter_context(alone(path))

        def stopped(seconds):
            pauses.append(seconds)
            sleep(0.2)
            if len(pauses) == 2:
                other.close()

        monkeypatch.setattr(time, "sleep", stopped)
        assert not is_held(path)


def test_the_folder_must_be_there(tmp_path):
    with pytest.raises(FileNotFoundError), alone(tmp_path / "gone" / "a.lock"):
        pass
    assert not (tmp_path / "gone").exists()
