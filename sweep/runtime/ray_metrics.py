"""A running sweep's figures as Ray application metrics, which Ray's agent serves to
dashboards.
"""

from __future__ import annotations

import math
import sys
from collections import Counter
from typing import TYPE_CHECKING

from dashboards.live_metrics import COUNTS, STATUSES, LiveMetric, metrics
from sweep.best_effort import BestEffort
from sweep.results.tables.progress import Progress
from sweep.runtime.driver import Watch
from sweep.store.plans import PlannedTrial, noise_at
from sweep.store.state import with_leakage
from sweep.store.sweeps import SweepFolder

if TYPE_CHECKING:
    from ray.util.metrics import Gauge

Figures = dict[str, float | None]
_WORDS = str.maketrans({"ε": "epsilon", "≤": "<="})  # of trials' names


def record_metrics(watch: Watch, folder: SweepFolder) -> Watch:
    """`watch` extended by recording the trial's figures as metrics, where Ray runs."""
    guard = BestEffort("Ray's metrics")
    gauges: dict[str, Gauge] = {}
    statuses: dict[str, str] = {}

    def put(source: str, value: float, **labels: str) -> None:
        if source not in gauges:
            gauges[source] = _ray_gauge(metrics()[source])
        gauges[source].set(
            value, tags={label: in_ascii(text) for label, text in labels.items()}
        )

    def watch_and_record(trial_id: str, progress: Progress) -> None:
        watch(trial_id, progress)
        statuses[trial_id] = progress.status
        plan = progress.plan
        with guard:
            if not _ray_is_up():
                return
            counts = Counter(statuses.values())
            for status in STATUSES:
                put(COUNTS, counts[status], sweep=folder.name, status=status)
            if plan is None or not progress.status.has_begun:
                return
            labels = {"trial": trial_id, "name": plan.name, "engine": plan.engine}
            for source, value in _figures(folder, plan, progress).items():
                if source not in metrics() or plan.reveals_count(source):
                    continue
                if value is not None and math.isfinite(value):
                    put(source, value, sweep=folder.name, **labels)

    return watch_and_record


def _figures(folder: SweepFolder, plan: PlannedTrial, progress: Progress) -> Figures:
    trial = folder.state().trial(plan.id)
    figures: Figures = {
        "epochs_done": progress.epochs_done,
        "epochs": progress.epochs,
        "epsilon_planned": plan.epsilon,
    }
    if trial.rows:
        row = trial.rows[-1]
        figures |= row["metrics"] | noise_at(plan, row["epochs_done"])
        figures["epoch_seconds"] = row["seconds"]
        if plan.num_records and row["seconds"] > 0:
            figures["utterances_per_second"] = plan.num_records / row["seconds"]
    if trial.result is not None:
        figures |= with_leakage(trial.result["metrics"])
    return figures


def in_ascii(text: str) -> str:
    r"""`text` in printable ASCII, which is all that metrics of Ray take.

    >>> print(in_ascii("dp-sgd, ε≤8"), in_ascii("naïve"))
    dp-sgd, epsilon<=8 na\xefve
    """
    return text.translate(_WORDS).encode("unicode_escape").decode("ascii")


def _ray_is_up() -> bool:
    """Whether this process is connected to Ray, which executor `local` never
    imports.
    """
    ray = sys.modules.get("ray")
    return ray is not None and bool(ray.is_initialized())


def _ray_gauge(metric: LiveMetric) -> Gauge:
    from ray.util.metrics import Gauge

    return Gauge(metric.name, description=in_ascii(metric.help), tag_keys=metric.labels)
