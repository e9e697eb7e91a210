"""The trials of a sweep as a pandas frame."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sweep.results.summary import columns
from sweep.settings import Settings, from_environment
from sweep.store import sweeps as store

if TYPE_CHECKING:
    import pandas as pd


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
        more = {name: value for name, value in record.metrics.items() if name not in head}
        own = {"trial": record.plan.id, "seed": record.plan.seed}
        rows.append({**own, **head, **record.plan.values, **more})
    return pd.DataFrame(rows, columns=None if rows else ["trial"]).set_index("trial")
