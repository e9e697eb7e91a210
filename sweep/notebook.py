"""Sweeps from Python: `run` one, `load` one that has run, pandas frames out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from search_spaces import space as spaces
from sweep import select, store
from sweep.export import export_trial
from sweep.settings import Settings, from_environment
from sweep.store import SweepFolder, TrialRecord

if TYPE_CHECKING:
    import pandas as pd


class Sweep:
    """A sweep on disk. What it says is read anew at each call, so it may be running."""

    def __init__(self, folder: SweepFolder) -> None:
        self.folder = folder

    def __repr__(self) -> str:
        return f"Sweep({self.folder.name!r}, {len(self.folder.plan().trials)} trials)"

    @property
    def name(self) -> str:
        """The sweep's name."""
        return self.folder.name

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
                "name": record.plan.name,
                "variant": record.plan.variant,
                "baseline": record.plan.baseline,
                "group": record.plan.group,
                "status": record.status,
                "reason": record.reason,
                "epochs_done": record.epochs_done,
                "seconds": record.seconds,
                **record.plan.values,
                **record.metrics,
                "epsilon": select.value(record, "epsilon"),
                "epsilon_paper": select.value(record, "epsilon_paper"),
            }
            for record in self.records
        ]
        return pd.DataFrame(rows).set_index("trial")

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

        from sweep.importance import importance

        found = importance(self.records, metric)
        series = pd.Series({} if found is None else found.shares, dtype=float, name="share")
        if found is not None:
            series.attrs = {
                "metric": found.metric,
                "explained": found.explained,
                "num_configurations": found.num_configurations,
            }
        return series

    def advice(self) -> list[str]:
        """What to try next, in sentences."""
        from sweep.importance import importance
        from sweep.search_advice import advice

        return advice(self.folder.space(), self.records, importance(self.records))

    def export(self, record: TrialRecord, folder: str | Path) -> Path:
        """Write a trial into a new folder, as `sweep export` does."""
        return export_trial(self.folder, record, Path(folder))


def run(
    space: str | Path | dict[str, Any],
    *,
    name: str | None = None,
    overrides: dict[str, Any] | None = None,
    settings: Settings | None = None,
    address: str | None = None,
) -> Sweep:
    """Run a space (a file, a shipped name or the document itself) to its end.

    Raises: InvalidInput for what is refused, before anything starts.
    """
    from sweep import runner
    from sweep.prepare import prepare_space

    chosen = settings or from_environment()
    found = spaces.from_source(space, overrides=overrides)
    if name is not None:
        found = spaces.renamed(found, name)
    prepared = prepare_space(found, settings=chosen)
    done = runner.start(prepared, chosen, command=["sweep.run"], address=address)
    return Sweep(done.folder)


def load(name: str, *, settings: Settings | None = None) -> Sweep:
    """A sweep that has run, or is running.

    Raises: InvalidInput for a name that no sweep has.
    """
    return Sweep(store.open_sweep((settings or from_environment()).home, name))
