"""MLflow follows the disk: a parent run for a sweep, a child run for each trial.

Everything is read from the sweep's folder and written so that writing it twice changes nothing: a
run is found again by its tags (`sweep_id`, `trial`), a metric by its step and time. So a server
that was away, or a killed driver, is caught up with by delivering again.

Metrics that no epsilon covers are called `curator_only/...`; the tag `curator_only` lists them.
"""

from __future__ import annotations

import logging
import math
import os
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sweep.results import select
from sweep.settings import Settings
from sweep.store.files import number
from sweep.store.plans import noise_at
from sweep.store.status import TrialStatus
from sweep.store.sweeps import SweepFolder, TrialRecord
from sweep.store.trial_files import with_leakage
from sweep.tracking.connection import require_answer
from sweep.tracking.mlflow_views import View, views
from sweep.tracking.note import EXPERIMENT as ABOUT_EXPERIMENT
from sweep.tracking.note import note
from sweep.tracking.text import (
    epoch_table,
    logarithms,
    metric_key,
    params_of,
    tags_of,
    version_tags,
    violation_text,
)
from trainables import figures
from trainables.errors import InvalidInput
from trainables.figures import is_public
from trainables.locks import alone

EXPERIMENT = "sweeps"
MARKER = "epochs_done"  # logged last of an epoch: what it is there for has been delivered
_BATCH = 90  # MLflow takes at most 100 params or tags a call


