"""Figures of a running sweep as gauges; in Prometheus Ray's prefix `ray_` is before
their names.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType

from trainables import figures
from trainables.config import objectives

TRIAL_LABELS = ("sweep", "trial", "name", "engine")
STATUS_LABELS = ("sweep", "status")
COUNTS = "sweep_trials"
STATUSES = ("planned", "running", "done", "stopped", "failed", "refused")


@dataclass(frozen=True, kw_only=True)
class LiveMetric:
    """One gauge. Those of figures that no epsilon covers have the prefix `curator_`."""

    name: str
    help: str
    labels: tuple[str, ...] = TRIAL_LABELS


@cache
def metrics() -> Mapping[str, LiveMetric]:
    """Every gauge by its figure's name in epochs or results, that of the counts by
    `COUNTS`.
    """
    found = {
        COUNTS: LiveMetric(name=COUNTS, help="Trials by status", labels=STATUS_LABELS)
    }
    final = {
        *map(objectives.headline, objectives.tasks()),
        figures.LEAKAGE,
        "epsilon_planned",
    }
    for source, figure in figures.registry().items():
        if figure.per_epoch or source in final:
            prefix = "sweep_" if figure.is_public else "curator_sweep_"
            found[source] = LiveMetric(name=f"{prefix}{source}", help=figure.help)
    return MappingProxyType(found)
