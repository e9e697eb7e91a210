"""Sweeps on disk. What is written here is the truth; MLflow and every table follow it.

    $SWEEP_HOME/<sweep>/
      space.yaml        the search space as it was run
      plan.json         every trial and every refusal
      chosen.jsonl      what a running search has added to them
      sweep.json        when, by which command, with which versions
      lock              held by the process that runs the sweep
      clock.json        wall-clock that it has run, over its resumes
      search_denied.json  why its search chooses no more, as the budgets stand
      earlier_trials.json  what its search was told of other sweeps
      stop              its presence asks that process to stop
      trials/<id>/
        config.yaml     fields of the TrialConfig; `sweep run` accepts it
        epochs.jsonl    one line for each finished epoch
        result.json     what was measured, once the trial has ended well
        stopped.json    its result before `sweep resume --continue` took it up again
        failed.json     why it broke
        denied.json     why it may not begin, as the budgets stand
        ...             checkpoint, weights and signals, by the trial itself

Folders are the owner's alone (0700). A trial's status is read off these files, never kept beside.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import time
import uuid
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml

from search_spaces.space import SearchSpace, check_name, parse
from sweep.store import plan_files, plans
from sweep.store.files import flush_folder, read_json, write_json, write_text
from sweep.store.status import TrialStatus
from sweep.store.trial_files import TrialFiles, metric, to_yaml
from sweep.store.trial_files import TrialRecord as TrialRecord  # part of what this module gives
from trainables import locks
from trainables.errors import InvalidData, InvalidInput

# What else lies in the home: whole names, and beginnings of them (the ledger's key and records).
_OWN_NAMES = ("cache", "grafana", "mlartifacts", "mlruns", "prometheus")
_OWN_PREFIXES = ("grafana.", "ledger.", "mlflow-server.", "mlflow.", "prometheus.")
_PATIENCE_SECONDS = 0.5  # for who looks whether the sweep runs
_EARLIER = "earlier_trials.json"
_SEARCH_DENIED = "search_denied.json"


class SweepFolder(TrialFiles):
    """One sweep's folder. Reading needs no lock; writing belongs to whoever holds it."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._holds_lock = False

    @property
    def name(self) -> str:
        """The sweep's name, which is the folder's."""
        return self.path.name

    @property
    def ledger_name(self) -> str:
        """The sweep's name in the ledger: what a deleted sweep has spent is not its namesake's."""
        return f"{self.name}@{str(self.about()['id'])[:8]}"

    def space(self) -> SearchSpace:
        """The space as it was run."""
        return parse(_read_yaml(self.path / "space.yaml"))

    def plan(self) -> plans.Plan:
        """The plan as it was made."""
        return plan_files.read_plan(self.path)

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

    def about(self) -> dict[str, Any]:
        """When the sweep was made, by which command, with which versions."""
        about: dict[str, Any] = read_json(self.path / "sweep.json")
        return about

    # ---- the one process that runs it

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Be the process that runs the sweep. The lock falls with the process, however it ends.

        Raises: InvalidInput where another one is, or where the sweep was deleted.
        """
        with self._lock():
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
                raise self._deleted() from None
            except TimeoutError:
                raise running_already(self.name) from None
            if [path.name for path in self.path.iterdir()] == ["lock"]:
                # Deleted while this one waited, which has made the folder again.
                shutil.rmtree(self.path)
                raise self._deleted()
            self._holds_lock = True
            stack.callback(setattr, self, "_holds_lock", False)
            yield

    def _deleted(self) -> InvalidInput:
        return InvalidInput(f"no sweep named {self.name}: it was deleted")

    @property
    def is_running(self) -> bool:
        """Whether a process holds the lock."""
        return locks.is_held(self.path / "lock")

    def ask_to_stop(self) -> None:
        """Ask the running process to stop; it looks about once a second."""
        write_text(self.path / "stop", "")

    @property
    def stop_is_asked(self) -> bool:
        """Whether somebody asked for a stop since the sweep was started."""
        return (self.path / "stop").exists()

    # ---- the whole

    def deny_search(self, reason: str | None) -> None:
        """Write down why a search may choose no further trial; None: it may."""
        path = self.path / _SEARCH_DENIED
        if reason is None:
            path.unlink(missing_ok=True)
        else:
            write_json(path, {"reason": reason})

    def search_denied(self) -> str | None:
        """Why the search may choose no further trial; None: nothing is known against it."""
        path = self.path / _SEARCH_DENIED
        return str(read_json(path)["reason"]) if path.exists() else None

    def keep_earlier_trials(self, records: Sequence[TrialRecord]) -> None:
        """Keep what was known of other sweeps' trials when this one began."""
        rows = [{**vars(record), "plan": record.plan.to_dict()} for record in records]
        write_json(self.path / _EARLIER, rows)

    def earlier_trials(self) -> list[TrialRecord] | None:
        """What `keep_earlier_trials` kept; None: nothing."""
        path = self.path / _EARLIER
        if not path.exists():
            return None
        rows = read_json(path)
        document = {"name": "", "merged": 0, "trials": [row["plan"] for row in rows]}
        return [
            TrialRecord(
                **{
                    **row,
                    "plan": plan,
                    "status": TrialStatus(row["status"]),
                    "metrics": {name: metric(value) for name, value in row["metrics"].items()},
                    "notes": tuple(row["notes"]),
                }
            )
            for row, plan in zip(rows, plans.from_dict(document).trials, strict=True)
        ]

    def records(self, *, running: bool | None = None) -> list[TrialRecord]:
        """Every trial of the plan, in its order; `running` None: as the lock says."""
        alive = self.is_running if running is None else running
        return [self.record(trial, running=alive) for trial in self.plan().trials]

    def statuses(self) -> Counter[TrialStatus]:
        """How many trials stand where: quicker than `records`."""
        alive = self.is_running
        return Counter(
            self.status(trial_id, runs=runs, running=alive)
            for trial_id, runs in plan_files.outline(self.path)
        )

    def seconds_run(self) -> float:
        """Wall-clock that the sweep has run, over all its resumes."""
        path = self.path / "clock.json"
        return float(read_json(path)["seconds"]) if path.exists() else 0.0

    def write_seconds_run(self, seconds: float) -> None:
        """Write the wall-clock down."""
        write_json(self.path / "clock.json", {"seconds": seconds})

    def note_changes(self, changes: Sequence[str]) -> None:
        """Keep for ever that the space was changed after trials had run."""
        about = self.about()
        noted = [*about.get("changes", ()), {"time": time.time(), "what": list(changes)}]
        write_json(self.path / "sweep.json", {**about, "changes": noted})

    def note(self, **facts: Any) -> None:
        """Add facts to what is known of the sweep as a whole."""
        write_json(self.path / "sweep.json", {**self.about(), **facts})

    @property
    def is_unsealed(self) -> bool:
        """Whether all trials of a private selection are shown."""
        return "unsealed" in self.about()

    def replace_plan(self, space: SearchSpace, plan: plans.Plan) -> None:
        """Put a changed space and its plan in the place of the old ones; trials are kept.

        Raises: InvalidInput where another process runs the sweep.
        """
        with self._lock():
            plan_files.write_plan(self.path, plan)
            write_text(self.path / "space.yaml", to_yaml(space.document()))

    def add_choice(self, trials: Sequence[plans.PlannedTrial]) -> None:
        """Add to the plan what a search has chosen at once; it is on the disk when this returns.

        Raises: InvalidInput where another process runs the sweep.
        """
        with self._lock():
            plan_files.add_choice(self.path, trials)

    def delete(self) -> None:
        """Remove the sweep and all that it made.

        Raises: InvalidInput where it is running.
        """
        self.require_at_rest()
        with self._lock():
            # Gone at once: what is half removed must not be listed, or block the name.
            gone = self.path.with_name(f".{self.name}.{os.getpid()}.{time.monotonic_ns()}")
            self.path.rename(gone)
            shutil.rmtree(gone)

    def require_at_rest(self) -> None:
        """Raises: InvalidInput where it is running."""
        if self.is_running:
            raise InvalidInput(f"sweep {self.name} is running: `sweep stop {self.name}` first")


