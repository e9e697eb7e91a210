"""Sweeps on disk, the authoritative state that MLflow and every table follow.

    $SWEEP_HOME/<sweep>/
      sweep.jsonl       the log of the sweep (`entries`), with its head and its lock
      space.yaml        the search space as it was run
      lock              held by the process that runs the sweep
      stop              its presence requests that process to stop
      trials/<id>/
        config.yaml     fields of the TrialConfig; `sweep run` accepts it
        manifest.json   the files of an ended trial
        ...             checkpoint, card, weights and signals of the trial
      vault/            of a private selection (`Vault`)

Folders are private to their owner (0700). All else about a sweep and its trials is in its log.
"""

from __future__ import annotations

import os
import shutil
import time
import uuid
from pathlib import Path
from typing import Any

from search_spaces.parts import Budget
from search_spaces.space import SearchSpace, check_name
from sweep.store import plans
from sweep.store.files import add_seal, write_text
from sweep.store.state import TrialRecord as TrialRecord  # re-exported
from sweep.store.sweep_folder import LOG, to_yaml
from sweep.store.sweep_folder import SweepFolder as SweepFolder
from sweep.store.sweep_folder import running_already as running_already
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
        SweepFolder(fresh).create_log(about, plan)
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
    if not (place / LOG).exists():
        known = ", ".join(names(home)) or "none"
        raise InvalidInput(f"no sweep named {name} in {home}; there are: {known}")
    return SweepFolder(place)


def how_to_go_on(home: Path, name: str) -> str:
    """A sentence for an interrupted sweep: what is saved, and how to resume it."""
    if (home / name / LOG).exists():
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
        return (_place(entry.parent, entry.name) / LOG).is_file()
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
        return SweepFolder(folder).made()["created"], folder.name
    except InvalidData:
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


class Vault:
    """The vault of a private selection in the folder of a sweep: its trials, which no command
    shows. It is private to its owner (0700), and read by `sweep resume` and `sweep unseal`.

    `draws` is a separate sweep with every drawn trial; `ledger_file` has the releases of each
    trial, which are charged at unsealing.
    """

    def __init__(self, sweep: SweepFolder) -> None:
        self.path = sweep.path / "vault"
        self.ledger_file = self.path / "ledger.jsonl"
        self.draws = SweepFolder(self.path / "draws")

    @property
    def is_sealed(self) -> bool:
        """Whether it has trials."""
        return self.draws.is_there

    def seal(self, space: SearchSpace, plan: plans.Plan) -> None:
        """Write the trials atomically. No budget stops any of them, because the release is
        charged as a whole.
        """
        mine = space.model_copy(update={"name": self.draws.name, "budget": Budget()})
        create(self.path, mine, plan, about={"command": [], "git_commit": None})

    def selection(self) -> dict[str, Any] | None:
        """The released `trial` (None: none was drawn) and its `draw`; None before the end."""
        return self.draws.about().get("selected") if self.is_sealed else None

    @property
    def is_over(self) -> bool:
        """Whether all trials have ended and the best is released."""
        return self.selection() is not None

    def select(self, *, trial: str | None, draw: str | None) -> None:
        """Record the released trial."""
        self.draws.note(selected={"trial": trial, "draw": draw})
