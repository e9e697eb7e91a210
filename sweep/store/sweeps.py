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
import platform
import shutil
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any

from search_spaces.parts import Budget
from search_spaces.space import SearchSpace, check_name
from sweep.settings import Settings, hide_passwords
from sweep.store import plans
from sweep.store.files import add_seal, write_text
from sweep.store.state import TrialRecord as TrialRecord  # re-exported
from sweep.store.sweep_folder import LOG, to_yaml
from sweep.store.sweep_folder import SweepFolder as SweepFolder
from sweep.store.sweep_folder import running_already as running_already
from trainables.errors import InvalidData, InvalidInput, StorageFailed, SweepError
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


_PACKAGES = ("dp-nlu-sweep", "torch", "ray", "mlflow", "numpy", "dp-accounting", "transformers")


def about(command: Sequence[str]) -> dict[str, Any]:
    """The provenance of a sweep as plain data; exports and reports have it."""
    return {
        "command": [hide_passwords(word) for word in command],
        "git_commit": _git_commit(),
        "versions": {"python": platform.python_version(), **dict(_versions())},
        "machine": platform.machine(),
    }


def _git_commit() -> str | None:
    """The commit of this code, where it runs from a checkout.

    An installed package may be inside another repository (a virtual environment in a user's
    project), whose commit is not that of this code.
    """
    here = Path(__file__)
    return _git(here, "rev-parse", "HEAD") if _git(here, "ls-files", here.name) else None


def _git(here: Path, *words: str) -> str | None:
    try:
        found = subprocess.run(
            ["git", *words],
            cwd=here.parent,
            capture_output=True,
            text=True,
            timeout=10,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return found.stdout.strip() or None


def _versions() -> Iterator[tuple[str, str]]:
    for package in _PACKAGES:
        try:
            yield package, metadata.version(package)
        except metadata.PackageNotFoundError:
            continue


@contextmanager
def storage_faults(folder: SweepFolder) -> Iterator[None]:
    """Raises: StorageFailed instead of any error that the disk of a running sweep has caused."""
    was_there = folder.is_there
    try:
        yield
    except Exception as error:
        failure = disk.failure_of(error, folder.path)
        if was_there and not folder.is_there:
            shutil.rmtree(folder.path, ignore_errors=True)  # trials had recreated parts of it
            raise StorageFailed(
                f"the folder {folder.path} was removed while the sweep ran: it cannot continue, and"
                " the ledger keeps what was spent"
            ) from None
        if failure is None:
            raise
        raise StorageFailed(
            f"{failure}: saved results are intact and trials are paused; when the disk works again,"
            f" `sweep resume {folder.name}` continues"
        ) from None


def require_storage(settings: Settings) -> None:
    """Check that the folders of all sweeps can be written to, before anything is started.

    Raises: StorageFailed where the disk fails; InvalidInput for any other reason.
    """
    _for_each_folder(settings, disk.require_writable)


def make_folders(settings: Settings) -> None:
    """Make the folders of all sweeps where they are missing.

    Raises: as `require_storage`.
    """
    _for_each_folder(settings, partial(Path.mkdir, mode=0o700, parents=True, exist_ok=True))


def _for_each_folder(settings: Settings, check: Callable[[Path], None]) -> None:
    for name, folder in (("SWEEP_HOME", settings.home), ("SWEEP_CACHE_DIR", settings.cache_dir)):
        try:
            check(folder)
        except (OSError, StorageFailed) as error:
            raise _cannot_write(name, folder, error) from None


def _cannot_write(name: str, folder: Path, error: OSError | StorageFailed) -> SweepError:
    if (failure := disk.failure_of(error, folder)) is not None:
        return StorageFailed(f"{failure}: nothing was started; run the same command again")
    return InvalidInput(f"cannot write to {name}={folder}: {getattr(error, 'strerror', error)}")