def create(
    home: Path, space: SearchSpace, plan: plans.Plan, *, about: dict[str, Any]
) -> SweepFolder:
    """A new sweep's folder, whole or not at all.

    Raises: InvalidInput for a name that exists already.
    """
    place = require_free(home, space.name)
    try:
        home.mkdir(parents=True, exist_ok=True, mode=0o700)
        fresh = home / f".{space.name}.{os.getpid()}.{time.monotonic_ns()}"
        fresh.mkdir(mode=0o700)
    except OSError as error:
        raise InvalidInput(f"cannot write to SWEEP_HOME={home}: {error.strerror}") from None
    (fresh / "trials").mkdir(mode=0o700)
    write_text(fresh / "space.yaml", to_yaml(space.document()))
    plan_files.write_plan(fresh, plan)
    # A name can be used again after a deletion; the id cannot.
    about = {"id": uuid.uuid4().hex, "created": time.time(), **about}
    write_json(fresh / "sweep.json", about)
    try:
        fresh.rename(place)
    except OSError:
        shutil.rmtree(fresh)
        raise _taken(home, space.name) from None
    flush_folder(home)
    return SweepFolder(place)


def require_free(home: Path, name: str) -> Path:
    """Where a new sweep of this name will lie.

    Raises: InvalidInput for a name that is none, or that exists already.
    """
    place = _place(home, name)
    if place.exists():
        raise _taken(home, name)
    return place


