"""Copies sweeps to MLflow: a parent run for a sweep, a child run for each trial.

Everything is read from the sweep's folder and written idempotently: a run is identified by its tags
(`sweep.id`, `sweep.trial`), a metric by its step and time. Delivering again completes the runs.
Figures, tags and artifacts for the curator bear the name `curator_only`.

A call takes MLflow ten milliseconds and more, so a trial's news are one batch and its artifacts one
folder, and what the store has is read once.
"""

from __future__ import annotations

import json
import math
import shutil
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from dashboards import report
from sweep.results import select
from sweep.results.privacy_cards import JSON, MARKDOWN
from sweep.results.report_data import gather
from sweep.settings import Settings
from sweep.store.entries import EpochRow
from sweep.store.files import indented_json, number
from sweep.store.state import TrialStatus
from sweep.store.sweeps import SweepFolder, TrialRecord
from sweep.tracking import text
from sweep.tracking.delivery import may_pass
from sweep.tracking.mlflow_client import Run, Store, milliseconds
from sweep.tracking.text import CURATOR
from trainables.cards.page import to_markdown
from trainables.documents import format_yaml

_TABLE = "figures.json"
# With this tag MLflow's pages and `mlflow.load_table` find the table.
_TABLES = {"mlflow.loggedArtifacts": json.dumps([{"path": _TABLE, "type": "table"}])}
_RESULT = " after "  # in the state of a trial that has a result
# Written last: the delivered state of a trial, and its last delivered epoch with its time.
_STATE, _EPOCH = "sweep.delivered", "sweep.delivered_epoch"


