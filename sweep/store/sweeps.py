"""Sweeps on disk, the authoritative state that MLflow and every table follow.

    $SWEEP_HOME/<sweep>/
      sweep.jsonl       the log of the sweep (`state`), with its head and its lock
      space.yaml        the search space as it was run, for people; the log has it too
      lock              held by the process that runs the sweep
      stop              its presence requests that process to stop
      trials/<id>/
        config.yaml     fields of the TrialConfig; `sweep run` accepts it
        manifest.json   the files of an ended trial
        ...             checkpoint, card, weights and signals of the trial
      vault/            of a private selection (`Vault`)

Folders are private to their owner (0700). All else about a sweep and its trials is in
its log.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict
from importlib import metadata
from pathlib import Path
from typing import Any

from search_spaces.parts import Budget
from search_spaces.space import SearchSpace, check_name, parse
from sweep.settings import Settings, hide_passwords
from sweep.store import manifest
from sweep.store import state as log
from sweep.store.chained_log import ChainedLog
from sweep.store.files import write_text
from sweep.store.plans import Plan, PlannedTrial
from sweep.store.state import TrialRecord as TrialRecord  # re-exported
from trainables.dp.accounting.summary import plain
from trainables.errors import InvalidData, InvalidInput, StorageFailed
from trainables.io import disk
from trainables.io.documents import format_yaml
from trainables.io.files import make_folder
from trainables.result import EpochReport, TrialResult
from trainables.system import collector, locks

LOG = "sweep.jsonl"
_ADVICE = "restore the sweep's folder from a copy; the ledger keeps what was spent"
PATIENCE_SECONDS = 0.5  # for who looks whether the sweep runs
# Other files in the home: names, and prefixes of them (the ledger's key and records).
_OWN_NAMES = ("cache", "mlartifacts", "mlruns")
_OWN_PREFIXES = ("ledger.", "mlflow-server.", "mlflow.")


class SweepFolder:
    """The folder of one sweep: its log, its lock and the folders of its trials. Any
    process may read it; only the one that holds the lock writes. What was read of the
    log is kept, so that a further question costs only what was added since. Safe for
    several threads.

    Raises: InvalidData by every method that reads a missing or damaged log.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock_file = locks.file_lock(path / "lock")
        self._holds = 0  # of this folder by its own threads
        self._threads = threading.RLock()
        self._log = ChainedLog(path / LOG, log.SWEEP_ENTRY, advice=_ADVICE)
        self._state = log.SweepState()

    @property
    def log_file(self) -> Path:
        """The log of the sweep."""
        return self._log.path

    def state(self) -> log.SweepState:
        """The state by the log as it is now.

        Raises: InvalidData for a missing or damaged log.
        """
        with self._threads:
            if not self.exists:
                raise InvalidData(
                    f"cannot read {self.log_file}: it does not exist: {_ADVICE}"
                )
            for entry in self._log.read_new():
                # Read anew where the log was restored from a copy.
                if isinstance(entry, log.SweepCreated):
                    self._state = log.SweepState()
                self._state.add(entry)
            return self._state

    def add(self, entry: log.SweepEntry) -> None:
        """Add an entry to the log; it is on the disk when this returns."""
        with self._threads:
            self.state()
            with self._log.alone():
                self.state()
                self._log.append(entry)

    def begin(self, about: Mapping[str, Any], space: SearchSpace, plan: Plan) -> None:
        """Write the files of a new sweep."""
        with self._log.alone():
            self._log.append(log.SweepCreated(about=log.About.model_validate(about)))
        self.replace_plan(space, plan)

    def made(self) -> log.About:
        """The facts that the sweep was created with, read alone."""
        entry = self._log.first()
        if not isinstance(entry, log.SweepCreated):
            raise InvalidData(
                f"expected how the sweep was made in line 1 of {self._log.path}"
            )
        return entry.about

    @property
    def exists(self) -> bool:
        """Whether the sweep's folder exists."""
        return self._log.path.exists()

    @property
    def name(self) -> str:
        """The sweep's name, which is the folder's."""
        return self.path.name

    @property
    def ledger_name(self) -> str:
        """The sweep's name in the ledger, which knows it by the id after the name: a
        deleted sweep of the name has another, a folder that was renamed or copied the
        same.
        """
        return f"{self.name}@{self.made().id[:8]}"

    def space(self) -> SearchSpace:
        """The space as it was run."""
        return parse(self.state().space)

    def plan(self) -> Plan:
        """The plan, with all that a search has chosen."""
        with self._threads:
            return self.state().plan

    def plan_of(self, trial_id: str) -> PlannedTrial:
        """The one trial of a name, or whose id begins so. Raises: InvalidInput unless
        it is one.
        """
        found = [
            t
            for t in self.plan().trials
            if t.name == trial_id or t.id.startswith(trial_id)
        ]
        if len(found) != 1:
            raise InvalidInput(
                f"expected the name or the id of a trial of {self.name}, got"
                f" {trial_id!r}: {len(found)} trials"
            )
        return found[0]

    def replace_plan(self, space: SearchSpace, plan: Plan, **facts: Any) -> None:
        """Replace space and plan, and add facts to those of the sweep; trials are kept.

        Raises: InvalidInput where the sweep runs.
        """
        with self._lock():
            document = plain(space.document())
            self.add(log.PlanSet(plan=plan, space=document, facts=facts))
            write_text(self.path / "space.yaml", format_yaml(document))

    def about(self) -> dict[str, Any]:
        """When the sweep was made, by which command, with which versions, and what was
        noted.
        """
        return dict(self.state().about)

    def note(self, **facts: Any) -> None:
        """Add facts to those of the sweep."""
        self.add(log.MetadataAdded(facts=facts))

    @property
    def budget_total(self) -> float | None:
        """The largest epsilon of a data set over all sweeps with which it was started
        (`--budget-total`); None without one.
        """
        return self.about().get("budget_total")

    @property
    def is_unsealed(self) -> bool:
        """Whether all trials of a private selection are shown."""
        return "unsealed" in self.about()

    def records(self, *, running: bool | None = None) -> list[TrialRecord]:
        """Every trial of the plan, in its order; `running` None: by the lock."""
        alive = self.is_running if running is None else running
        with collector.paused(), self._threads:
            state = self.state()
            return [
                state.trial(t.id).record(t, running=alive) for t in state.plan.trials
            ]

    def trial_folder(self, trial_id: str) -> Path:
        """The folder of a trial's files."""
        return self.path.joinpath("trials", trial_id)

    def start_trial(self, trial: PlannedTrial) -> Path:
        """Create the trial's folder with its config; an earlier failure no longer
        counts.
        """
        folder = self.trial_folder(trial.id)
        make_folder(folder)
        config = format_yaml(plain(trial.fields))
        place = folder / "config.yaml"
        if not place.exists() or place.read_text(errors="replace") != config:
            write_text(place, config)
        self.add(log.StatusChanged(entry="begun", trial=trial.id))
        return folder

    def epochs(self, trial_id: str) -> list[log.EpochRow]:
        """One row for each finished epoch, in order."""
        with self._threads:
            return list(self.state().trial(trial_id).rows)

    def add_epoch(
        self, trial_id: str, report: EpochReport, *, when: float, stop: str = ""
    ) -> None:
        """Record an epoch, unless it is the last one: a trial that is resumed reports
        the epoch of its checkpoint again. Epochs later than it no longer count, but
        their seconds do. `stop`: why a scheduler stops the trial after it.
        """
        with self._threads:
            if report.epochs_done != self.state().trial(trial_id).epochs_done:
                row = {**asdict(report), "time": when}
                if stop:
                    row["stop"] = stop
                self.add(log.Epoch.model_validate({"trial": trial_id, "row": row}))

    def finish_trial(self, result: TrialResult, *, when: float, reason: str) -> None:
        """Record a trial's result, after the manifest of its files."""
        manifest.write(self.trial_folder(result.trial_id))
        fields = {**vars(result), "time": when, "reason": reason or None}
        self.add(
            log.TrialFinished.model_validate(
                {"trial": result.trial_id, "result": fields}
            )
        )

    def release_trial(
        self,
        trial_id: str,
        *,
        epochs: Sequence[Mapping[str, Any]],
        result: Mapping[str, Any],
    ) -> None:
        """Record all that is shown of a trial from a vault or from another sweep,
        whatever was shown before.
        """
        fields = {"trial": trial_id, "epochs": epochs, "result": result}
        self.add(log.Released.model_validate(fields))

    def write_panel(self, trial_id: str, panel: Mapping[str, Any]) -> bool:
        """Record the comparison with other trials; False where it says nothing new."""
        before = self.state().trial(trial_id).panel or log.NO_LEAKAGE_REPORT
        if plain(before) == plain({**panel, "time": before["time"]}):
            return False
        fields = {"trial": trial_id, "panel": {**panel, "time": time.time()}}
        self.add(log.LeakageMeasured.model_validate(fields))
        return True

    def record(self, trial: PlannedTrial, *, running: bool) -> TrialRecord:
        """The record of a trial; `running`: whether the sweep has a live process."""
        with self._threads:
            return self.state().trial(trial.id).record(trial, running=running)

    @contextmanager
    def hold_lock(self) -> Iterator[None]:
        """Hold the lock of the process that runs the sweep, which is released with it.

        Raises: InvalidInput where another process holds it or runs a copy of the
        folder, or where the sweep was deleted.
        """
        with self._lock():
            for copy in self.copies():
                if copy.is_running:
                    raise InvalidInput(
                        f"sweep {copy.name} is running, a copy of {self.name}, which is"
                        " the same sweep: `sweep stop` it first"
                    )
            (self.path / "stop").unlink(missing_ok=True)
            yield

    @contextmanager
    def _lock(self) -> Iterator[None]:
        """Hold the lock; this thread may hold it already."""
        deleted = InvalidInput(f"no sweep named {self.name}: it was deleted")
        if not self.path.is_dir():
            raise deleted
        with ExitStack() as held:
            try:
                held.enter_context(
                    locks.hold(self._lock_file, patience=PATIENCE_SECONDS)
                )
            except TimeoutError:
                raise _running(self.name) from None
            if [path.name for path in self.path.iterdir()] == ["lock"]:
                # Deleted while this process waited; it has recreated the folder.
                shutil.rmtree(self.path)
                raise deleted
            self._holds += 1
            try:
                yield
            finally:
                self._holds -= 1

    def copies(self) -> list[SweepFolder]:
        """The other folders beside it that are the same sweep; a link to it is no other
        folder.
        """
        mine, here = self.made().id, self.path.resolve()
        found = []
        for file in self.path.parent.glob(f"*/{LOG}"):
            other = SweepFolder(file.parent)
            with suppress(InvalidData, OSError):
                if other.made().id == mine and other.path.resolve() != here:
                    found.append(other)
        return found

    @property
    def is_running(self) -> bool:
        """Whether a process holds the lock."""
        return self._holds > 0 or locks.is_held(self.path / "lock")

    def request_stop(self) -> None:
        """Request the running process to stop, which it checks about once a second."""
        write_text(self.path / "stop", "")

    @property
    def is_stop_requested(self) -> bool:
        """Whether a stop was requested since the sweep was started."""
        return (self.path / "stop").exists()

    def delete(self) -> None:
        """Remove the sweep and all its files. Raises: InvalidInput where it is
        running.
        """
        self.require_at_rest()
        with self._lock():
            # Renamed first: a partly removed sweep must not be listed, or block the
            # name.
            gone = self.path.with_name(
                f".{self.name}.{os.getpid()}.{time.monotonic_ns()}"
            )
            self.path.rename(gone)
            shutil.rmtree(gone)

    def require_at_rest(self) -> None:
        """Raises: InvalidInput where it is running."""
        if self.is_running:
            raise _running(self.name)