def running_already(name: str) -> InvalidInput:
    """The refusal to run a sweep twice at a time."""
    return InvalidInput(f"sweep {name} is running already")


def open_sweep(home: Path, name: str) -> SweepFolder:
    """The folder of a sweep that exists.

    Raises: InvalidInput for a name that is none, or that no sweep has.
    """
    place = _place(home, name)
    if not (place / "sweep.json").exists():
        known = ", ".join(names(home)) or "none"
        raise InvalidInput(f"no sweep named {name} in {home}; there are: {known}")
    return SweepFolder(place)


def names(home: Path) -> list[str]:
    """The names of all sweeps, oldest first."""
    if not home.is_dir():
        return []
    found = [entry for entry in home.iterdir() if (entry / "sweep.json").is_file()]
    found = [entry for entry in found if not entry.name.startswith(".")]
    return [entry.name for entry in sorted(found, key=lambda entry: _created(entry))]


def changes(old: SearchSpace, new: SearchSpace) -> list[str]:
    """What differs between two spaces, one sentence each."""
    before, after = _flat(old.document()), _flat(new.document())
    absent = "nothing"
    return [
        f"{path}: {before.get(path, absent)!r} became {after.get(path, absent)!r}"
        for path in sorted(before.keys() | after.keys())
        if before.get(path, absent) != after.get(path, absent)
    ]


def _taken(home: Path, name: str) -> InvalidInput:
    return InvalidInput(
        f"a sweep named {name} exists in {home}: expected another --name, or `sweep resume {name}`"
    )


def _created(folder: Path) -> tuple[float, str]:
    try:
        return float(read_json(folder / "sweep.json").get("created", 0.0)), folder.name
    except (InvalidData, AttributeError, TypeError, ValueError):
        return 0.0, folder.name  # a damaged sweep has a name all the same


def _place(home: Path, name: str) -> Path:
    try:
        check_name(name)
    except ValueError as problem:
        raise InvalidInput(f"name: {problem}") from None
    if name in _OWN_NAMES or name.startswith(_OWN_PREFIXES):
        taken = ", ".join((*_OWN_NAMES, *(f"{prefix}*" for prefix in _OWN_PREFIXES)))
        raise InvalidInput(f"name: expected a name other than the home's own ({taken}), got {name}")
    return home / name


def _flat(value: Any, prefix: str = "") -> dict[str, Any]:
    if not isinstance(value, dict):
        return {prefix: value}
    flat: dict[str, Any] = {}
    for key, inner in value.items():
        flat |= _flat(inner, f"{prefix}.{key}" if prefix else key)
    return flat


def _read_yaml(path: Path) -> dict[str, Any]:
    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, yaml.YAMLError):
        raise InvalidData(f"expected a readable {path}") from None
    if not isinstance(document, dict):
        raise InvalidData(f"expected a mapping in {path}")
    return document