class Tracker:
    """Writes sweeps to one MLflow store. Not for several threads at once."""

    def __init__(self, settings: Settings) -> None:
        """Open the store. Raises: as `Store`."""
        self._store = Store(settings)
        self._client = self._store.client
        self._sweep = ""  # the id of the sweep whose runs these are, by trial
        self._runs: dict[str, Run] = {}

    def deliver(
        self, folder: SweepFolder, trial_ids: Sequence[str] | None = None, *, running: bool
    ) -> None:
        """Update the sweep's runs to the state on disk.

        `trial_ids`: those that changed, while the sweep runs; else every trial that has begun is.
        Raises: whatever MLflow raises. What it refuses of one trial, it raises after the others.
        """
        self._read_runs(folder)
        chosen = None if trial_ids is None or not running else set(trial_ids)
        records = [
            folder.record(trial, running=running)
            for trial in folder.plan().trials
            if chosen is None or trial.id in chosen
        ]
        refused: Exception | None = None
        for record in records:
            try:
                if record.status.has_begun:
                    self._deliver_trial(folder, record)
            except Exception as problem:
                if may_pass(problem):
                    raise
                refused = refused or problem
        if not running:
            self._end(folder, records)
        if refused is not None:
            raise refused

    def delete(self, folder: SweepFolder) -> None:
        """Delete the sweep's runs (MLflow keeps deleted runs until `mlflow gc`)."""
        for run in self._store.runs_of(folder.about()["id"]):
            self._client.delete_run(run.id)

    def _read_runs(self, folder: SweepFolder) -> None:
        """Read the sweep's run and those of its trials once; make the former with its artifacts."""
        about = folder.about()
        if self._sweep == about["id"]:
            return
        runs = {run.tags.get("sweep.trial", ""): run for run in self._store.runs_of(about["id"])}
        if "" not in runs:
            tags = {"sweep.id": about["id"], "sweep.name": folder.name}
            tags |= {"sweep.source": folder.space().source, "mlflow.source.name": "sweep"}
            tags |= {f"version.{name}": words for name, words in about.get("versions", {}).items()}
            tags |= {"mlflow.source.git.commit": about.get("git_commit")}
            runs[""] = self._store.create(folder.name, started=about["created"], tags=tags)
        run = runs[""]
        self._client.update_run(run.id, status="RUNNING")
        self._store.log(run, tags={"sweep.status": "running"})
        if len(self._client.list_artifacts(run.id)) < 2:
            self._client.log_text(run.id, format_yaml(folder.state().space), "space.yaml")
            # A plan has the number of records, declared or counted.
            plan = indented_json(folder.plan().to_dict())
            self._client.log_text(run.id, plan, f"{CURATOR}/plan.json")
        self._runs, self._sweep = runs, about["id"]

    def _deliver_trial(self, folder: SweepFolder, record: TrialRecord) -> None:
        """Update a trial's run."""
        plan, rows = record.plan, folder.epochs(record.plan.id)
        panel = folder.state().trial(plan.id).panel
        compared = panel["time"] if panel else None
        state, is_over = record.status.value, record.status.is_over
        if record.status.is_finished:
            state += f"{_RESULT}{record.epochs_done} epochs"
            state += f", compared at {compared}" if compared else ""
        run = self._runs.get(plan.id)
        if run is not None and _holds_others(run.tags, rows, state):
            self._client.delete_run(run.id)
            run = None
        if run is None:
            begun = rows[0]["time"] - rows[0]["seconds"] if rows else time.time() - record.seconds
            own = {
                "mlflow.parentRunId": self._runs[""].id,
                "engine": plan.engine,
                "sweep.id": self._sweep,
                "sweep.name": folder.name,
                "sweep.trial": plan.id,
                "sweep.variant": plan.variant,
                "sweep.baseline": str(plan.baseline).lower(),
                "sweep.group": plan.group,
                "sweep.warnings": "; ".join(plan.warnings),
            }
            run = self._store.create(text.run_name(plan), started=begun, tags=own)
            self._runs[plan.id] = run
        is_new, is_changed = _STATE not in run.tags, state != run.tags.get(_STATE)
        delivered = int(run.tags.get(_EPOCH, "0").partition(" at ")[0])
        new = [row for row in rows if int(row["epochs_done"]) > delivered]
        if not is_changed and not new:
            return
        curves, metrics = text.learning_curves(plan.task), []
        for row in new:
            known = {name: row["metrics"].get(name) for name in curves}
            metrics += _metrics(known, step=int(row["epochs_done"]), when=row["time"])
        tags = {"sweep.status": record.status.value, "sweep.reason": ""}
        if is_new or is_over:
            tags["mlflow.note.content"] = text.trial_note(record)
        if is_over:
            self._log_artifacts(folder, run, record)
            shown = text.headline(record) if record.status.is_finished else {}
            final = {key: v for key, (_, v) in shown.items() if v != run.metrics.get(key)}
            when = compared or record.ended_at or time.time()
            metrics += _metrics(final, step=record.epochs_done, when=when)
            tags |= text.result_tags(record, shown)
            tags |= _TABLES if record.status.is_finished else {}
            # MLflow's duration is that of the work: a paused trial has not worked while it waited.
            self._client.set_terminated(
                run.id,
                status="FAILED" if record.status is TrialStatus.FAILED else "FINISHED",
                end_time=run.started + milliseconds(record.seconds),
            )
        elif is_changed and not (is_new and record.status is TrialStatus.RUNNING):
            is_running = record.status is TrialStatus.RUNNING
            self._client.update_run(run.id, status="RUNNING" if is_running else "KILLED")
        tags[_STATE] = state
        tags[_EPOCH] = f"{rows[-1]['epochs_done']} at {rows[-1]['time']}" if rows else ""
        params = text.params_of(plan) if is_new else {}
        self._store.log(run, params=params, metrics=metrics, tags=tags)

    def _log_artifacts(self, folder: SweepFolder, run: Run, record: TrialRecord) -> None:
        """Log an ended trial's config and, as far as they are there, the card, ROC curves and
        figures.
        """
        source = folder.trial_folder(record.plan.id)
        with TemporaryDirectory() as name:
            place = Path(name)
            shutil.copy(source / "config.yaml", place)
            for picture in source.glob("roc.*"):
                (place / CURATOR).mkdir(exist_ok=True)
                shutil.copy(picture, place / CURATOR)
            if (card := record.privacy) is not None:  # its fields, not the file
                (place / JSON).write_text(indented_json(card.to_dict()), encoding="utf-8")
                (place / MARKDOWN).write_text(to_markdown(card), encoding="utf-8")
            if record.status.is_finished:
                (place / _TABLE).write_text(json.dumps(text.figure_table(record)))
            self._client.log_artifacts(run.id, name)

    def _end(self, folder: SweepFolder, records: Sequence[TrialRecord]) -> None:
        """Write the counts, the best trial and the report on the sweep's run."""
        run, created = self._runs[""], float(folder.about()["created"])
        finished = [record for record in records if record.status.is_finished]
        is_over = not any(record.status.is_pending for record in records)
        note = text.sweep_note(folder.space().description or "", records)
        found, status = text.summary_of(records), "FINISHED" if is_over else "KILLED"
        tags = {"sweep.status": status.lower(), "mlflow.note.content": note}
        tags[CURATOR] = f"best_{text.MIA_AUC}" if f"best_{text.MIA_AUC}" in found else ""
        when = max((record.ended_at or 0.0 for record in finished), default=created)
        metrics = _metrics(found, step=len(finished), when=when)
        self._store.log(run, metrics=metrics, tags=tags)
        # Wall-clock without pauses; the trials of a private selection have another clock.
        ran = folder.state().seconds_run or sum(record.seconds for record in records)
        self._client.set_terminated(run.id, status=status, end_time=milliseconds(created + ran))
        for place, corpus in enumerate(select.by_corpus(finished) if is_over else (), start=1):
            page = gather(folder, epsilon_max=8.0, corpus=corpus, public=True)
            name = "report.html" if place == 1 else f"report-{place}.html"
            self._client.log_text(run.id, report.html(page, public=True), name)


def _holds_others(tags: Mapping[str, str], rows: Sequence[EpochRow], state: str) -> bool:
    """Whether a run has epochs or a result that no longer count. They cannot be removed from it."""
    ended = tags.get(_STATE, "").partition(", ")[0]
    if _RESULT in ended and ended != state.partition(", ")[0]:
        return True
    last = tags.get(_EPOCH, "").partition(" at ")[2]
    return bool(last) and last not in {str(row["time"]) for row in rows}


def _metrics(found: Mapping[str, Any], *, step: int, when: float) -> list[Any]:
    """Figures for MLflow, except infinities and missing values, unknown to it."""
    from mlflow.entities import Metric

    return [
        Metric(name, value, milliseconds(when), step)
        for name, given in found.items()
        if (value := number(given)) is not None and math.isfinite(value)
    ]