def _running(name: str) -> InvalidInput:
    return InvalidInput(f"sweep {name} is running: `sweep stop {name}` first")


def create(
    home: Path, space: SearchSpace, plan: Plan, *, about: Mapping[str, Any]
) -> SweepFolder:
    """Create the folder of a new sweep under the space's name. Another process sees it
    whole or not at all. `about` is its provenance; the id and the time of creation are
    added.

    Raises: InvalidInput for a name that exists already, or a home that cannot be
    written to; StorageFailed where the disk fails.
    """
    place = require_free(home, space.name)
    fresh = home / f".{space.name}.{os.getpid()}.{time.monotonic_ns()}"
    # A name can be used again after a deletion; the id cannot.
    about = {"id": uuid.uuid4().hex, "created": time.time(), **about}
    with _writing("SWEEP_HOME", home):
        try:
            make_folder(home)
            fresh.mkdir(mode=0o700)
            (fresh / "trials").mkdir(mode=0o700)
            SweepFolder(fresh).begin(about, space, plan)
            try:
                fresh.rename(place)
            except OSError:
                # Another process may have taken the name meanwhile.
                require_free(home, space.name)
                raise
            disk.flush(home)
        finally:
            shutil.rmtree(fresh, ignore_errors=True)
    return SweepFolder(place)


