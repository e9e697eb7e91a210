"""Work in fresh interpreters: every task is answered in order, and one failure ends them all."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from sweep.planning.child_processes import run_children
from trainables.errors import TrialFailed

_CHILD = """
import os, sys, time
from pathlib import Path
from sweep.planning.child_processes import answer_task

def do(task):
    if "marks" in task:
        (Path(task["marks"]) / str(os.getpid())).touch()
    time.sleep(task.get("seconds", 0))
    if "code" in task:
        print("the text of a record")
        sys.exit(task["code"])
    return {"number": task["number"], "process": os.getpid(), "group": os.getpgid(0)}

answer_task(do)
"""


@pytest.fixture
def child(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a module whose process sleeps, fails or answers, as its task says."""
    (tmp_path / "measured_child.py").write_text(_CHILD)
    before = os.environ.get("PYTHONPATH", "")
    root = str(Path(__file__).resolve().parents[3])
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), root, before]))
    return "measured_child"


def test_answers_have_the_order_of_their_tasks(child: str) -> None:
    """The first task takes the longest."""
    tasks = [{"number": 0, "seconds": 0.3}, {"number": 1}]
    answers = run_children(child, tasks, patience=60)
    assert [answer["number"] for answer in answers] == [0, 1]
    assert len({answer["process"] for answer in answers} | {os.getpid()}) == 3
    groups = {answer["group"] for answer in answers}
    assert os.getpgid(0) not in groups, "an interrupt goes to the parent alone"


def test_no_task_needs_no_process() -> None:
    assert run_children("no_such_module", [], patience=1) == []


def test_a_child_that_fails_is_named_by_its_exit_code_alone(
    child: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """What it printed may quote a record."""
    with pytest.raises(TrialFailed, match=r"^a measuring process ended with exit code 7$"):
        run_children(child, [{"number": 0}, {"number": 1, "code": 7}], patience=60)
    assert "record" not in capfd.readouterr().out


def test_a_child_that_takes_too_long_is_stopped(child: str, tmp_path: Path) -> None:
    marks = tmp_path / "marks"
    marks.mkdir()
    tasks = [{"number": n, "seconds": 600, "marks": str(marks)} for n in range(2)]
    started = time.monotonic()
    with pytest.raises(TrialFailed, match=r"^a measuring process took longer than 0\.5 s$"):
        run_children(child, tasks, patience=0.5)
    assert time.monotonic() - started < 60
    for mark in marks.iterdir():
        with pytest.raises(ProcessLookupError):
            os.kill(int(mark.name), 0)
