"""Sweeps on disk, the authoritative state that MLflow and every table follow.

    $SWEEP_HOME/<sweep>/
      space.yaml        the search space as it was run
      plan.json         every trial and every refusal
      chosen.jsonl      trials that a running search has added
      sweep.json        creation time, command, versions
      lock              held by the process that runs the sweep
      clock.json        wall-clock seconds over its resumes
      search_denied.json  why its search chooses no more under the present budgets
      earlier_trials.json  trials of other sweeps that its search uses
      stop              its presence requests that process to stop
      trials/<id>/
        config.yaml     fields of the TrialConfig; `sweep run` accepts it
        epochs.jsonl    one line for each finished epoch; it replaces those from its epoch on
        result.json     the result, once the trial has ended without an error
        stopped.json    its result before `sweep resume --continue` reopened it
        failed.json     why it failed
        denied.json     why it may not begin under the present budgets
        ...             checkpoint, weights and signals of the trial

Folders are private to their owner (0700). A trial's status is derived from these files.
"""

from __future__ import annotations

import os
import shutil
import time
import uuid
from pathlib import Path
from typing import Any

from search_spaces.space import SearchSpace, check_name
from sweep.store import plan_files, plans
from sweep.store.files import read_json, write_json, write_text
from sweep.store.seal import add_seal

# Re-exported.
from sweep.store.sweep_folder import SweepFolder as SweepFolder
from sweep.store.sweep_folder import running_already as running_already
from sweep.store.trial_files import TrialRecord as TrialRecord
from sweep.store.trial_files import to_yaml
from trainables.errors import InvalidData, InvalidInput, StorageFailed
from trainables.system import disk, phase
from trainables.system.disk import flush

# Other files in the home: names, and prefixes of them (the ledger's key and records).
_OWN_NAMES = ("cache", "mlartifacts", "mlruns")
_OWN_PREFIXES = ("ledger.", "mlflow-server.", "mlflow.")


def create(
    home: Path, space: SearchSpace, plan: plans.Plan, *, about: dict[str, Any]
) -> SweepFolder:
    """Create a new sweep's folder atomically.

    Raises: InvalidInput for a name that exists already, or a home that cannot be written to;
    StorageFailed where the disk fails.
    """
    place = require_free(home, space.name)
    fresh = home / f".{space.name}.{os.getpid()}.{time.monotonic_ns()}"
    # A name can be used again after a deletion; the id cannot.
    about = {"id": uuid.uuid4().hex, "created": time.time(), **about}
    try:
        home.mkdir(parents=True, exist_ok=True, mode=0o700)
        fresh.mkdir(mode=0o700)
        (fresh / "trials").mkdir(mode=0o700)
        write_text(fresh / "space.yaml", add_seal(to_yaml(space.document())))
        plan_files.write_plan(fresh, plan)
        write_json(fresh / "sweep.json", about)
        _publish(fresh, place)
        flush(home)
    except OSError as error:
        shutil.rmtree(fresh, ignore_errors=True)
        if (failure := disk.failure_of(error, home)) is not None:
            raise StorageFailed(f"{failure}: {how_to_go_on(home, space.name)}") from None
        raise InvalidInput(f"cannot write to SWEEP_HOME={home}: {error.strerror}") from None
    return SweepFolder(place)


def _publish(fresh: Path, place: Path) -> None:
    """Raises: InvalidInput where another process has taken the name meanwhile."""
    try:
        fresh.rename(place)
    except OSError:
        if not place.exists():
            raise
        shutil.rmtree(fresh)
        raise _name_exists(place.parent, place.name) from None


def require_free(home: Path, name: str) -> Path:
    """The place of a new sweep of this name.

    Raises: InvalidInput for an invalid name, or one that exists already.
    """
    place = _place(home, name)
    if place.exists():
        raise _name_exists(home, name)
    return place


def open_sweep(home: Path, name: str) -> SweepFolder:
    """The folder of a sweep that exists.

    Raises: InvalidInput for an invalid name, or one that no sweep has.
    """
    place = _place(home, name)
    if not (place / "sweep.json").exists():
        known = ", ".join(names(home)) or "none"
        raise InvalidInput(f"no sweep named {name} in {home}; there are: {known}")
    return SweepFolder(place)


def how_to_go_on(home: Path, name: str) -> str:
    """A sentence for an interrupted sweep: what is saved, and how to resume it."""
    if (home / name / "sweep.json").exists():
        return f"every finished epoch is saved; `sweep resume {name}` continues"
    return "no trial has begun; run the same command again"


def phase_of(home: Path, name: str, trial_id: str) -> str:
    """The phase of a running trial outside of training; empty where unknown."""
    return phase.of(SweepFolder(home / name).trial_folder(trial_id))


def names(home: Path) -> list[str]:
    """The names of all sweeps, oldest first."""
    if not home.is_dir():
        return []
    found = [entry for entry in home.iterdir() if _is_sweep(entry)]
    return [entry.name for entry in sorted(found, key=lambda entry: _creation_time(entry))]


def _is_sweep(entry: Path) -> bool:
    """Whether an entry of the home is a sweep that can be opened by its name. A copy under another
    kind of name is none, and neither is what this user cannot read, such as `lost+found`.
    """
    try:
        return (_place(entry.parent, entry.name) / "sweep.json").is_file()
    except (InvalidInput, OSError):
        return False


def changes(old: SearchSpace, new: SearchSpace) -> list[str]:
    """The differences between two spaces, one sentence each."""
    before, after = _flat(old.document()), _flat(new.document())
    absent = "nothing"
    return [
        f"{path}: {before.get(path, absent)!r} became {after.get(path, absent)!r}"
        for path in sorted(before.keys() | after.keys())
        if before.get(path, absent) != after.get(path, absent)
    ]


def _name_exists(home: Path, name: str) -> InvalidInput:
    return InvalidInput(
        f"a sweep named {name} exists in {home}: expected another --name, or `sweep resume {name}`"
    )


def _creation_time(folder: Path) -> tuple[float, str]:
    try:
        return float(read_json(folder / "sweep.json").get("created", 0.0)), folder.name
    except (InvalidData, AttributeError, TypeError, ValueError):
        return 0.0, folder.name  # a damaged sweep has a name, too


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
