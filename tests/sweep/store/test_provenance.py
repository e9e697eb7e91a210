"""A sweep names the commit of its code, not that of a surrounding repository."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from sweep.store import provenance


def commit_all(folder: Path) -> str:
    for words in (
        ["init", "--quiet"],
        ["add", "."],
        ["-c", "user.name=a", "-c", "user.email=a@b.c", "commit", "--quiet", "-m", "one"],
    ):
        subprocess.run(["git", *words], cwd=folder, check=True)
    head = ["git", "rev-parse", "HEAD"]
    return subprocess.run(head, cwd=folder, check=True, capture_output=True, text=True).stdout


@pytest.mark.parametrize("is_own", [True, False])
def test_the_commit_is_that_of_the_code(
    is_own: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".gitignore").write_text("" if is_own else ".venv/\n")
    installed = tmp_path / ".venv" / "provenance.py"
    installed.parent.mkdir()
    shutil.copy(provenance.__file__, installed)
    commit = commit_all(tmp_path).strip()
    monkeypatch.setattr(provenance, "__file__", str(installed))
    assert provenance.about(["sweep"])["git_commit"] == (commit if is_own else None)


def test_a_disk_on_which_git_hangs_costs_the_commit_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def hang(command: list[str], *, timeout: float, **others: object) -> None:
        raise subprocess.TimeoutExpired(command, timeout)

    monkeypatch.setattr(subprocess, "run", hang)
    assert provenance.about(["sweep"])["git_commit"] is None


# Exports and reports have the command, and leave this machine.
STORE = "postgresql://ann:{}@host:5432/runs"


def test_a_command_is_kept_without_the_password_of_the_tracking_store() -> None:
    given = ["sweep", "run", "quick", "--tracking-uri", STORE.format("s3cret")]
    kept = provenance.about([*given, f"--tracking-uri={STORE.format('p/w@d')}"])["command"]
    assert kept == [*given[:-1], STORE.format("***"), f"--tracking-uri={STORE.format('***')}"]
