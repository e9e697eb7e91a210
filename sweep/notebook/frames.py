"""A sweep and a plan as objects for a notebook: pandas frames out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from sweep.results import select
from sweep.results.export import export_trial
from sweep.results.summary import columns
from sweep.settings import Settings, from_environment
from sweep.store.sweeps import SweepFolder, TrialRecord
from trainables.figures import EPSILON, EPSILON_PAPER

if TYPE_CHECKING:
    import pandas as pd

    from sweep.planning.prepare import Prepared
    from sweep.results.standing import Standing
    from sweep.store.plans import Plan

_MOST_ROWS = 50  # of a table in a notebook; `trials()` has every one


class Sweep:
    """A sweep on disk. What it says is read anew at each call, so it may be running."""

    def __init__(self, folder: SweepFolder, *, settings: Settings | None = None) -> None:
        self.folder = folder
        self._settings = settings

    def __repr__(self) -> str:
        return f"Sweep({self.folder.name!r}, {len(self.folder.plan().trials)} trials)"

    def _repr_html_(self) -> str:
        """The table of `sweep show`, in a notebook."""
        from sweep.results.tables.curves import curves_of
        from sweep.results.tables.html import to_html
        from sweep.results.tables.trials import results_table

        table = results_table(
            self.name, self.records, max_rows=_MOST_ROWS, curves=curves_of(self.folder)
        )
        return to_html(table)

    @property
    def name(self) -> str:
        """The sweep's name."""
        return self.folder.name

    @property
    def settings(self) -> Settings:
        """The settings that it was opened with, else the environment's."""
        return self._settings or from_environment()

    @property
    def records(self) -> list[TrialRecord]:
        """Every trial, as the commands see it."""
        return self.folder.records()

    def trials(self) -> pd.DataFrame:
        """One row a trial, by id: its axes, status, privacy figures and metrics."""
        import pandas as pd

        rows = [
            {
                "trial": record.plan.id,
                **columns(record),
                **record.plan.values,
                **{name: v for name, v in record.metrics.items() if name not in columns(record)},
            }
            for record in self.records
        ]
        return pd.DataFrame(rows, columns=None if rows else ["trial"]).set_index("trial")

    def epochs(self, trial_id: str) -> pd.DataFrame:
        """One row for each finished epoch of a trial (its id or the beginning of it)."""
        import pandas as pd

        rows = self.folder.epochs(self.folder.plan_of(trial_id).id)
        flat = [
            {"epochs_done": row["epochs_done"], "seconds": row["seconds"], **row["metrics"]}
            for row in rows
        ]
        frame = pd.DataFrame(flat, columns=None if flat else ["epochs_done"])
        return frame.set_index("epochs_done").astype(float)

    def front(self) -> pd.DataFrame:
        """The rows of `trials()` on the front of SER (MAUVE for text) and epsilon."""
        ids = [record.plan.id for record in select.front(self.records)]
        return self.trials().loc[ids]

    def best(self, by: str | None = None, *, epsilon_max: float | None = None) -> list[TrialRecord]:
        """The best trials, as `sweep export --best` chooses them."""
        return select.choose(self.records, best=by, epsilon_max=epsilon_max)

    def importance(self, metric: str | None = None) -> pd.Series:
        """The share of each varied axis in what moved `metric` (default: what a sweep chooses by);
        empty where too little has finished. Its `attrs` have `metric`, `explained` (R²) and
        `num_configurations`.
        """
        import pandas as pd

        from sweep.results.importance import importance

        found = importance(self.records, metric)
        series = pd.Series({} if found is None else found.shares, dtype=float, name="share")
        if found is not None:
            series.attrs = {
                "metric": found.metric,
                "explained": found.explained,
                "num_configurations": found.num_configurations,
            }
        return series

    def standings(self) -> list[Standing]:
        """Which trials are indistinguishable from the best of each corpus, as `sweep show` says."""
        from sweep.results.comparison import standings_of

        return standings_of(self.folder, self.records)

    def advice(self) -> list[str]:
        """What to try next, in sentences."""
        from sweep.results.importance import importance
        from sweep.search.advice import advice

        return advice(self.folder.space(), self.records, importance(self.records), self.standings())

    def export(self, record: TrialRecord, folder: str | Path) -> Path:
        """Write a trial into a new folder, as `sweep export` does."""
        return export_trial(self.folder, record, Path(folder))


class Planned:
    """What a space would run, as `sweep plan` says it; nothing has run."""

    def __init__(self, prepared: Prepared) -> None:
        self.prepared = prepared

    def __repr__(self) -> str:
        made = self.plan
        return f"Planned({made.name!r}, {len(made.to_run)} to run, {len(made.refused)} refused)"

    def _repr_html_(self) -> str:
        """The table of `sweep plan`, in a notebook."""
        from sweep.results.tables.html import to_html
        from sweep.results.tables.plan import plan_table

        drawn_from = self.prepared.price is not None
        return to_html(plan_table(self.plan, drawn_from=drawn_from), sentences=self.notes)

    @property
    def plan(self) -> Plan:
        """The plan, as the commands have it."""
        return self.prepared.plan

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences that a person should see."""
        return self.prepared.notes

    def trials(self) -> pd.DataFrame:
        """One row a trial, by id: its axes, figures, estimated seconds, and why it is refused."""
        import pandas as pd

        figures = ("steps", "noise_multiplier", "delta", EPSILON, EPSILON_PAPER, "seconds")
        rows = [
            {
                "trial": trial.id,
                "name": trial.name,
                "variant": trial.variant,
                "baseline": trial.baseline,
                "group": trial.group,
                "runs": trial.runs,
                "reason": trial.reason,
                **trial.values,
                **{name: getattr(trial, name) for name in figures},
            }
            for trial in self.plan.trials
        ]
        columns = None if rows else ["trial", "name", *figures]
        return pd.DataFrame(rows, columns=columns).set_index("trial")
