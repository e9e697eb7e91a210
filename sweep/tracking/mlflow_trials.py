"""The run of a trial in an MLflow store: parameters, epochs, final figures, artifacts.

A call of MLflow takes about ten milliseconds, so all news of a trial are sent in one batch.
"""

from __future__ import annotations

import math
import shutil
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sweep.results.privacy_cards import JSON, MARKDOWN, read_card
from sweep.store.files import indented_json
from sweep.store.plans import noise_at
from sweep.store.status import TrialStatus
from sweep.store.sweeps import SweepFolder, TrialRecord
from sweep.store.trial_files import with_leakage
from sweep.tracking.mlflow_client import Batch, Store
from sweep.tracking.note import trial_note
from sweep.tracking.text import (
    CURATOR,
    MARKER,
    NUMBER,
    epoch_table,
    logarithms,
    mark_counted,
    params_of,
    run_name,
    tags_of,
    violation_text,
)
from trainables.cards.page import to_markdown
from trainables.figures import LEAKAGE

_OVER = " after "  # in the state of a trial that has ended
_DELIVERED = "delivered"  # written last: the delivered state of the trial
_LAST = "delivered.last_epoch"  # the time of the last delivered epoch


@dataclass
class _Run:
    """What a run holds. `started`: when, in seconds since the Unix epoch. `epochs`: so many have
    been delivered, the last of them of the time `last`; `state`: what the disk said then;
    `is_described`: it has its parameters and its config.
    """

    id: str
    started: float
    epochs: int = 0
    last: str = ""
    state: str = ""
    is_described: bool = False


class TrialRuns:
    """Writes trials to a store, each epoch once."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._client = store.client
        self._runs: dict[str, dict[str, _Run]] = {}  # of each sweep, by the trial's id

    def deliver(
        self, folder: SweepFolder, about: dict[str, Any], parent: str, record: TrialRecord
    ) -> None:
        """Update a trial's run to the state on disk."""
        plan, rows = record.plan, folder.epochs(record.plan.id)
        runs = self._of_sweep(about["id"])
        if plan.id in runs and _is_of_others(runs[plan.id], rows):
            self._client.delete_run(runs[plan.id].id)
            del runs[plan.id]
        if plan.id not in runs:
            runs[plan.id] = self._create(folder, about, parent, record, rows)
        run, panel = runs[plan.id], folder.panel(plan.id)
        state = _state(record, panel)
        new = [row for row in rows if int(row["epochs_done"]) > run.epochs]
        if run.is_described and state == run.state and not new:
            return
        batch = Batch()
        if not run.is_described:
            batch.params = params_of(plan)
            batch.tags |= tags_of(plan, about)
            order = [trial.id for trial in folder.plan().trials]
            batch.add({NUMBER: order.index(plan.id) + 1}, step=0, when=run.started)
        for row in new:
            step = int(row["epochs_done"])
            noise = noise_at(plan, step)
            known = {**row["metrics"], **noise, "epoch_seconds": row["seconds"], MARKER: step}
            batch.add(mark_counted(known, plan), step=step, when=row["time"])
            batch.tags[_LAST] = str(row["time"])
        if not run.is_described or record.status.is_over:
            batch.tags["mlflow.note.content"] = trial_note(record)
        if record.status.is_over:
            self._end(folder, run, record, rows, panel=panel, batch=batch)
            batch.tags[_DELIVERED] = state
        elif state != run.state:
            is_running = record.status is TrialStatus.RUNNING
            self._client.update_run(run.id, status="RUNNING" if is_running else "KILLED")
            batch.tags |= {"status": record.status.value, "reason": ""}
        if not run.is_described and not record.status.is_over:
            self._artifacts(folder, run, record, rows=[])
        if _OVER in run.state and state != run.state:
            self._forget(run, batch)
        self._store.log(run.id, batch)
        run.epochs = max([run.epochs, *(int(row["epochs_done"]) for row in new)])
        run.last = batch.tags.get(_LAST, run.last)
        run.state, run.is_described = state, True

    def _forget(self, run: _Run, batch: Batch) -> None:
        """Remove the tags of an earlier end that are empty now, such as why the trial failed."""
        kept = self._client.get_run(run.id).data.tags
        for key, value in batch.tags.items():
            if value in (None, "") and key in kept:
                self._client.delete_tag(run.id, key)

    def _of_sweep(self, sweep_id: str) -> dict[str, _Run]:
        """The runs of a sweep's trials, read from the store the first time."""
        if sweep_id not in self._runs:
            self._runs[sweep_id] = {
                str(run.data.tags["trial"]): _Run(
                    id=str(run.info.run_id),
                    started=run.info.start_time / 1000,
                    epochs=int(run.data.metrics.get(MARKER, 0)),
                    last=str(run.data.tags.get(_LAST, "")),
                    state=str(run.data.tags.get(_DELIVERED, "")),
                )
                for run in self._store.runs_of(sweep_id)
            }
        return self._runs[sweep_id]

    def _create(
        self,
        folder: SweepFolder,
        about: dict[str, Any],
        parent: str,
        record: TrialRecord,
        rows: list[dict[str, Any]],
    ) -> _Run:
        started = rows[0]["time"] - rows[0]["seconds"] if rows else time.time() - record.seconds
        tags = {"sweep": folder.name, "mlflow.parentRunId": parent}
        name = run_name(record.plan)
        run = self._store.create(about["id"], record.plan.id, name=name, started=started, tags=tags)
        return _Run(run, started)

    def _end(
        self,
        folder: SweepFolder,
        run: _Run,
        record: TrialRecord,
        rows: list[dict[str, Any]],
        *,
        panel: dict[str, Any],
        batch: Batch,
    ) -> None:
        """Log artifacts and end the run; remaining data are added to `batch`."""
        when = record.ended_at or (rows[-1]["time"] if rows else time.time())
        seen = set(rows[-1]["metrics"]) if rows else set()
        result = folder.result(record.plan.id)
        if result is not None:
            _add_final(batch, record, result, panel, seen=seen, when=when)
        batch.tags |= _result_tags(record, names={*seen, *record.metrics})
        self._artifacts(folder, run, record, rows)
        status = "FAILED" if record.status is TrialStatus.FAILED else "FINISHED"
        # MLflow's duration is that of the work: a paused trial has not worked while it waited.
        worked = record.seconds or sum(float(row["seconds"]) for row in rows)
        self._store.end(run.id, status, when=run.started + worked)

    def _artifacts(
        self, folder: SweepFolder, run: _Run, record: TrialRecord, rows: list[dict[str, Any]]
    ) -> None:
        place = folder.trial_folder(record.plan.id)
        with tempfile.TemporaryDirectory() as name:
            scratch = Path(name)
            for_curator = scratch / CURATOR
            for_curator.mkdir()
            shutil.copy(place / "config.yaml", scratch)
            for picture in ("roc.json", "roc.png"):
                if (place / picture).exists():
                    shutil.copy(place / picture, for_curator)
            card = read_card(folder, record.plan.id)
            if card is not None:  # by its fields, never the file
                (scratch / JSON).write_text(indented_json(card.to_dict()), encoding="utf-8")
                (scratch / MARKDOWN).write_text(to_markdown(card), encoding="utf-8")
            for audience in (scratch, for_curator) if rows else ():
                shown = [
                    {**row, "metrics": mark_counted(row["metrics"], record.plan)} for row in rows
                ]
                text = epoch_table(shown, public=audience is scratch)
                (audience / "epochs.csv").write_text(text, encoding="utf-8")
            if not any(for_curator.iterdir()):
                for_curator.rmdir()
            self._client.log_artifacts(run.id, str(scratch))


