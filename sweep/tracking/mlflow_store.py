"""Copies sweeps to MLflow: a parent run for a sweep, a child run for each trial.

Everything is read from the sweep's folder and written idempotently: a run is identified by its tags
(`sweep.id`, `sweep.trial`), a metric by its step and time. Delivering again completes the runs.
Figures, tags and artifacts for the curator bear the name `curator_only`.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from typing import Any

from dashboards import report
from sweep.results import select
from sweep.results.privacy_cards import JSON, MARKDOWN
from sweep.results.report_data import gather
from sweep.settings import Settings
from sweep.store.files import indented_json, number
from sweep.store.status import TrialStatus
from sweep.store.sweeps import SweepFolder, TrialRecord
from sweep.tracking import text
from sweep.tracking.delivery import may_pass
from sweep.tracking.mlflow_client import Store, milliseconds
from sweep.tracking.text import CURATOR
from trainables.cards.page import to_markdown

_TABLE = "figures.json"
_RESULT = " after "  # in the state of a trial that has a result
# Written last: the delivered state of a trial, and its last delivered epoch with its time.
_STATE, _EPOCH = "sweep.delivered", "sweep.delivered_epoch"


class Tracker:
    """Writes sweeps to one MLflow store. Not for several threads at once."""

    def __init__(self, settings: Settings) -> None:
        """Open the store. Raises: as `Store`."""
        self._store = Store(settings)
        self._client = self._store.client
        self._about: dict[str, Any] = {}  # of the sweep whose runs these are, by trial
        self._runs: dict[str, Any] = {}

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
            self._client.delete_run(run.info.run_id)

    def _read_runs(self, folder: SweepFolder) -> None:
        """Read the sweep's run and those of its trials once; make the former with its artifacts."""
        about = folder.about()
        if self._about.get("id") == about["id"]:
            return
        found = self._store.runs_of(about["id"])
        runs = {run.data.tags.get("sweep.trial", ""): run for run in found}
        if "" not in runs:
            tags = {"sweep.id": about["id"], "sweep.name": folder.name}
            tags |= {"sweep.source": folder.space().source, "mlflow.source.name": "sweep"}
            tags |= {f"version.{name}": words for name, words in about.get("versions", {}).items()}
            tags |= {"mlflow.source.git.commit": about.get("git_commit")}
            runs[""] = self._store.create(folder.name, started=about["created"], tags=tags)
        run_id = runs[""].info.run_id
        self._client.update_run(run_id, status="RUNNING")
        self._client.set_tag(run_id, "sweep.status", "running")
        if len(self._client.list_artifacts(run_id)) < 2:
            self._client.log_artifact(run_id, str(folder.path / "space.yaml"))
            # A plan has the number of records, declared or counted.
            plan = indented_json(folder.plan().to_dict())
            self._client.log_text(run_id, plan, f"{CURATOR}/plan.json")
        self._runs, self._about = runs, about

    def _deliver_trial(self, folder: SweepFolder, record: TrialRecord) -> None:
        """Update a trial's run: the news in one batch, because a call takes ten milliseconds."""
        plan, rows = record.plan, folder.epochs(record.plan.id)
        panel = folder.panel(plan.id)
        state = record.status.value
        if record.status.is_finished:
            compared = f", compared at {panel['time']}" if panel else ""
            state = f"{state}{_RESULT}{record.epochs_done} epochs{compared}"
        run = self._runs.get(plan.id)
        if run is not None and _holds_others(run.data.tags, rows, state):
            self._client.delete_run(run.info.run_id)
            run = None
        if run is None:
            begun = rows[0]["time"] - rows[0]["seconds"] if rows else time.time() - record.seconds
            own = {
                "mlflow.parentRunId": self._runs[""].info.run_id,
                "engine": plan.engine,
                "sweep.id": self._about["id"],
                "sweep.name": folder.name,
                "sweep.trial": plan.id,
                "sweep.variant": plan.variant,
                "sweep.baseline": str(plan.baseline).lower(),
                "sweep.group": plan.group,
                "sweep.warnings": "; ".join(plan.warnings),
            }
            run = self._store.create(text.run_name(plan), started=begun, tags=own)
        run_id, before = run.info.run_id, run.data.tags
        delivered = int(before.get(_EPOCH, "0").partition(" at ")[0])
        new = [row for row in rows if int(row["epochs_done"]) > delivered]
        if state == before.get(_STATE) and not new:
            return
        is_new, is_over = _STATE not in before, record.status.is_over
        metrics = []
        for row in new:
            known = {name: row["metrics"].get(name) for name in text.learning_curves(plan.task)}
            metrics += _metrics(known, step=int(row["epochs_done"]), when=row["time"])
        tags: dict[str, Any] = {"sweep.status": record.status.value, "sweep.reason": ""}
        tags |= {"mlflow.note.content": text.trial_note(record)} if is_new or is_over else {}
        if is_over:
            shown = text.headline(record) if record.status.is_finished else {}
            had = run.data.metrics
            final = {key: value for key, (_, value) in shown.items() if value != had.get(key)}
            when = panel.get("time") or record.ended_at or time.time()
            metrics += _metrics(final, step=record.epochs_done, when=when)
            tags |= text.result_tags(record, shown)
            # MLflow's duration is that of the work: a paused trial has not worked while it waited.
            self._client.set_terminated(
                run_id,
                status="FAILED" if record.status is TrialStatus.FAILED else "FINISHED",
                end_time=run.info.start_time + milliseconds(record.seconds),
            )
        elif state != before.get(_STATE):
            is_running = record.status is TrialStatus.RUNNING
            self._client.update_run(run_id, status="RUNNING" if is_running else "KILLED")
        if is_new or is_over:
            self._log_artifacts(folder, run_id, record)
        for key in tags.keys() & before.keys():
            if tags[key] in (None, ""):  # such as why the trial failed before
                self._client.delete_tag(run_id, key)
        tags[_STATE] = state
        tags[_EPOCH] = f"{rows[-1]['epochs_done']} at {rows[-1]['time']}" if rows else ""
        params = text.params_of(plan) if is_new else {}
        self._store.log(run_id, params=params, metrics=metrics, tags=tags)
        self._runs[plan.id] = self._client.get_run(run_id)

    def _log_artifacts(self, folder: SweepFolder, run_id: str, record: TrialRecord) -> None:
        """Log the config and, as far as they are there, the card, ROC curves and figures."""
        place = folder.trial_folder(record.plan.id)
        self._client.log_artifact(run_id, str(place / "config.yaml"))
        for picture in filter(lambda path: path.exists(), (place / "roc.json", place / "roc.png")):
            self._client.log_artifact(run_id, str(picture), CURATOR)
        card = record.privacy
        if card is not None:  # by its fields, never the file
            self._client.log_dict(run_id, card.to_dict(), JSON)
            self._client.log_text(run_id, to_markdown(card), MARKDOWN)
        logged = {item.path for item in self._client.list_artifacts(run_id)}
        if record.status.is_finished and _TABLE not in logged:  # MLflow would append to it
            self._client.log_table(run_id, text.figure_table(record), _TABLE)

    def _end(self, folder: SweepFolder, records: Sequence[TrialRecord]) -> None:
        """Write the counts, the best trial and the report on the sweep's run."""
        run_id, created = self._runs[""].info.run_id, float(self._about["created"])
        finished = [record for record in records if record.status.is_finished]
        is_over = not any(record.status.is_pending for record in records)
        note = text.sweep_note(folder.space().description or "", records)
        found, status = text.summary_of(records), "FINISHED" if is_over else "KILLED"
        tags = {"sweep.status": status.lower(), "mlflow.note.content": note}
        tags[CURATOR] = f"best_{text.MIA_AUC}" if f"best_{text.MIA_AUC}" in found else ""
        when = max((record.ended_at or 0.0 for record in finished), default=created)
        metrics = _metrics(found, step=len(finished), when=when)
        self._store.log(run_id, params={}, metrics=metrics, tags=tags)
        # Wall-clock without pauses; the trials of a private selection have another clock.
        ran = folder.seconds_run() or sum(record.seconds for record in records)
        self._client.set_terminated(run_id, status=status, end_time=milliseconds(created + ran))
        for place, corpus in enumerate(select.by_corpus(finished) if is_over else (), start=1):
            page = gather(folder, epsilon_max=8.0, corpus=corpus, public=True)
            name = "report.html" if place == 1 else f"report-{place}.html"
            self._client.log_text(run_id, report.html(page, public=True), name)


def _holds_others(tags: Mapping[str, str], rows: list[dict[str, Any]], state: str) -> bool:
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
