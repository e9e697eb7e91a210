"""Sweeps from Python: `plan`, `run`, `resume`, `load` and `compare`, pandas frames out.

Each does what the command of that name does, with the same objects, and refuses the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from search_spaces import space as spaces
from sweep.results import select
from sweep.results.export import export_trial
from sweep.settings import Settings, from_environment
from sweep.store import sweeps as store
from sweep.store.sweeps import SweepFolder, TrialRecord

if TYPE_CHECKING:
    import pandas as pd
    from rich.console import Console

    from sweep.planning.prepare import Prepared
    from sweep.results.comparison import Comparison
    from sweep.results.standing import Standing
    from sweep.runtime.runner import Run
    from sweep.store.plans import Plan


class Sweep:
    """A sweep on disk. What it says is read anew at each call, so it may be running."""

    def __init__(self, folder: SweepFolder, *, settings: Settings | None = None) -> None:
        self.folder = folder
        self._settings = settings

    def __repr__(self) -> str:
        return f"Sweep({self.folder.name!r}, {len(self.folder.plan().trials)} trials)"

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

    def standing(self) -> Standing | None:
        """Which trials cannot be told apart from the best, as `sweep show` says."""
        from sweep.results.comparison import standing_of

        return standing_of(self.folder, self.records)

    def advice(self) -> list[str]:
        """What to try next, in sentences."""
        from sweep.results.importance import importance
        from sweep.search.advice import advice

        return advice(self.folder.space(), self.records, importance(self.records), self.standing())

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

        figures = ("steps", "noise_multiplier", "delta", "epsilon", "epsilon_paper", "seconds")
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


def plan(
    space: str | Path | dict[str, Any],
    *,
    name: str | None = None,
    overrides: dict[str, Any] | None = None,
    settings: Settings | None = None,
) -> Planned:
    """What `run` would run, with every epsilon and every refusal; nothing is run or written.

    Raises: InvalidInput for a space that is wrong.
    """
    return Planned(_prepared(space, name, overrides, settings or from_environment()))


def run(
    space: str | Path | dict[str, Any],
    *,
    name: str | None = None,
    overrides: dict[str, Any] | None = None,
    budget_total: float | None = None,
    settings: Settings | None = None,
    address: str | None = None,
    quiet: bool = False,
) -> Sweep:
    """Run a space (a file, a shipped name or the document itself) to its end.

    Says on stderr how it goes, a line when a trial ends, unless `quiet`. `budget_total`: refuse it
    where all sweeps on its data would pass this epsilon together.

    Raises: InvalidInput for what is refused, before anything starts.
    """
    from sweep.runtime import runner
    from sweep.runtime.live import num_expected, watching

    chosen = settings or from_environment()
    prepared = _prepared(space, name, overrides, chosen)
    say = _say(quiet=quiet)
    for note in prepared.notes:
        say(note)
    expected = num_expected(prepared.space, prepared.plan)
    with watching(prepared.space.name, _screen(), quiet=quiet, num_expected=expected) as watch:
        done = runner.start(
            prepared,
            chosen,
            command=["sweep.run"],
            address=address,
            budget_total=budget_total,
            watch=watch,
        )
    return _ended(done, chosen, say)


def resume(
    sweep: str | Sweep,
    *,
    space: str | Path | None = None,
    accept_changes: bool = False,
    take_up: Sequence[str] = (),
    settings: Settings | None = None,
    address: str | None = None,
    quiet: bool = False,
) -> Sweep:
    """Go on with a sweep, as `sweep resume`: finished trials are kept, others go on from their last
    epoch. `space` is a changed file to go on with, `take_up` has ids of stopped trials to go on.

    Raises: InvalidInput for what is refused, such as a changed space without `accept_changes`.
    """
    from sweep.planning.prepare import extend
    from sweep.runtime import runner
    from sweep.runtime.live import num_expected, watching

    opened = sweep if isinstance(sweep, Sweep) else load(sweep, settings=settings)
    chosen = settings or opened.settings
    if space is not None:
        extend(opened.folder, str(space), settings=chosen, accept=accept_changes)
    say, folder = _say(quiet=quiet), opened.folder
    expected = num_expected(folder.space(), folder.plan())
    with watching(folder.name, _screen(), quiet=quiet, num_expected=expected) as watch:
        done = runner.resume(folder, chosen, take_up=take_up, address=address, watch=watch, say=say)
    return _ended(done, chosen, say)


def compare(
    first: str | Sweep,
    second: str | Sweep,
    *,
    epsilon_max: float | None = None,
    settings: Settings | None = None,
) -> Comparison:
    """The second against the first, as `sweep compare`: each a sweep, which its best trial stands
    for, or a text SWEEP:TRIAL. `frame()` of it has the figures side by side.

    Raises: InvalidInput where there is no such sweep or trial, or nothing has finished.
    """
    from sweep.results import comparison

    home = (settings or from_environment()).home
    sides = [
        comparison.side(one.folder.path.parent, one.name, epsilon_max=epsilon_max)
        if isinstance(one, Sweep)
        else comparison.side(home, one, epsilon_max=epsilon_max)
        for one in (first, second)
    ]
    return comparison.compare(*sides)


def load(name: str, *, settings: Settings | None = None) -> Sweep:
    """A sweep that has run, or is running.

    Raises: InvalidInput for a name that no sweep has.
    """
    chosen = settings or from_environment()
    return Sweep(store.open_sweep(chosen.home, name), settings=chosen)


def _prepared(
    space: str | Path | dict[str, Any],
    name: str | None,
    overrides: dict[str, Any] | None,
    settings: Settings,
) -> Prepared:
    from sweep.planning.prepare import prepare_space

    found = spaces.from_source(space, overrides=overrides)
    if name is not None:
        found = spaces.renamed(found, name)
    return prepare_space(found, settings=settings)


def _screen() -> Console:
    """Lines on stderr: a table that redraws itself is for terminals, not for cells."""
    from rich.console import Console

    return Console(stderr=True, force_terminal=False, force_jupyter=False, highlight=False)


def _say(*, quiet: bool) -> Callable[[str], None]:
    def say(text: str) -> None:
        if not quiet:
            _screen().print(text, markup=False, soft_wrap=True)

    return say


def _ended(done: Run, settings: Settings, say: Callable[[str], None]) -> Sweep:
    """The sweep, and what a person must know of how it ended."""
    from sweep.results.leakage_table import violations

    records = done.folder.records(running=False)
    for sentence in violations(records):
        say(sentence)
    counts = Counter(record.status for record in records)
    ended = ", ".join(f"{count} {status}" for status, count in counts.items())
    say(f"{done.folder.name}: {ended}; {done.folder.path}")
    if done.tracking_problem is not None:
        say(f"MLflow is behind ({done.tracking_problem}); `resume` delivers the rest.")
    return Sweep(done.folder, settings=settings)
