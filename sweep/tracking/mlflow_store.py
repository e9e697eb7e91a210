"""Copies sweeps to MLflow: a parent run for a sweep, a child run for each trial.

Everything is read from the sweep's folder and written idempotently: a run is identified by its tags
(`sweep_id`, `trial`), a metric by its step and time. After a server failure or a killed driver
delivering again completes the runs.

Metrics that no epsilon covers have names `curator_only/...`; the tag `curator_only` lists them.
Artifacts for the curator are in the folder `curator_only`, tags begin with `curator_only.`.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import Any

from sweep.results import select
from sweep.settings import Settings
from sweep.store.status import TrialStatus
from sweep.store.sweeps import SweepFolder, TrialRecord
from sweep.tracking.connection import may_pass
from sweep.tracking.mlflow_client import Batch, Store
from sweep.tracking.mlflow_trials import TrialRuns
from sweep.tracking.note import note
from sweep.tracking.text import CURATOR, escape, metric_key, version_tags
from trainables import figures
from trainables.errors import InvalidInput

_REST = 20  # interval between summaries, relative to the time of one


class Tracker:
    """Writes sweeps to one MLflow store. Not for several threads at once."""

    def __init__(self, settings: Settings) -> None:
        """Open the store, making it where it is a new SQLite file.

        Raises: as `Store`.
        """
        self._store = Store(settings)
        self._client, self.experiment_id = self._store.client, self._store.experiment_id
        self._trials = TrialRuns(self._store)
        self._parents: dict[str, str] = {}
        self._sweep_id = ""  # of the sweep whose records are cached
        self._records: dict[str, TrialRecord] = {}
        self._summarised: tuple[object, ...] = ()
        self._summary_due = 0.0

    def deliver(
        self, folder: SweepFolder, trial_ids: Iterable[str] | None = None, *, running: bool
    ) -> str:
        """Update the sweep's runs to the state on disk; returns the parent run's id.

        `trial_ids` None means every trial that has begun; `running` is True while the sweep runs.
        Raises: whatever MLflow raises. What it refuses of one trial, it raises after the others.
        """
        about = folder.about()
        records = self._read(folder, trial_ids, sweep_id=about["id"], running=running)
        parent = self._parent(folder, about)
        refused: Exception | None = None
        for trial_id in records if trial_ids is None else trial_ids:
            if trial_id in records and records[trial_id].status.has_begun:
                try:
                    self._trials.deliver(folder, about, parent, records[trial_id])
                except Exception as problem:
                    if may_pass(problem):
                        raise
                    refused = refused or problem
        begun = time.monotonic()
        if not running or begun >= self._summary_due:
            self._summary(folder, parent, list(records.values()), running=running)
            # It reads every trial, so with ten thousand it is not made after each.
            self._summary_due = time.monotonic() + _REST * (time.monotonic() - begun)
        if refused is not None:
            raise refused
        return parent

    def _read(
        self,
        folder: SweepFolder,
        trial_ids: Iterable[str] | None,
        *,
        sweep_id: str,
        running: bool,
    ) -> dict[str, TrialRecord]:
        """Every trial's record; only those of `trial_ids` are read again, None: all."""
        if trial_ids is None or self._sweep_id != sweep_id:
            self._sweep_id = sweep_id
            self._records = {r.plan.id: r for r in folder.records(running=running)}
        else:
            planned = {trial.id: trial for trial in folder.plan().trials}
            for trial_id in trial_ids:
                if trial_id in planned:
                    self._records[trial_id] = folder.record(planned[trial_id], running=running)
        return self._records

    def run_of(self, folder: SweepFolder, trial_id: str) -> str | None:
        """The MLflow run of a trial ("" for the sweep itself), None where there is none."""
        return self._store.find(str(folder.about()["id"]), trial_id)

    def delete(self, folder: SweepFolder) -> None:
        """Delete the sweep's runs (MLflow keeps deleted runs until `mlflow gc`)."""
        mine = f"tags.sweep_id = '{folder.about()['id']}'"
        while found := self._client.search_runs([self.experiment_id], filter_string=mine):
            for run in found:
                self._client.delete_run(run.info.run_id)

    def _parent(self, folder: SweepFolder, about: dict[str, Any]) -> str:
        """The sweep's run, with its artifacts, which are looked for once."""
        if about["id"] in self._parents:
            return self._parents[about["id"]]
        space = folder.space()
        run_id = self._store.find(about["id"], "") or self._store.create(
            about["id"],
            "",
            name=folder.name,
            started=about["created"],
            tags={
                "sweep": folder.name,
                "mlflow.note.content": escape(space.description or ""),
                "mlflow.source.name": "sweep",
                "source": space.source,
                **version_tags(about),
            },
        )
        if len(self._client.list_artifacts(run_id)) < 2:
            self._client.log_artifact(run_id, str(folder.path / "space.yaml"))
            # A plan has the number of records, declared or counted.
            self._client.log_artifact(run_id, str(folder.path / "plan.json"), CURATOR)
        self._parents[about["id"]] = run_id
        return run_id

    def _summary(
        self, folder: SweepFolder, parent: str, records: list[TrialRecord], *, running: bool
    ) -> None:
        """Write figures and a table on the sweep's run, whose children are folded by default."""
        state = (parent, running, *((record.status, record.metrics) for record in records))
        if state == self._summarised:
            return
        found = summary_of(records)
        times = [record.ended_at or 0.0 for record in records if record.status.is_finished]
        when = max(times, default=float(folder.about()["created"]))
        over = found["trials_done"] + found["trials_failed"]
        batch = Batch()
        batch.add(found, step=over, when=when)
        page = f"#/experiments/{self.experiment_id}/runs/{parent}/artifacts"
        links = [(name, f"{page}/{name}") for name in ("space.yaml", f"{CURATOR}/plan.json")]
        text = note(folder.space().description or "", records, links=links)
        waiting = any(r.status.is_pending for r in records)
        status = "FINISHED" if not waiting else ("RUNNING" if running else "KILLED")
        batch.tags = {
            "status": status.lower(),
            "mlflow.note.content": text,
            "curator_only": ", ".join(name for name in found if metric_key(name) != name),
        }
        self._store.log(parent, batch)
        if status == "RUNNING":
            self._client.update_run(parent, status=status)
        else:
            # Wall-clock, several trials at a time; a paused sweep does not work. The trials of a
            # private selection have another clock.
            ran = folder.seconds_run() or sum(record.seconds for record in records)
            self._store.end(parent, status, when=float(folder.about()["created"]) + ran)
        self._summarised = state


def summary_of(records: Sequence[TrialRecord]) -> dict[str, Any]:
    """The number of trials by status, and the figures of the best one. Pure."""
    finished = [record for record in records if record.status.is_finished]
    found: dict[str, Any] = {
        "trials": len(records),
        "trials_refused": sum(record.status is TrialStatus.REFUSED for record in records),
        "trials_failed": sum(record.status is TrialStatus.FAILED for record in records),
        "trials_done": len(finished),
    }
    best = _best(finished)
    if best is not None:
        main = select.headline(records)
        for name in (main, figures.LEAKAGE, figures.EPSILON, figures.EPSILON_PAPER, "seconds"):
            if not best.plan.reveals_count(name):
                found[f"best_{name}"] = select.value(best, name)
    return found


def _best(finished: Sequence[TrialRecord]) -> TrialRecord | None:
    """The best one as everywhere: by what was found on validation records, where that is known;
    None for trials on several corpora.
    """
    try:
        best, *others = select.best_of_each(select.finished(finished) or finished)
    except InvalidInput:  # no figure that all have, or no trial
        return None
    return None if others else best
