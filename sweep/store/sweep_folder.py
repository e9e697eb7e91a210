"""One sweep's folder: its log, the files of its trials, the lock of the process that runs it."""

from __future__ import annotations

import contextlib
import os
import shutil
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from search_spaces.space import SearchSpace, parse
from sweep.store import entries as log
from sweep.store import manifest, plans
from sweep.store.chained_log import ChainedLog
from sweep.store.files import add_seal, is_whole, jsonable, write_text
from sweep.store.state import SweepState, TrialRecord, earlier_entry
from sweep.store.status import TrialStatus
from trainables.documents import format_yaml
from trainables.errors import InvalidData, InvalidInput
from trainables.files import file_text, read_yaml
from trainables.privacy.summary import plain
from trainables.result import EpochReport, TrialResult
from trainables.system import collector, locks

LOG = "sweep.jsonl"
_ADVICE = "restore the sweep's folder from a copy; the ledger keeps what was spent"
_PATIENCE_SECONDS = 0.5  # for who looks whether the sweep runs
_MAX_SPACE_BYTES = 16 << 20
_COMMAND_FACTS: TypeAdapter[log.CommandFacts] = TypeAdapter(log.CommandFacts)


class SweepFolder:
    """One sweep's folder. Reading needs no lock; only the holder of the lock writes. Safe for
    several threads.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._holds_lock = False
        self._threads = threading.RLock()
        self._mark = (0, 0)  # inode and bytes of the log when it was last read
        self._begin_reading()

    def _begin_reading(self) -> None:
        self._log = ChainedLog(self.path / LOG, log.SWEEP_ENTRY, advice=_ADVICE)
        self._state = SweepState()

    # ---- the log

    def state(self) -> SweepState:
        """The state by the log as it is now.

        Raises: InvalidData for a missing or damaged log.
        """
        with self._threads:
            try:
                found = os.stat(self._log.path)
            except OSError as error:
                raise InvalidData(f"cannot read {self._log.path}: {error.strerror}") from None
            if self._mark[0] not in (0, found.st_ino):  # restored from a copy
                self._begin_reading()
            if self._mark != (found.st_ino, found.st_size):
                for entry in self._log.read_new():
                    self._state.add(entry)
                self._mark = (found.st_ino, found.st_size)
            return self._state

    def _add(self, entry: log.SweepEntry) -> None:
        """Add an entry to the log, on the disk when this returns."""
        with self._threads:
            self.state()
            with self._log.alone():
                self.state()
                self._log.append(entry)

    def create_log(self, about: Mapping[str, Any], plan: plans.Plan) -> None:
        """Begin the log of a new sweep."""
        with self._log.alone():
            self._log.append(log.Made.model_validate({"about": about}))
        self._add(log.Planned.model_validate({"plan": plan.to_dict()}))

    def made(self) -> log.About:
        """The facts that the sweep was created with, read alone."""
        entry = self._log.first()
        if not isinstance(entry, log.Made):
            raise InvalidData(f"expected how the sweep was made in line 1 of {self._log.path}")
        return entry.about

    @property
    def is_there(self) -> bool:
        """Whether the sweep's folder exists."""
        return self._log.path.exists()

    # ---- the sweep

    @property
    def name(self) -> str:
        """The sweep's name, which is the folder's."""
        return self.path.name

    @property
    def ledger_name(self) -> str:
        """The sweep's name in the ledger, which knows it by the id after the name: unique among
        deleted sweeps of that name, and the same for a folder that was renamed or copied.
        """
        return f"{self.name}@{self.made()['id'][:8]}"

    def space(self) -> SearchSpace:
        """The space as it was run."""
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
        return parse(document)

    def plan(self) -> plans.Plan:
        """The plan, with all that a search has chosen."""
        with self._threads:
            return self.state().plan

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

    def replace_plan(self, space: SearchSpace, plan: plans.Plan) -> None:
        """Replace the space and its plan by changed ones; trials are kept.

        Raises: InvalidInput where another process runs the sweep.
        """
        with self._lock():
            self._add(log.Planned.model_validate({"plan": plan.to_dict()}))
            write_text(self.path / "space.yaml", add_seal(to_yaml(space.document())))

    def add_choice(self, trials: Sequence[plans.PlannedTrial]) -> None:
        """Add the trials of one choice of a search to the plan, on the disk when this returns.

        Raises: InvalidInput where another process runs the sweep.
        """
        with self._lock():
            rows = [trial.to_dict() for trial in trials]
            self._add(log.Chosen.model_validate({"trials": rows}))

    def about(self) -> dict[str, Any]:
        """When the sweep was made, by which command, with which versions, and what was noted."""
        return dict(self.state().about)

    def command_facts(self) -> dict[str, Any]:
        """As `about`, of a sweep that a command has made: `created`, `command`, `git_commit` and
        `versions` exist.
        """
        try:
            return dict(_COMMAND_FACTS.validate_python(self.about()))
        except ValidationError as error:
            field = error.errors(include_url=False)[0]["loc"][0]
            raise InvalidData(
                f"expected {field} among the facts of {self.name} as it was written"
            ) from None

    def note(self, **facts: Any) -> None:
        """Add facts to those of the sweep."""
        self._add(log.Noted(facts=facts))

    def note_changes(self, changes: Sequence[str]) -> None:
        """Record permanently that the space was changed after trials had run."""
        before = self.about().get("changes", ())
        self.note(changes=[*before, {"time": time.time(), "what": list(changes)}])

    @property
    def is_unsealed(self) -> bool:
        """Whether all trials of a private selection are shown."""
        return "unsealed" in self.about()

    def seconds_run(self) -> float:
        """Wall-clock seconds of the sweep, over all its resumes."""
        return self.state().seconds_run

    def write_seconds_run(self, seconds: float) -> None:
        """Record the wall-clock seconds."""
        self._add(log.Ran(seconds=seconds))

    def deny_search(self, reason: str | None) -> None:
        """Record why a search may choose no further trial; None: it may."""
        if reason != self.search_denied():
            self._add(log.SearchDenied(reason=reason))

    def search_denied(self) -> str | None:
        """The recorded reason why the search may choose no further trial, or None."""
        return self.state().search_denied

    def keep_earlier_trials(self, records: Sequence[TrialRecord]) -> None:
        """Store the records of other sweeps' trials at the start of this one."""
        self._add(earlier_entry(records))

    def earlier_trials(self) -> list[TrialRecord] | None:
        """The records of `keep_earlier_trials`, or None."""
        return self.state().earlier_trials

    def records(self, *, running: bool | None = None) -> list[TrialRecord]:
        """Every trial of the plan, in its order; `running` None: by the lock."""
        alive = self.is_running if running is None else running
        with collector.paused(), self._threads:
            state = self.state()
            return [state.trial(t.id).record(t, running=alive) for t in state.plan.trials]

    def statuses(self) -> Counter[TrialStatus]:
        """The number of trials by status, faster than `records`."""
        with collector.paused(), self._threads:
            return self.state().statuses(running=self.is_running)

    # ---- its trials

    def trial_folder(self, trial_id: str) -> Path:
        """The folder of a trial's files."""
        return self.path / "trials" / trial_id

    def start_folder(self, trial_id: str) -> Path:
        """Create the trial's folder."""
        folder = self.trial_folder(trial_id)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return folder

    def start_trial(self, trial: plans.PlannedTrial) -> Path:
        """Create the trial's folder with its config; an earlier failure no longer counts."""
        folder = self.start_folder(trial.id)
        if not (folder / "config.yaml").exists():
            write_text(folder / "config.yaml", to_yaml(trial.fields))
        self._add(log.Turn(entry="begun", trial=trial.id))
        return folder

    def has_begun(self, trial_id: str) -> bool:
        """Whether an epoch of the trial was ever permitted."""
        return self.state().trial(trial_id).has_begun

    def is_taken_up(self, trial_id: str) -> bool:
        """Whether the user continued the stopped trial, which schedulers then do not stop."""
        return self.state().trial(trial_id).is_taken_up

    def epochs(self, trial_id: str) -> list[dict[str, Any]]:
        """One row for each finished epoch, in order: epochs_done, seconds, time, metrics."""
        with self._threads:
            return list(self.state().trial(trial_id).rows)

    def add_epoch(self, trial_id: str, report: EpochReport, *, when: float) -> bool:
        """Record an epoch; False where it was trained before: a trial that is resumed reports the
        epoch of its checkpoint again. After an earlier epoch than the last one, later ones no
        longer count, but their seconds do.
        """
        with self._threads:
            last = self.state().trial(trial_id).epochs_done
            if report.epochs_done != last:
                row = {**asdict(report), "time": when}
                self._add(log.Epoch.model_validate({"trial": trial_id, "row": row}))
        return report.epochs_done > last

    def begin_anew(self, trial_id: str, *, when: float) -> None:
        """Record that the trial begins anew: none of its epochs counts, but their seconds do."""
        self.add_epoch(trial_id, EpochReport(epochs_done=0, seconds=0.0, metrics={}), when=when)

    def deny_trial(self, trial_id: str, *, reason: str) -> None:
        """Record why a trial may not spend its next epoch."""
        self._add(log.Turn(entry="denied", trial=trial_id, reason=reason))

    def finish_trial(self, result: TrialResult, *, when: float, reason: str) -> None:
        """Record a trial's result, after the manifest of its files."""
        manifest.write(self.start_folder(result.trial_id))
        fields = {**vars(result), "time": when, "reason": reason or None}
        self._add(log.Ended.model_validate({"trial": result.trial_id, "result": fields}))

    def fail_trial(self, trial_id: str, *, when: float, reason: str) -> None:
        """Record why a trial failed."""
        self._add(log.Turn(entry="failed", trial=trial_id, reason=reason, time=when))

    def reopen_trial(self, trial_id: str) -> None:
        """Make a stopped trial unfinished again; the log keeps its earlier result."""
        self._add(log.Turn(entry="reopened", trial=trial_id))

    def release_trial(
        self, trial_id: str, *, epochs: Sequence[Mapping[str, Any]], result: Mapping[str, Any]
    ) -> None:
        """Record all that is shown of a trial from a vault, whatever was shown before."""
        fields = {"trial": trial_id, "epochs": epochs, "result": result}
        self._add(log.Released.model_validate(fields))

    def result(self, trial_id: str) -> dict[str, Any] | None:
        """The fields of a trial's result; None without one."""
        return self.state().trial(trial_id).result

    def write_panel(self, trial_id: str, panel: Mapping[str, Any]) -> bool:
        """Record the comparison of the trial with others; False where it is unchanged."""
        before, time_of = self.panel(trial_id), {"time": None}
        if before and jsonable({**before, **time_of}) == jsonable({**panel, **time_of}):
            return False
        fields = {"trial": trial_id, "panel": {**panel, "time": time.time()}}
        self._add(log.Compared.model_validate(fields))
        return True

    def panel(self, trial_id: str) -> dict[str, Any]:
        """`metrics`, `notes`, `violation` and `time` of a trial's comparison with others, or {}."""
        return dict(self.state().trial(trial_id).panel)

    def record(self, trial: plans.PlannedTrial, *, running: bool) -> TrialRecord:
        """The record of a trial; `running`: whether the sweep has a live process."""
        with self._threads:
            return self.state().trial(trial.id).record(trial, running=running)

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
        mine, here = self.made()["id"], self.path.resolve()
        found = []
        for place in self.path.parent.iterdir():
            with contextlib.suppress(InvalidData, OSError):
                if place.resolve() != here and (place / LOG).is_file():
                    other = SweepFolder(place)
                    found += [other] if other.made()["id"] == mine else []
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


def to_yaml(document: dict[str, Any]) -> str:
    """Plain data as YAML."""
    return format_yaml(plain(document))
