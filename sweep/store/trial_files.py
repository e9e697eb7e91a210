"""The files of a sweep's trials, and the records derived from them. See `sweeps` for the layout."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from sweep.store import manifest, plans
from sweep.store.files import (
    append_line,
    exists,
    indented_json,
    number,
    read_lines,
    read_object,
    write_json,
    write_text,
)
from sweep.store.kinds import EPOCH, PANEL, REASON, RESULT
from sweep.store.status import TrialStatus
from trainables.documents import format_yaml
from trainables.errors import InvalidData
from trainables.figures import ATTACKS
from trainables.privacy.summary import plain
from trainables.result import EpochReport, TrialResult

_RESULT_FILE, _FAILED, _DENIED = manifest.RESULT, "failed.json", "denied.json"


@dataclass(frozen=True, kw_only=True)
class TrialRecord:
    """The record of one trial on disk. `metrics` are the final ones, else the last epoch's, and
    those of the comparison with other trials. `violation` has a certified bound on epsilon and the
    claim that it violates. `ended_at`: when its result was written.
    """

    plan: plans.PlannedTrial
    status: TrialStatus
    epochs_done: int
    metrics: dict[str, float | None]
    seconds: float
    reason: str | None
    notes: tuple[str, ...] = ()
    privacy: dict[str, Any] | None = None
    violation: dict[str, float] | None = None
    ended_at: float | None = None


class TrialFiles:
    """Reads and writes a folder for each trial under `path`/trials."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._trials = path / "trials"
        self._place = os.fspath(self._trials)

    def trial_folder(self, trial_id: str) -> Path:
        """The folder of a trial's files."""
        return self._trials / trial_id

    def _path_of(self, trial_id: str, name: str) -> str:
        """A file of a trial as text; making a `Path` takes half as long as opening the file."""
        return os.path.join(self._place, trial_id, name)

    def epochs(self, trial_id: str) -> list[dict[str, Any]]:
        """One row for each finished epoch, in order: epochs_done, seconds, time, metrics."""
        return _in_force(self._epoch_lines(trial_id))

    def _epoch_lines(self, trial_id: str) -> list[dict[str, Any]]:
        rows = read_lines(self.trial_folder(trial_id) / "epochs.jsonl", EPOCH)
        for row in rows:
            row["metrics"] |= {n: number(v) for n, v in row["metrics"].items() if type(v) is str}
        return rows

    def add_epoch(self, trial_id: str, report: EpochReport, *, when: float) -> bool:
        """Record an epoch; False where it was trained before: a trial that is resumed reports the
        epoch of its checkpoint again. After an earlier epoch than the last one, later ones no
        longer count, but their seconds do.
        """
        rows = self.epochs(trial_id)
        last = rows[-1]["epochs_done"] if rows else 0
        if report.epochs_done != last:
            line = {**asdict(report), "time": when}
            append_line(self.trial_folder(trial_id) / "epochs.jsonl", line)
        return report.epochs_done > last

    def begin_anew(self, trial_id: str, *, when: float) -> None:
        """Record that the trial begins anew: none of its epochs counts, but their seconds do."""
        self.add_epoch(trial_id, EpochReport(epochs_done=0, seconds=0.0, metrics={}), when=when)

    def start_folder(self, trial_id: str) -> Path:
        """Create the trial's folder."""
        folder = self.trial_folder(trial_id)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return folder

    def start_trial(self, trial: plans.PlannedTrial) -> Path:
        """Create the trial's folder with its config; removes the record of an earlier failure."""
        folder = self.start_folder(trial.id)
        if not (folder / "config.yaml").exists():
            write_text(folder / "config.yaml", to_yaml(trial.fields))
        for earlier in (_FAILED, _DENIED):
            (folder / earlier).unlink(missing_ok=True)
        return folder

    def has_begun(self, trial_id: str) -> bool:
        """Whether an epoch of the trial was ever permitted."""
        place = self.trial_folder(trial_id)
        if exists(place / _DENIED):
            return bool(self.epochs(trial_id))
        return (place / "config.yaml").exists()

    def deny_trial(self, trial_id: str, *, reason: str) -> None:
        """Record why a trial may not spend its next epoch."""
        write_json(self.start_folder(trial_id) / _DENIED, {"reason": reason})

    def finish_trial(self, result: TrialResult, *, when: float, reason: str) -> None:
        """Write a trial's result, after the manifest of its files."""
        document = {**asdict(result), "time": when, "reason": reason or None}
        place = self.trial_folder(result.trial_id)
        manifest.write(place, coming={"result.json": indented_json(document).encode()})
        write_json(place / _RESULT_FILE, document)

    def fail_trial(self, trial_id: str, *, when: float, reason: str) -> None:
        """Record why a trial failed."""
        write_json(self.trial_folder(trial_id) / _FAILED, {"reason": reason, "time": when})

    def result(self, trial_id: str) -> dict[str, Any] | None:
        """The fields of a trial's result; None without one."""
        path = self._path_of(trial_id, _RESULT_FILE)
        return read_object(path, RESULT) if exists(path) else None

    def write_panel(self, trial_id: str, panel: dict[str, Any]) -> bool:
        """Write the comparison of the trial with others; False where it is unchanged."""
        path = self.trial_folder(trial_id) / "panel.json"
        if path.exists() and {**read_object(path, PANEL), "time": None} == {
            **plain(panel),
            "time": None,
        }:
            return False
        write_json(path, {**panel, "time": time.time()})
        return True

    def panel(self, trial_id: str) -> dict[str, Any]:
        """`metrics`, `notes`, `violation` and `time` of a trial's comparison with others, or {}."""
        path = self._path_of(trial_id, "panel.json")
        return read_object(path, PANEL) if exists(path) else {}

    def status(self, trial_id: str, *, runs: bool, running: bool) -> TrialStatus:
        """The status of a trial. `runs`: the plan does not refuse it; `running`: the sweep has a
        live process.
        """
        try:
            names = os.listdir(self.trial_folder(trial_id))
        except FileNotFoundError:
            names = []
        except OSError as error:
            raise InvalidData(
                f"cannot read {self.trial_folder(trial_id)}: {error.strerror}"
            ) from None
        if _RESULT_FILE in names and (result := self.result(trial_id)) is not None:
            return _status_of(result)
        if not runs:
            return TrialStatus.REFUSED
        if _FAILED in names:
            return TrialStatus.FAILED
        if _DENIED in names:
            return TrialStatus.INTERRUPTED if self.epochs(trial_id) else TrialStatus.PLANNED
        if "config.yaml" in names:
            return TrialStatus.RUNNING if running else TrialStatus.INTERRUPTED
        return TrialStatus.PLANNED

    def record(self, trial: plans.PlannedTrial, *, running: bool) -> TrialRecord:
        """The record of a trial; `running`: whether the sweep has a live process."""
        result = self.result(trial.id)
        if result is not None:
            return self._finished_record(trial, result)
        lines = self._epoch_lines(trial.id)
        rows = _in_force(lines)
        status = self.status(trial.id, runs=trial.runs, running=running)
        place = self.trial_folder(trial.id)
        reason = trial.reason
        if status is TrialStatus.FAILED:
            reason = read_object(place / _FAILED, REASON)["reason"]
        elif trial.runs and exists(place / _DENIED):
            reason = read_object(place / _DENIED, REASON)["reason"]
        return TrialRecord(
            plan=trial,
            status=status,
            epochs_done=len(rows),
            metrics=with_leakage(rows[-1]["metrics"] if rows else {}),
            seconds=_seconds_trained(lines),
            reason=reason,
        )

    def _finished_record(self, trial: plans.PlannedTrial, result: dict[str, Any]) -> TrialRecord:
        """The record of a trial that has a result."""
        panel = self.panel(trial.id)
        seconds = result["seconds"].get("total")
        if not seconds:
            seconds = _seconds_trained(self._epoch_lines(trial.id))
        return TrialRecord(
            plan=trial,
            status=_status_of(result),
            epochs_done=result["epochs_done"],
            metrics=with_leakage({**result["metrics"], **panel.get("metrics", {})}),
            seconds=float(seconds),
            # A scheduler also ends trials after their last epoch, which stops nothing.
            reason=result["reason"] if result["stopped_early"] else None,
            notes=(*result["notes"], *panel.get("notes", ())),
            privacy=result["privacy"],
            violation=panel.get("violation"),
            ended_at=number(result.get("time")),
        )


