"""The data behind every figure of a report, as CSV. Infinity is `inf`, a missing value
is empty.
"""

from collections.abc import Mapping, Sequence

import pandas as pd

from dashboards.results import Sweep

Cell = str | float | int | bool | None
NAMES = ("trials.csv", "epochs.csv")
# Columns before those of the axes, and behind them.
_SETTINGS = (
    "name",
    "engine",
    "decay",
    "decay_tau",
    "max_grad_norm",
    "noise_multiplier",
)
_COURSE = ("baseline", "status", "reason", "epochs_done", "seconds", "on_front")


def files(sweep: Sweep) -> dict[str, str]:
    """Every non-empty table of a sweep by its file name."""
    made = dict(zip(NAMES, (trials(sweep), epochs(sweep)), strict=True))
    return {name: text(rows) for name, rows in made.items() if rows}


def trials(sweep: Sweep) -> list[dict[str, Cell]]:
    """One row a trial: its settings, its spend, and every figure by its name."""
    return [
        {
            "trial": trial.id,
            **{name: getattr(trial, name) for name in _SETTINGS},
            **{axis: trial.values.get(axis) for axis in sweep.axes},
            **{name: getattr(trial, name) for name in _COURSE},
            **trial.metrics,
            # The accounted figure is used where a trial has not been measured.
            "epsilon": trial.epsilon,
            "epsilon_paper": trial.epsilon_paper,
        }
        for trial in sweep.trials
    ]


def epochs(sweep: Sweep) -> list[dict[str, Cell]]:
    """One row for each epoch of each trial."""
    return [
        {"trial": trial.id, "name": trial.name, **row}
        for trial in sweep.trials
        for row in trial.history
    ]


def text(rows: Sequence[Mapping[str, Cell]]) -> str:
    """One or more rows as CSV.

    >>> text([{"a": 1.5, "b": None}, {"a": float("inf"), "b": "x, y", "c": True}])
    'a,b,c\\n1.5,,\\ninf,"x, y",true\\n'
    """
    frame = pd.DataFrame(
        [{name: _cell(value) for name, value in row.items()} for row in rows]
    )
    return str(frame.to_csv(index=False, lineterminator="\n"))


def _cell(value: Cell) -> Cell:
    # A spreadsheet interprets text with this beginning as a formula.
    if isinstance(value, str) and value[:1] in ("=", "+", "-", "@"):
        return f"'{value}"
    return str(value).lower() if isinstance(value, bool) else value