def require_free(home: Path, name: str) -> Path:
    """The place of a new sweep in a home; nothing is created.

    Raises: InvalidInput for a name that is invalid, one of the home's own files, or
    that of a sweep that exists.
    """
    place = _place(home, name)
    if place.exists():
        raise InvalidInput(
            f"a sweep named {name} exists in {home}: expected another --name, or"
            f" `sweep resume {name}`"
        )
    return place


def open_sweep(home: Path, name: str) -> SweepFolder:
    """The sweep of a name in a home. Its log is read when it is asked for something.

    Raises: InvalidInput for an invalid name, or one that no sweep has, naming those
    that there are.
    """
    place = _place(home, name)
    if not _is_sweep(place):
        known = ", ".join(names(home)) or "none"
        raise InvalidInput(f"no sweep named {name} in {home}; there are: {known}")
    return SweepFolder(place)


def how_to_go_on(home: Path, name: str) -> str:
    """A sentence for a sweep that is interrupted: what is saved, and which command goes
    on with it. A sweep that was not created yet has saved nothing.
    """
    if _is_sweep(home / name):
        return f"every finished epoch is saved; `sweep resume {name}` continues"
    return "no trial has begun; run the same command again"


def sweeps(home: Path) -> list[SweepFolder]:
    """All sweeps of a home, the oldest first; damaged ones, whose age is not known,
    before them. Of each log the first line is read. A folder keeps what it has read:
    who goes over the sweeps again passes on this list.
    """
    created = {}
    for place in filter(_is_sweep, home.glob("*")):
        with suppress(InvalidInput):  # a copy under another kind of name is none
            folder = SweepFolder(_place(home, place.name))
            created[folder] = 0.0
            created[folder] = folder.made().created
    return sorted(created, key=lambda folder: (created[folder], folder.name))


