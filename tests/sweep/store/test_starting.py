"""A starting sweep can be stopped like a running one."""

from __future__ import annotations

import fcntl

from sweep import cli
from sweep.store.starting import FOLDER, is_starting, request_stop, starting


def test_stop_reaches_a_sweep_that_is_made_ready(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("SWEEP_HOME", str(tmp_path))
    with starting(tmp_path, "mine") as first, starting(tmp_path, "mine") as second:
        assert not first()
        assert cli.run(["stop", "mine", "--wait", "0"]) == 0
        assert first()
        assert second()
        assert "run the same command again" in capsys.readouterr().out
    assert list((tmp_path / FOLDER).iterdir()) == []
    assert cli.run(["stop", "mine"]) == 2


def test_a_look_while_the_claim_is_made_does_not_remove_it(tmp_path, monkeypatch):
    """It took the file that was not locked yet for that of a killed process."""
    real, looks = fcntl.flock, iter([True])

    def lock(descriptor: int, operation: int) -> None:
        if next(looks, False):
            is_starting(tmp_path, "mine")
        real(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", lock)
    with starting(tmp_path, "mine") as stop_requested:
        assert next(looks, False) is False
        assert request_stop(tmp_path, "mine")
        assert stop_requested()
    assert list((tmp_path / FOLDER).iterdir()) == []


def test_another_sweep_continues(tmp_path):
    with starting(tmp_path, "mine.2") as stop_requested:
        assert not request_stop(tmp_path, "mine")
        assert not request_stop(tmp_path, "../mine.2")
        assert not stop_requested()
        assert is_starting(tmp_path, "mine.2")


def test_what_a_killed_process_left_is_removed(tmp_path):
    (tmp_path / FOLDER).mkdir()
    (tmp_path / FOLDER / "mine.12-34").touch()
    (tmp_path / FOLDER / "mine.12-34.stop").touch()
    assert not is_starting(tmp_path, "mine")
    assert list((tmp_path / FOLDER).iterdir()) == []


def test_a_home_that_takes_no_file_is_no_failure(tmp_path):
    (tmp_path / "home").write_text("a file")
    with starting(tmp_path / "home", "mine") as stop_requested:
        assert not stop_requested()
