"""A whole sweep as plain data and as a pandas frame."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sweep.results import select
from sweep.settings import Settings, from_environment
from sweep.store import sweeps as store
from sweep.store.sweeps import SweepFolder, TrialRecord
from trainables.figures import EPSILON, EPSILON_PAPER

if TYPE_CHECKING:
    import pandas as pd


def summary(folder: SweepFolder, records: Sequence[TrialRecord]) -> dict[str, object]:
    """Every trial of a folder's `records` in their order, and the ids on the front."""
    baselines, priors = select.baselines(records), select.priors(records)
    return {
        "name": folder.name,
        "folder": str(folder.path),
        "running": folder.is_running,
        **folder.about(),
        "trials": [
            {
                "id": record.plan.id,
                **columns(record),
                "ser_ratio": select.ratio(record, "ser", baselines),
                "metrics": record.metrics,
                "config": record.plan.fields,
                "notes": list(record.notes),
                "violation": record.violation,
                "ser_of_prior": select.prior_ratio(record, priors),
            }
            for record in records
        ],
        "front": [record.plan.id for record in select.front(records)],
    }


def columns(record: TrialRecord) -> dict[str, object]:
    """The columns of a trial in every listing, for any task and axes."""
    return {
        "name": record.plan.name,
        "variant": record.plan.variant,
        "baseline": record.plan.baseline,
        "group": record.plan.group,
        "status": record.status,
        "reason": record.reason,
        "epochs_done": record.epochs_done,
        "epochs": record.plan.epochs,
        "seconds": record.seconds,
        "epsilon": select.value(record, EPSILON),
        "epsilon_paper": select.value(record, EPSILON_PAPER),
    }


def results(name: str, *, settings: Settings | None = None) -> pd.DataFrame:
    """One row a trial of a sweep, by its id: axes, status, privacy figures and metrics.

    The sweep may be running.

    Raises: InvalidInput for a name that no sweep has.
    """
    import pandas as pd

    folder = store.open_sweep((settings or from_environment()).home, name)
    rows = []
    for record in folder.records():
        head = columns(record)
        more = {
            name: value for name, value in record.metrics.items() if name not in head
        }
        own = {"trial": record.plan.id, "seed": record.plan.seed}
        rows.append(own | head | record.plan.values | more)
    return pd.DataFrame(rows, columns=None if rows else ["trial"]).set_index("trial")