def names(home: Path) -> list[str]:
    """The names of all sweeps, in the order of `sweeps`."""
    return [folder.name for folder in sweeps(home)]


def _is_sweep(place: Path) -> bool:
    """Whether a folder is a sweep's, also of one whose log was lost; False for one that
    cannot be read.
    """
    parts = (place / LOG, (place / LOG).with_suffix(".head"), place / "trials")
    return any(map(os.path.exists, parts))


def _place(home: Path, name: str) -> Path:
    try:
        check_name(name)
    except ValueError as problem:
        raise InvalidInput(f"name: {problem}") from None
    if name in _OWN_NAMES or name.startswith(_OWN_PREFIXES):
        taken = ", ".join((*_OWN_NAMES, *(f"{prefix}*" for prefix in _OWN_PREFIXES)))
        raise InvalidInput(
            f"name: expected a name other than the home's own ({taken}), got {name}"
        )
    return home / name


class Vault:
    """The vault of a private selection in the folder of a sweep: its trials, which no
    command shows. `draws` is a separate sweep with every drawn trial; `ledger_file` has
    the releases of each trial, which are charged at unsealing.
    """

    def __init__(self, sweep: SweepFolder) -> None:
        self._sweep = sweep
        self.path = sweep.path / "vault"
        self.ledger_file = self.path / "ledger.jsonl"
        self.draws = SweepFolder(self.path / "draws")

    @property
    def is_sealed(self) -> bool:
        """Whether it has trials."""
        return self.draws.exists

    def seal(self, space: SearchSpace, plan: Plan) -> None:
        """Write the trials atomically. No budget stops any of them, because the release
        is charged as a whole.
        """
        mine = space.model_copy(update={"name": self.draws.name, "budget": Budget()})
        create(self.path, mine, plan, about={"sweep": self._sweep.made().id})

    @property
    def sweep_id(self) -> str | None:
        """The id of the sweep whose trials it has; None where an earlier version wrote
        it.
        """
        return self.draws.about().get("sweep")

    def selection(self) -> Mapping[str, Any] | None:
        """The released `trial` (None: none was drawn) and its `draw`; None before the
        end.
        """
        return self.draws.about().get("selected") if self.is_sealed else None

    @property
    def is_over(self) -> bool:
        """Whether all trials have ended and the best is released."""
        return self.selection() is not None

    def select(self, *, trial: str | None, draw: str | None) -> None:
        """Record the released trial."""
        self.draws.note(selected={"trial": trial, "draw": draw})


