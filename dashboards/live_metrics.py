"""Figures of a running sweep, by the names that Prometheus knows them by: what is recorded and what
panels ask for are one list.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType

from trainables import figures, goals

PREFIX = "ray_"  # what Ray puts before an application's metrics
TRIAL_LABELS = ("sweep", "trial", "name", "engine")
STATUS_LABELS = ("sweep", "status")
COUNTS = "sweep_trials"
STATUSES = ("planned", "running", "done", "stopped", "failed", "refused")


@dataclass(frozen=True, kw_only=True)
class LiveMetric:
    """One gauge. `source` is the figure it shows, by its name in a trial's epochs or results; ""
    for one that is counted. What no epsilon covers is called `curator_...`.
    """

    name: str
    help: str
    source: str = ""
    labels: tuple[str, ...] = TRIAL_LABELS

    @property
    def exposed(self) -> str:
        """Its name in Prometheus.

        >>> metrics()["validation_ser"].exposed
        'ray_sweep_validation_ser'
        """
        return f"{PREFIX}{self.name}"


@cache
def metrics() -> Mapping[str, LiveMetric]:
    """Every gauge by its source: figures that change with an epoch, and what a trial came to."""
    found = {COUNTS: LiveMetric(name=COUNTS, help="Trials by status", labels=STATUS_LABELS)}
    final = {*map(goals.headline, goals.tasks()), figures.LEAKAGE, "epsilon_planned"}
    for source, figure in figures.registry().items():
        if figure.per_epoch or source in final:
            prefix = "sweep_" if figure.is_public else "curator_sweep_"
            found[source] = LiveMetric(name=f"{prefix}{source}", help=figure.help, source=source)
    return MappingProxyType(found)
