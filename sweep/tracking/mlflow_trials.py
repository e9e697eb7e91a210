"""The run of a trial in an MLflow store: parameters, epochs, final figures, artifacts."""

from __future__ import annotations

import math
import tempfile
import time
from pathlib import Path
from typing import Any

from sweep.results.privacy_cards import JSON, MARKDOWN, read_card
from sweep.store.files import write_json, write_text
from sweep.store.plans import noise_at
from sweep.store.status import TrialStatus
from sweep.store.sweeps import SweepFolder, TrialRecord
from sweep.store.trial_files import with_leakage
from sweep.tracking.mlflow_client import Store
from sweep.tracking.text import (
    CURATOR,
    epoch_table,
    logarithms,
    params_of,
    tags_of,
    violation_text,
)
from trainables.figures import LEAKAGE, is_public
from trainables.privacy.card_page import to_markdown

MARKER = "epochs_done"  # logged last of an epoch: what it is there for has been delivered


class TrialRuns:
    """Writes trials to a store, each epoch once."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._client = store.client
        self._delivered: dict[str, int] = {}

    def deliver(
        self, folder: SweepFolder, about: dict[str, Any], parent: str, record: TrialRecord
    ) -> None:
        """Bring a trial's run up to what the disk says."""
        plan = record.plan
        run_id = self._store.find(about["id"], plan.id)
        rows = folder.epochs(plan.id)
        if run_id is None:
            started = rows[0]["time"] - rows[0]["seconds"] if rows else time.time()
            tags = {"sweep": folder.name, "mlflow.parentRunId": parent}
            run_id = self._store.create(
                about["id"], plan.id, name=plan.name, started=started, tags=tags
            )
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
        self._store.log_params(run_id, params_of(record.plan))
        self._store.log_tags(run_id, tags_of(record.plan, about))
        self._client.log_artifact(run_id, str(folder.trial_folder(record.plan.id) / "config.yaml"))

    def _epochs(self, run_id: str, record: TrialRecord, rows: list[dict[str, Any]]) -> None:
        for row in rows:
            step = int(row["epochs_done"])
            if step <= self._delivered[run_id]:
                continue
            noise = noise_at(record.plan, step)
            known = {**row["metrics"], **noise, "epoch_seconds": row["seconds"], MARKER: step}
            self._store.log_metrics(run_id, known, step=step, when=row["time"])
            self._delivered[run_id] = step

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
        result = folder.result(plan.id)
        when = float((result or {}).get("time") or (rows[-1]["time"] if rows else time.time()))
        seen = set(rows[-1]["metrics"]) if rows else set()
        if result is not None:
            self._final(run_id, record, result, panel, seen=seen, when=when)
        self._result_tags(run_id, record, names={*seen, *record.metrics})
        self._artifacts(folder, run_id, record, rows)
        status = "FAILED" if record.status is TrialStatus.FAILED else "FINISHED"
        self._store.end(run_id, status, when=when)
        self._client.set_tag(run_id, "delivered", state)

    def _final(
        self,
        run_id: str,
        record: TrialRecord,
        result: dict[str, Any],
        panel: dict[str, Any],
        *,
        seen: set[str],
        when: float,
    ) -> None:
        """Final figures, and those of the comparison with other trials at the time it was made."""
        # A final figure of the same name as an epoch's is of the best epoch.
        final = {
            f"best_{name}" if name in seen else name: value
            for name, value in with_leakage(result["metrics"]).items()
        }
        final |= logarithms(record.metrics)
        self._store.log_metrics(run_id, final, step=record.epochs_done, when=when)
        if panel:
            compared = with_leakage({**result["metrics"], **panel["metrics"]})
            names = {*panel["metrics"], *(n for n in compared if n.startswith(LEAKAGE))}
            new = {name: compared[name] for name in names}
            self._store.log_metrics(run_id, new, step=record.epochs_done, when=panel["time"])

    def _result_tags(self, run_id: str, record: TrialRecord, *, names: set[str]) -> None:
        infinite = [n for n, v in record.metrics.items() if v is not None and math.isinf(v)]
        tags = {
            "status": record.status.value,
            "reason": record.reason or "",
            "curator_only.violation": violation_text(record.violation),
            "curator_only.notes": "; ".join(record.notes),  # they speak of attacks
            "privacy.step_audit": str(
                ((record.privacy or {}).get("step_audit") or {}).get("verdict", "")
            ),
            "curator_only": ", ".join(sorted(name for name in names if not is_public(name))),
            # MLflow has no infinity: such a figure is a tag and no metric.
            **dict.fromkeys(infinite, "inf"),
        }
        self._store.log_tags(run_id, tags)

    def _artifacts(
        self, folder: SweepFolder, run_id: str, record: TrialRecord, rows: list[dict[str, Any]]
    ) -> None:
        place = folder.trial_folder(record.plan.id)
        for name in ("roc.json", "roc.png"):
            if (place / name).exists():
                self._client.log_artifact(run_id, str(place / name), CURATOR)
        card = read_card(folder, record.plan.id)
        with tempfile.TemporaryDirectory() as scratch:
            if card is not None:  # by its fields: a file of an earlier version may say more
                write_json(Path(scratch) / JSON, card.to_dict())
                write_text(Path(scratch) / MARKDOWN, to_markdown(card))
                for name in (JSON, MARKDOWN):
                    self._client.log_artifact(run_id, str(Path(scratch) / name))
            for audience, part in ((None, "public"), (CURATOR, "curator")) if rows else ():
                table = Path(scratch) / "epochs.csv"
                table.write_text(epoch_table(rows, public=part == "public"), encoding="utf-8")
                self._client.log_artifact(run_id, str(table), audience)