def _is_of_others(run: _Run, rows: list[dict[str, Any]]) -> bool:
    """Whether a run has epochs that no longer count. A figure cannot be removed from a run."""
    return bool(run.last) and run.last not in {str(row["time"]) for row in rows}


def _state(record: TrialRecord, panel: dict[str, Any]) -> str:
    """The state of a trial on disk beside its epochs."""
    if not record.status.is_over:
        return record.status.value
    compared = f", compared at {panel['time']}" if panel else ""
    return f"{record.status}{_OVER}{record.epochs_done} epochs{compared}"


def _add_final(
    batch: Batch,
    record: TrialRecord,
    result: dict[str, Any],
    panel: dict[str, Any],
    *,
    seen: set[str],
    when: float,
) -> None:
    """Add final figures, and those of the comparison with other trials at its time."""
    # A final figure of the same name as an epoch's is of the best epoch.
    final = {
        f"best_{name}" if name in seen else name: value
        for name, value in with_leakage(result["metrics"]).items()
    }
    final |= logarithms(record.metrics)
    batch.add(mark_counted(final, record.plan), step=record.epochs_done, when=when)
    if panel:
        compared = with_leakage({**result["metrics"], **panel["metrics"]})
        names = {*panel["metrics"], *(n for n in compared if n.startswith(LEAKAGE))}
        new = {name: compared[name] for name in names}
        batch.add(new, step=record.epochs_done, when=panel["time"])


def _result_tags(record: TrialRecord, *, names: set[str]) -> dict[str, Any]:
    infinite = [n for n, v in record.metrics.items() if v is not None and math.isinf(v)]
    return {
        "status": record.status.value,
        "reason": record.reason or "",
        "curator_only.violation": violation_text(record.violation),
        "curator_only.notes": "; ".join(record.notes),  # they speak of attacks
        "privacy.step_audit": str(
            ((record.privacy or {}).get("step_audit") or {}).get("verdict", "")
        ),
        "curator_only": ", ".join(
            sorted(name for name in names if not record.plan.may_publish(name))
        ),
        # MLflow has no infinity: such a figure is a tag and no metric.
        **dict.fromkeys(infinite, "inf"),
    }
