"""A starting sweep can be stopped like a running one, and has one process."""

import pytest

from sweep import cli
from sweep.store.starting import FOLDER, is_starting, request_stop, starting
from trainables.errors import InvalidInput


def test_stop_reaches_a_sweep_that_is_made_ready(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("SWEEP_HOME", str(tmp_path))
    with starting(tmp_path, "mine") as stop_requested:
        assert not stop_requested()
        assert cli.run(["stop", "mine", "--wait", "0"]) == 0
        assert stop_requested()
        assert "run the same command again" in capsys.readouterr().out
    assert cli.run(["stop", "mine"]) == 2


def test_a_second_start_of_the_name_is_refused_and_another_continues(tmp_path):
    with starting(tmp_path, "mine.2") as stop_requested:
        with pytest.raises(InvalidInput, match=r"^sweep mine\.2 is running already$"):
            starting(tmp_path, "mine.2").__enter__()
        assert not request_stop(tmp_path, "mine")
        assert not request_stop(tmp_path, "../mine.2")
        assert not stop_requested()
        assert is_starting(tmp_path, "mine.2")


def test_who_waits_holds_the_file_that_others_see(tmp_path):
    """A removed file would be held beside the one that the next process makes."""
    place = tmp_path / FOLDER / "mine"
    with starting(tmp_path, "mine"):
        number = place.stat().st_ino
    with starting(tmp_path, "mine"):
        assert place.stat().st_ino == number
        assert is_starting(tmp_path, "mine")
    assert not is_starting(tmp_path, "mine")


def test_what_a_killed_process_left_stops_nothing(tmp_path):
    (tmp_path / FOLDER).mkdir()
    (tmp_path / FOLDER / "mine").touch()
    (tmp_path / FOLDER / "mine.stop").touch()
    assert not is_starting(tmp_path, "mine")
    with starting(tmp_path, "mine") as stop_requested:
        assert not stop_requested()


def test_a_home_that_takes_no_file_is_no_failure(tmp_path):
    (tmp_path / "home").write_text("a file")
    with starting(tmp_path / "home", "mine") as stop_requested:
        assert not stop_requested()