def _in_force(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows that count: a line replaces those from its epoch on."""
    rows: list[dict[str, Any]] = []
    for line in lines:
        while rows and rows[-1]["epochs_done"] >= line["epochs_done"]:
            rows.pop()
        if line["epochs_done"]:
            rows.append(line)
    return rows


def _seconds_trained(lines: list[dict[str, Any]]) -> float:
    """The seconds of every epoch that was trained; a line that goes back repeats an earlier one."""
    before = (0, *(line["epochs_done"] for line in lines))
    return math.fsum(
        line["seconds"]
        for last, line in zip(before, lines, strict=False)
        if line["epochs_done"] > last
    )


def _status_of(result: Mapping[str, Any]) -> TrialStatus:
    return TrialStatus.STOPPED if result["stopped_early"] else TrialStatus.DONE


def with_leakage(metrics: Mapping[str, Any]) -> dict[str, float | None]:
    """Stored metrics, extended by the figures of the strongest attack."""
    found = {name: number(value) for name, value in metrics.items()}
    if any(name.startswith(ATTACKS) for name in found):
        from trainables.attacks import strongest  # SciPy, only where attacks ran

        best = strongest(found)
        found |= {} if best is None else best.figures()
    return found


def to_yaml(document: dict[str, Any]) -> str:
    """Plain data as YAML."""
    return format_yaml(plain(document))
