"""One sweep's folder: its files, and the lock of the process that runs it."""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from search_spaces.space import SearchSpace, parse
from sweep.store import plan_files, plans
from sweep.store.files import exists, read_json, read_object, write_json, write_text
from sweep.store.kinds import ABOUT, MADE, REASON, SECONDS
from sweep.store.seal import add_seal, is_whole
from sweep.store.status import TrialStatus
from sweep.store.trial_files import TrialFiles, TrialRecord, to_yaml
from trainables.documents import file_text, read_yaml
from trainables.errors import InvalidData, InvalidInput
from trainables.system import collector, locks

_PATIENCE_SECONDS = 0.5  # for who looks whether the sweep runs
_MAX_SPACE_BYTES = 16 << 20
_EARLIER = "earlier_trials.json"
_SEARCH_DENIED = "search_denied.json"


class SweepFolder(TrialFiles):
    """One sweep's folder. Reading needs no lock; only the holder of the lock writes."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._holds_lock = False
        self._plan_reader = plan_files.PlanReader(path)

    @property
    def name(self) -> str:
        """The sweep's name, which is the folder's."""
        return self.path.name

    @property
    def ledger_name(self) -> str:
        """The sweep's name in the ledger, which knows it by the id after the name: unique among
        deleted sweeps of that name, and the same for a folder that was renamed or copied.
        """
        return f"{self.name}@{str(self.about()['id'])[:8]}"

    def space(self) -> SearchSpace:
        """The space as it was run."""
        return parse(self._space_document())

    def _space_document(self) -> dict[str, Any]:
        path = self.path / "space.yaml"
        text = file_text(path, max_bytes=_MAX_SPACE_BYTES)
        if not is_whole(text):
            raise InvalidData(
                f"expected {path} as it was written, got a truncated or edited file: restore it"
                " from a copy (the sweep's run in MLflow has one); `sweep resume --space` makes"
                " changes"
            )
        document = read_yaml(path, max_bytes=_MAX_SPACE_BYTES)
        if not isinstance(document, dict):
            raise InvalidData(f"expected a mapping in {path}")
        return document

    def plan(self) -> plans.Plan:
        """The plan as it was made."""
        return self._plan_reader.read()

    def plan_of(self, trial_id: str) -> plans.PlannedTrial:
        """The plan of one trial.

        Raises: InvalidInput for an id (or the beginning of one) that no trial has.
        """
        found = [trial for trial in self.plan().trials if trial.id.startswith(trial_id)]
        if len(found) != 1:
            kind = "no trial" if not found else f"{len(found)} trials"
            raise InvalidInput(
                f"expected the id of a trial of {self.name}, got {trial_id!r}: {kind}"
            )
        return found[0]

    @property
    def is_there(self) -> bool:
        """Whether the sweep's folder exists."""
        return (self.path / "sweep.json").exists()

    def about(self) -> dict[str, Any]:
        """When the sweep was made, by which command, with which versions."""
        return read_object(self.path / "sweep.json", ABOUT)

    def command_facts(self) -> dict[str, Any]:
        """As `about`, of a sweep that a command has made: `created`, `command`, `git_commit` and
        `versions` exist.
        """
        return read_object(self.path / "sweep.json", MADE)

    # ---- the one process that runs it

    @contextlib.contextmanager
    def hold_lock(self) -> Iterator[None]:
        """Hold the lock of the process that runs the sweep. It is released with the process.

        Raises: InvalidInput where another process holds it or runs a copy of the folder, or where
        the sweep was deleted.
        """
        with self._lock():
            for copy in self.copies():
                if copy.is_running:
                    raise InvalidInput(
                        f"sweep {copy.name} is running, a copy of {self.name}, which is the same"
                        " sweep: `sweep stop` it first"
                    )
            (self.path / "stop").unlink(missing_ok=True)
            yield

    @contextlib.contextmanager
    def _lock(self) -> Iterator[None]:
        """Hold the lock; this object may hold it already."""
        if self._holds_lock:
            yield
            return
        with contextlib.ExitStack() as stack:
            try:
                stack.enter_context(locks.alone(self.path / "lock", patience=_PATIENCE_SECONDS))
            except FileNotFoundError:
                raise self._deleted_error() from None
            except TimeoutError:
                raise running_already(self.name) from None
            if [path.name for path in self.path.iterdir()] == ["lock"]:
                # Deleted while this process waited; it has recreated the folder.
                shutil.rmtree(self.path)
                raise self._deleted_error()
            self._holds_lock = True
            stack.callback(setattr, self, "_holds_lock", False)
            yield

    def _deleted_error(self) -> InvalidInput:
        return InvalidInput(f"no sweep named {self.name}: it was deleted")

    def copies(self) -> list[SweepFolder]:
        """The other folders beside it that are the same sweep; a link to it is no other folder."""
        mine, here = self.about()["id"], self.path.resolve()
        found = []
        for place in self.path.parent.iterdir():
            with contextlib.suppress(InvalidData, OSError):
                if place.resolve() != here and (place / "sweep.json").is_file():
                    other = SweepFolder(place)
                    found += [other] if other.about()["id"] == mine else []
        return found

    @property
    def is_running(self) -> bool:
        """Whether a process holds the lock."""
        return locks.is_held(self.path / "lock")

    def request_stop(self) -> None:
        """Request the running process to stop; it checks about once a second."""
        write_text(self.path / "stop", "")

    @property
    def is_stop_requested(self) -> bool:
        """Whether a stop was requested since the sweep was started."""
        return (self.path / "stop").exists()

    # ---- the whole

    def deny_search(self, reason: str | None) -> None:
        """Record why a search may choose no further trial; None: it may."""
        path = self.path / _SEARCH_DENIED
        if reason is None:
            path.unlink(missing_ok=True)
        else:
            write_json(path, {"reason": reason})

    def search_denied(self) -> str | None:
        """The recorded reason why the search may choose no further trial, or None."""
        path = self.path / _SEARCH_DENIED
        return str(read_object(path, REASON)["reason"]) if exists(path) else None

    def keep_earlier_trials(self, records: Sequence[TrialRecord]) -> None:
        """Store the records of other sweeps' trials at the start of this one."""
        rows = TypeAdapter(list[TrialRecord]).dump_python(list(records), by_alias=True)
        write_json(self.path / _EARLIER, rows)

    def earlier_trials(self) -> list[TrialRecord] | None:
        """The records of `keep_earlier_trials`, or None."""
        path = self.path / _EARLIER
        if not exists(path):
            return None
        rows = read_json(path)
        try:
            return TypeAdapter(list[TrialRecord]).validate_python(rows)
        except (TypeError, ValueError):
            raise InvalidData(f"expected trials in {path} as they were written") from None

    def records(self, *, running: bool | None = None) -> list[TrialRecord]:
        """Every trial of the plan, in its order; `running` None: by the lock."""
        alive = self.is_running if running is None else running
        with collector.paused():
            return [self.record(trial, running=alive) for trial in self.plan().trials]

    def statuses(self) -> Counter[TrialStatus]:
        """The number of trials by status, faster than `records`."""
        alive = self.is_running
        return Counter(
            self.status(trial_id, runs=runs, running=alive)
            for trial_id, runs in plan_files.outline(self.path)
        )

    def seconds_run(self) -> float:
        """Wall-clock seconds of the sweep, over all its resumes."""
        path = self.path / "clock.json"
        return float(read_object(path, SECONDS)["seconds"]) if exists(path) else 0.0

    def write_seconds_run(self, seconds: float) -> None:
        """Record the wall-clock seconds."""
        write_json(self.path / "clock.json", {"seconds": seconds})

    def note_changes(self, changes: Sequence[str]) -> None:
        """Record permanently that the space was changed after trials had run."""
        about = self.about()
        noted = [*about.get("changes", ()), {"time": time.time(), "what": list(changes)}]
        write_json(self.path / "sweep.json", {**about, "changes": noted})

    def note(self, **facts: Any) -> None:
        """Add facts to `sweep.json`."""
        write_json(self.path / "sweep.json", {**self.about(), **facts})

    @property
    def is_unsealed(self) -> bool:
        """Whether all trials of a private selection are shown."""
        return "unsealed" in self.about()

    def replace_plan(self, space: SearchSpace, plan: plans.Plan) -> None:
        """Replace the space and its plan by changed ones; trials are kept.

        Raises: InvalidInput where another process runs the sweep.
        """
        with self._lock():
            plan_files.write_plan(self.path, plan)
            write_text(self.path / "space.yaml", add_seal(to_yaml(space.document())))

    def add_choice(self, trials: Sequence[plans.PlannedTrial]) -> None:
        """Add the trials of one choice of a search to the plan, on the disk when this returns.

        Raises: InvalidInput where another process runs the sweep.
        """
        with self._lock():
            plan_files.add_choice(self.path, trials)

    def delete(self) -> None:
        """Remove the sweep and all its files.

        Raises: InvalidInput where it is running.
        """
        self.require_at_rest()
        with self._lock():
            # Renamed first: a partly removed sweep must not be listed, or block the name.
            gone = self.path.with_name(f".{self.name}.{os.getpid()}.{time.monotonic_ns()}")
            self.path.rename(gone)
            shutil.rmtree(gone)

    def require_at_rest(self) -> None:
        """Raises: InvalidInput where it is running."""
        if self.is_running:
            raise InvalidInput(f"sweep {self.name} is running: `sweep stop {self.name}` first")


def running_already(name: str) -> InvalidInput:
    """The refusal to run a sweep twice at a time."""
    return InvalidInput(f"sweep {name} is running already")