_PACKAGES = (
    "dp-nlu-sweep",
    "torch",
    "ray",
    "mlflow",
    "numpy",
    "dp-accounting",
    "transformers",
)


def about(command: Sequence[str]) -> dict[str, Any]:
    """The provenance of a sweep that `command`, its words, starts: the commit of this
    code, versions of Python and of the packages that decide results, the kind of
    machine. Passwords in addresses are hidden.
    """
    versions = {"python": platform.python_version()}
    for package in _PACKAGES:
        with suppress(metadata.PackageNotFoundError):
            versions[package] = metadata.version(package)
    return {
        "command": [hide_passwords(word) for word in command],
        "git_commit": _git_commit(),
        "versions": versions,
        "machine": platform.machine(),
    }


def _git_commit() -> str | None:
    """The commit of this code, where it runs from a checkout. An installed package may
    be in a repository of its user, whose commit is another.
    """
    here, found = Path(__file__), b""
    try:
        for command in (
            ["ls-files", "--error-unmatch", here.name],
            ["rev-parse", "HEAD"],
        ):
            found = subprocess.check_output(
                ["git", *command],
                cwd=here.parent,
                stderr=subprocess.DEVNULL,
                timeout=10,
            )
    except (OSError, subprocess.SubprocessError):
        return None
    return found.decode().strip()


@contextmanager
def storage_faults(folder: SweepFolder) -> Iterator[None]:
    """Within the block, an error that the disk of a running sweep has caused (full,
    gone, read-only) becomes a sentence that says what is saved and how to go on. Other
    errors pass.

    Raises: StorageFailed instead of the error.
    """
    try:
        yield
    except Exception as error:
        failure = disk.failure_of(error, folder.path)
        if failure is None:
            raise
        raise StorageFailed(
            f"{failure}: saved results are intact and trials are paused; when the disk"
            f" works again, `sweep resume {folder.name}` continues"
        ) from None


def require_storage(
    settings: Settings, *, check: Callable[[Path], None] = disk.require_writable
) -> None:
    """Require the home and the folder of caches to be usable by `check`, before
    anything starts.

    Raises: StorageFailed where one cannot be written to because the disk fails;
    InvalidInput for any other reason, with the variable that names the folder.
    """
    for name, folder in (
        ("SWEEP_HOME", settings.home),
        ("SWEEP_CACHE_DIR", settings.cache_dir),
    ):
        with _writing(name, folder):
            check(folder)


@contextmanager
def _writing(name: str, folder: Path) -> Iterator[None]:
    """Raises: StorageFailed where the folder's disk fails, else InvalidInput with the
    setting.
    """
    try:
        yield
    except (OSError, StorageFailed) as error:
        if (failure := disk.failure_of(error, folder)) is not None:
            raise StorageFailed(
                f"{failure}: nothing was started; run the same command again"
            ) from None
        why = getattr(error, "strerror", error)
        raise InvalidInput(f"cannot write to {name}={folder}: {why}") from None