class Tracker:
    """Writes sweeps to one MLflow store. Not for several threads at once."""

    def __init__(self, settings: Settings) -> None:
        """Open the store, making it where it is a new SQLite file.

        Raises: InvalidInput where it does not answer.
        """
        require_answer(settings.tracking_uri)
        # A server that goes away must not hold the sweep up: few retries, the rest is caught up.
        os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "1")
        os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "10")
        os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
        os.environ.setdefault("MLFLOW_LOGGING_LEVEL", "WARNING")
        logging.getLogger("alembic").setLevel(logging.WARNING)
        from mlflow.exceptions import MlflowException
        from mlflow.tracking import MlflowClient

        self._error = MlflowException
        self._runs: dict[tuple[str, str], str] = {}
        self._delivered: dict[str, int] = {}
        self._summarised: tuple[object, ...] = ()
        self._viewed: set[str] = set()
        self._settings = settings
        try:
            with _alone(settings):
                self._client = MlflowClient(tracking_uri=settings.tracking_uri)
                self.experiment_id = self._experiment()
        except (MlflowException, OSError) as problem:
            reason = str(problem).splitlines()[0][:200]
            raise InvalidInput(
                f"tracking store {settings.tracking_uri} does not answer ({reason})"
            ) from None

    @property
    def away(self) -> tuple[type[Exception], ...]:
        """What a call raises while the store does not answer."""
        return (self._error, OSError)

    def deliver(
        self, folder: SweepFolder, trial_ids: Iterable[str] | None = None, *, running: bool
    ) -> str:
        """Bring the sweep's runs up to what the disk says; the parent run's id.

        `trial_ids` None means every trial that has begun; `running` says whether the sweep goes
        on. Raises: one of `away`.
        """
        about = folder.about()
        records = {record.plan.id: record for record in folder.records(running=running)}
        parent = self._parent(folder, about)
        chosen = records if trial_ids is None else [i for i in trial_ids if i in records]
        for trial_id in chosen:
            if records[trial_id].status.has_begun:
                self._trial(folder, about, parent, records[trial_id])
        self._summary(folder, parent, list(records.values()), running=running)
        return parent

    def run_of(self, folder: SweepFolder, trial_id: str) -> str | None:
        """The MLflow run of a trial ("" for the sweep itself), None where there is none."""
        return self._find(str(folder.about()["id"]), trial_id)

    def delete(self, folder: SweepFolder) -> None:
        """Delete the sweep's runs (MLflow keeps deleted runs until `mlflow gc`)."""
        mine = f"tags.sweep_id = '{folder.about()['id']}'"
        while found := self._client.search_runs([self.experiment_id], filter_string=mine):
            for run in found:
                self._client.delete_run(run.info.run_id)
        kept = self._client.get_experiment(self.experiment_id).tags
        for view in self.views(folder):
            key, _ = view.tag(created=0.0)
            if key in kept:
                self._client.delete_experiment_tag(self.experiment_id, key)

    def views(self, folder: SweepFolder) -> tuple[View, ...]:
        """The sweep's prepared views."""
        return views(folder.name, str(folder.about()["id"]))

    # ---- runs

    def _experiment(self) -> str:
        found = self._client.get_experiment_by_name(EXPERIMENT)
        if found is None:
            found = self._client.get_experiment(self._make_experiment())
        wanted = {
            "mlflow.note.content": ABOUT_EXPERIMENT,
            "mlflow.experimentKind": "custom_model_development",  # its pages are about training
        }
        for key, text in wanted.items():
            if found.tags.get(key) != text:
                self._client.set_experiment_tag(found.experiment_id, key, text)
        return str(found.experiment_id)

    def _make_experiment(self) -> str:
        uri = self._settings.tracking_uri
        # A server keeps artifacts in its own place; with a database they lie beside the sweeps.
        remote = uri.startswith(("http://", "https://", "databricks"))
        place = None if remote else (self._settings.home / "mlartifacts").as_uri()
        try:
            return str(self._client.create_experiment(EXPERIMENT, artifact_location=place))
        except self._error:
            found = self._client.get_experiment_by_name(EXPERIMENT)  # made by another just now
            if found is None:
                raise
            return str(found.experiment_id)

    def _find(self, sweep_id: str, trial_id: str) -> str | None:
        key = (sweep_id, trial_id)
        if key not in self._runs:
            found = self._client.search_runs(
                [self.experiment_id],
                filter_string=f"tags.sweep_id = '{sweep_id}' and tags.trial = '{trial_id}'",
                max_results=1,
            )
            if not found:
                return None
            self._runs[key] = found[0].info.run_id
        return self._runs[key]

    def _parent(self, folder: SweepFolder, about: dict[str, Any]) -> str:
        space = folder.space()
        known = self._find(about["id"], "")
        if known is not None:
            self._save_views(folder, about)
            return known
        run = self._client.create_run(
            self.experiment_id,
            start_time=_milliseconds(about["created"]),
            run_name=folder.name,
            tags={
                "sweep": folder.name,
                "sweep_id": about["id"],
                "trial": "",
                "mlflow.note.content": space.description,
                "mlflow.source.name": "sweep",
                "source": space.source,
                **version_tags(about),
            },
        )
        self._runs[about["id"], ""] = run.info.run_id
        self._client.log_artifact(run.info.run_id, str(folder.path / "space.yaml"))
        self._client.log_artifact(run.info.run_id, str(folder.path / "plan.json"))
        self._save_views(folder, about)
        return str(run.info.run_id)

    def _save_views(self, folder: SweepFolder, about: dict[str, Any]) -> None:
        """Put the sweep's prepared views into MLflow's list of views, once."""
        if about["id"] in self._viewed:
            return
        for view in views(folder.name, about["id"]):
            key, text = view.tag(created=float(about["created"]))
            self._client.set_experiment_tag(self.experiment_id, key, text)
        self._viewed.add(about["id"])

    def _trial(
        self, folder: SweepFolder, about: dict[str, Any], parent: str, record: TrialRecord
    ) -> None:
        plan = record.plan
        run_id = self._find(about["id"], plan.id)
        rows = folder.epochs(plan.id)
        if run_id is None:
            started = rows[0]["time"] - rows[0]["seconds"] if rows else time.time()
            run = self._client.create_run(
                self.experiment_id,
                start_time=_milliseconds(started),
                run_name=plan.name,
                tags={
                    "sweep": folder.name,
                    "sweep_id": about["id"],
                    "trial": plan.id,
                    "mlflow.parentRunId": parent,
                },
            )
            run_id = str(run.info.run_id)
            self._runs[about["id"], plan.id] = run_id
            self._delivered[run_id] = 0
            self._params_and_tags(folder, about, run_id, record)
        if run_id not in self._delivered:
            history = self._client.get_metric_history(run_id, MARKER)
            self._delivered[run_id] = max((entry.step for entry in history), default=0)
            self._params_and_tags(folder, about, run_id, record)
        self._epochs(run_id, record, rows)
        self._end(folder, run_id, record, rows)

    def _params_and_tags(
        self, folder: SweepFolder, about: dict[str, Any], run_id: str, record: TrialRecord
    ) -> None:
        from mlflow.entities import Param, RunTag

        params, tags = params_of(record.plan), tags_of(record.plan, about)
        entries = [Param(key, str(value)[:6000]) for key, value in params.items()]
        for at in range(0, len(entries), _BATCH):
            self._client.log_batch(run_id, params=entries[at : at + _BATCH])
        self._client.log_batch(run_id, tags=[RunTag(k, str(v)[:5000]) for k, v in tags.items()])
        self._client.log_artifact(run_id, str(folder.trial_folder(record.plan.id) / "config.yaml"))

    def _epochs(self, run_id: str, record: TrialRecord, rows: list[dict[str, Any]]) -> None:
        for row in rows:
            step = int(row["epochs_done"])
            if step <= self._delivered[run_id]:
                continue
            noise = noise_at(record.plan, step)
            known = {**row["metrics"], **noise, "epoch_seconds": row["seconds"], MARKER: step}
            self._metrics(run_id, known, step=step, when=row["time"])
            self._delivered[run_id] = step

    def _metrics(self, run_id: str, metrics: dict[str, Any], *, step: int, when: float) -> None:
        from mlflow.entities import Metric

        stamp = _milliseconds(when)
        entries = [
            Metric(metric_key(name), value, stamp, step)
            for name, given in metrics.items()
            if (value := number(given)) is not None and math.isfinite(value)
        ]
        self._client.log_batch(run_id, metrics=entries)

    def _end(
        self, folder: SweepFolder, run_id: str, record: TrialRecord, rows: list[dict[str, Any]]
    ) -> None:
        plan = record.plan
        panel = folder.panel(plan.id)
        state = f"{record.status} after {record.epochs_done} epochs"
        if panel:
            state += f", compared at {panel['time']}"
        if not record.status.is_over:
            self._client.set_tag(run_id, "status", record.status.value)
            self._client.update_run(
                run_id, status="RUNNING" if record.status is TrialStatus.RUNNING else "KILLED"
            )
            return
        run = self._client.get_run(run_id)
        if run.data.tags.get("delivered") == state:
            return
        seen = set(rows[-1]["metrics"]) if rows else set()
        result = folder.result(plan.id)
        when = float((result or {}).get("time") or (rows[-1]["time"] if rows else time.time()))
        if result is not None:
            # A final figure of the same name as an epoch's is of the best epoch.
            final = {
                f"best_{name}" if name in seen else name: value
                for name, value in with_leakage(result["metrics"]).items()
            }
            final |= logarithms(record.metrics)
            self._metrics(run_id, final, step=record.epochs_done, when=when)
            if panel:
                compared = with_leakage({**result["metrics"], **panel["metrics"]})
                names = {*panel["metrics"], *(n for n in compared if n.startswith(figures.LEAKAGE))}
                new = {name: compared[name] for name in names}
                self._metrics(run_id, new, step=record.epochs_done, when=panel["time"])
        self._result_tags(run_id, record, names={*seen, *record.metrics})
        self._artifacts(folder, run_id, record, rows)
        status = "FAILED" if record.status is TrialStatus.FAILED else "FINISHED"
        self._client.set_terminated(run_id, status=status, end_time=_milliseconds(when))
        self._client.set_tag(run_id, "delivered", state)

    def _result_tags(self, run_id: str, record: TrialRecord, *, names: set[str]) -> None:
        from mlflow.entities import RunTag

        infinite = [n for n, v in record.metrics.items() if v is not None and math.isinf(v)]
        tags = {
            "status": record.status.value,
            "reason": record.reason or "",
            "privacy.violation": violation_text(record.violation),
            "notes": "; ".join(record.notes),
            "privacy.step_audit": str(
                ((record.privacy or {}).get("step_audit") or {}).get("verdict", "")
            ),
            "curator_only": ", ".join(sorted(name for name in names if not is_public(name))),
            # MLflow has no infinity: such a figure is a tag and no metric.
            **dict.fromkeys(infinite, "inf"),
        }
        self._client.log_batch(run_id, tags=[RunTag(k, v[:5000]) for k, v in tags.items()])

    def _artifacts(
        self, folder: SweepFolder, run_id: str, record: TrialRecord, rows: list[dict[str, Any]]
    ) -> None:
        place = folder.trial_folder(record.plan.id)
        for name in ("privacy_card.json", "privacy_card.md"):
            if (place / name).exists():
                self._client.log_artifact(run_id, str(place / name))
        for name in ("roc.json", "roc.png"):
            if (place / name).exists():
                self._client.log_artifact(run_id, str(place / name), "curator_only")
        if rows:
            with tempfile.TemporaryDirectory() as scratch:
                table = Path(scratch) / "epochs.csv"
                table.write_text(epoch_table(rows), encoding="utf-8")
                self._client.log_artifact(run_id, str(table))

    def _summary(
        self, folder: SweepFolder, parent: str, records: list[TrialRecord], *, running: bool
    ) -> None:
        """Figures and a table on the sweep's own run: its children are folded away at first."""
        from mlflow.entities import RunTag

        compared = [folder.panel(record.plan.id).get("time") for record in records]
        state = (parent, running, *compared, *(record.status for record in records))
        if state == self._summarised:
            return

        finished = [record for record in records if record.status.is_finished]
        counts = {
            "trials": len(records),
            "trials_refused": sum(record.status is TrialStatus.REFUSED for record in records),
            "trials_failed": sum(record.status is TrialStatus.FAILED for record in records),
            "trials_done": len(finished),
        }
        summary: dict[str, Any] = dict(counts)
        candidates = [r for r in finished if not r.plan.baseline] or finished
        main = select.headline(records)
        known = [r for r in candidates if select.value(r, main) is not None]
        if known:
            best = min(known, key=lambda r: figures.cost(main, select.value(r, main) or 0.0))
            for name in (main, figures.LEAKAGE, "epsilon", "epsilon_paper", "seconds"):
                summary[f"best_{name}"] = select.value(best, name)
        times = [float((folder.result(r.plan.id) or {}).get("time") or 0.0) for r in finished]
        when = max(times, default=float(folder.about()["created"]))
        over = counts["trials_done"] + counts["trials_failed"]
        self._metrics(parent, summary, step=over, when=when)
        page = f"#/experiments/{self.experiment_id}/runs/{parent}/artifacts"
        links = [(name, f"{page}/{name}") for name in ("space.yaml", "plan.json")]
        links += [
            (view.name.partition(": ")[2], view.address("", self.experiment_id).lstrip("/"))
            for view in self.views(folder)
        ]
        text = note(folder.space().description or "", records, links=links)
        waiting = any(r.status.is_pending for r in records)
        status = "FINISHED" if not waiting else ("RUNNING" if running else "KILLED")
        tags = [
            RunTag("status", status.lower()),
            RunTag("mlflow.note.content", text),
            RunTag("curator_only", ", ".join(n for n in summary if metric_key(n) != n)),
        ]
        self._client.log_batch(parent, tags=tags)
        if status == "RUNNING":
            self._client.update_run(parent, status=status)
        else:
            self._client.set_terminated(parent, status=status, end_time=_milliseconds(when))
        self._summarised = state


def _milliseconds(when: float) -> int:
    return int(when * 1000)


@contextmanager
def _alone(settings: Settings) -> Iterator[None]:
    """One process of this home at a time: MLflow makes a SQLite store's tables one after another,
    and fails where another process makes the same ones.
    """
    if not settings.tracking_uri.startswith("sqlite:"):
        yield
        return
    settings.home.mkdir(parents=True, exist_ok=True, mode=0o700)
    with alone(settings.home / ".mlflow.lock"):
        yield
