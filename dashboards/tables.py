"""The data behind every figure of a report, as CSV. Infinity is `inf`, a missing value is empty."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence

from dashboards.results import Sweep

Cell = str | float | int | bool | None
NAMES = ("trials.csv", "epochs.csv")
# Columns before those of the axes, and behind them.
_SETTINGS = ("name", "engine", "decay", "decay_tau", "max_grad_norm", "noise_multiplier")
_COURSE = ("baseline", "status", "reason", "epochs_done", "seconds", "on_front")


def files(sweep: Sweep) -> dict[str, str]:
    """Every non-empty table of a sweep by its file name."""
    made = dict(zip(NAMES, (trials(sweep), epochs(sweep)), strict=True))
    return {name: text(rows) for name, rows in made.items() if rows}


def trials(sweep: Sweep) -> list[dict[str, Cell]]:
    """One row a trial: its settings, its spend, and every figure by its name."""
    names = sorted({name for trial in sweep.trials for name in trial.metrics})
    return [
        {
            "trial": trial.id,
            **{name: getattr(trial, name) for name in _SETTINGS},
            **{axis: trial.values.get(axis) for axis in sweep.axes},
            **{name: getattr(trial, name) for name in _COURSE},
            # The accounted figure is used where a trial has not been measured.
            **{name: trial.metrics.get(name) for name in names},
            "epsilon": trial.epsilon,
            "epsilon_paper": trial.epsilon_paper,
        }
        for trial in sweep.trials
    ]


def epochs(sweep: Sweep) -> list[dict[str, Cell]]:
    """One row for each epoch of each trial."""
    names = sorted({name for trial in sweep.trials for row in trial.history for name in row})
    return [
        {"trial": trial.id, "name": trial.name, **{name: row.get(name) for name in names}}
        for trial in sweep.trials
        for row in trial.history
    ]


def text(rows: Sequence[Mapping[str, Cell]]) -> str:
    """One or more rows of equal keys as CSV.

    >>> text([{"a": 1.5, "b": None}, {"a": math.inf, "b": "x, y"}])
    'a,b\\n1.5,\\ninf,"x, y"\\n'
    """
    out = io.StringIO()
    writer = csv.DictWriter(out, rows[0].keys(), lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: _cell(value) for name, value in row.items()} for row in rows)
    return out.getvalue()


def _cell(value: Cell) -> str:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    # A spreadsheet interprets text with this beginning as a formula.
    if isinstance(value, str) and value[:1] in ("=", "+", "-", "@"):
        return f"'{value}"
    return repr(value) if isinstance(value, float) else str(value)
