"""The plan of a sweep on disk: `plan.json`, and the later choices of a search, a line each.

A choice is appended to `chosen.jsonl`, so that its cost does not grow with their number; writing
the whole plan merges both files.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from sweep.store import plans
from sweep.store.files import (
    append_line,
    read_json,
    read_lines,
    read_lines_from,
    write_json,
)
from trainables.errors import InvalidData

PLAN, CHOSEN = "plan.json", "chosen.jsonl"
_Read = TypeVar("_Read")


class PlanReader:
    """Reads the plan in `folder`, again where `plan.json` has changed, and only the new lines of
    choices. Safe for several threads.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._mark: tuple[int, ...] = ()
        self._known: set[str] = set()
        self._bytes_read = 0  # of chosen.jsonl

    def read(self) -> plans.Plan:
        """The plan with all choices.

        Raises: InvalidData for a damaged one.
        """
        with self._lock:
            return _at_one_moment(self._folder, self._read)

    def _read(self) -> plans.Plan:
        mark, length = _mark_of(self._folder / PLAN), _length_of(self._folder / CHOSEN)
        if not mark or mark != self._mark or length < self._bytes_read:
            self._mark = ()
            self._plan = plans.from_dict(read_json(self._folder / PLAN))
            self._known = {trial.id for trial in self._plan.trials}
            self._mark, self._bytes_read = mark, 0
        if length > self._bytes_read:
            self._add_chosen()
        return self._plan

    def _add_chosen(self) -> None:
        path = self._folder / CHOSEN
        rows, self._bytes_read = read_lines_from(path, self._bytes_read)
        chosen = [plans.trial_from(row) for row in _trials_in(rows, path)]
        new = {trial.id: trial for trial in chosen if trial.id not in self._known}
        self._known |= new.keys()
        self._plan = replace(self._plan, trials=(*self._plan.trials, *new.values()))


def outline(folder: Path) -> list[tuple[str, bool]]:
    """Id of each trial, and whether it runs.

    Raises: InvalidData for a damaged plan.
    """

    def read() -> list[tuple[str, bool]]:
        planned = plans.outline(read_json(folder / PLAN))
        known = {trial_id for trial_id, _ in planned}
        path = folder / CHOSEN
        chosen = plans.outline({"trials": _trials_in(read_lines(path), path)})
        return [*planned, *(pair for pair in chosen if pair[0] not in known)]

    return _at_one_moment(folder, read)


def _at_one_moment(folder: Path, read: Callable[[], _Read]) -> _Read:
    """What `read` finds in both files, again where one was replaced or removed meanwhile, because
    a plan that is written anew takes the choices from their file.
    """

    def files() -> tuple[tuple[int, ...], ...]:
        # A choice that is added changes neither.
        return _mark_of(folder / PLAN), _mark_of(folder / CHOSEN)[:1]

    while True:
        before = files()
        try:
            found = read()
        except InvalidData:
            if files() == before:
                raise
            continue
        if files() == before:
            return found


def write_plan(folder: Path, plan: plans.Plan) -> None:
    """Replace the plan. A crash in between leaves choices twice, which are read as one."""
    write_json(folder / PLAN, plan.to_dict())
    (folder / CHOSEN).unlink(missing_ok=True)


def add_choice(folder: Path, trials: Sequence[plans.PlannedTrial]) -> None:
    """Add the trials of one choice atomically."""
    append_line(folder / CHOSEN, {"trials": [trial.to_dict() for trial in trials]})


def _trials_in(rows: Sequence[dict[str, Any]], path: Path) -> list[dict[str, Any]]:
    try:
        return [trial for row in rows for trial in row["trials"]]
    except (KeyError, TypeError):
        raise InvalidData(f"expected trials in every line of {path}") from None


def _mark_of(path: Path) -> tuple[int, ...]:
    """A mark that changes when a file is replaced; None for a missing file."""
    try:
        found = path.stat()
    except OSError:
        return ()
    return found.st_ino, found.st_mtime_ns, found.st_size


def _length_of(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
