"""A sweep from Python."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sweep.settings import Settings, from_environment
from sweep.store import sweeps as store
from sweep.store.plans import PlannedTrial
from trainables.errors import InvalidInput

if TYPE_CHECKING:
    import pandas as pd
    from rich.console import Console


@dataclass(frozen=True, kw_only=True)
class SweepPlan:
    """What a sweep would run and guarantee.

    `trials` would run, `refused` would not: each has a `reason`, its `epsilon` and its
    `config`. `to_choose` is the number of trials that an adaptive search adds while it
    runs.

    `epsilon` is the guarantee of all trials together at `delta`, if nothing else is
    released: by composition, of an adaptive search its `budget.total`, of a private
    selection that of the best trial alone. It is infinite where there is no bound, and
    None where no trial claims privacy. Baselines without noise are for the curator and
    do not count.

    `notes` are warnings and what is not installed, one sentence each.
    """

    name: str
    trials: tuple[PlannedTrial, ...]
    refused: tuple[PlannedTrial, ...]
    to_choose: int
    epsilon: float | None
    delta: float | None
    notes: tuple[str, ...]

    def to_frame(self) -> pd.DataFrame:
        """One row a trial by its id, the refused ones last with their `reason`."""
        import pandas as pd

        shown = ("id", "name", "steps", "noise_multiplier", "epsilon", "reason")
        trials = [*self.trials, *self.refused]
        rows = [{each: getattr(trial, each) for each in shown} for trial in trials]
        return pd.DataFrame(rows, columns=shown).set_index("id")


def plan(
    space: str | Path | dict[str, Any],
    *,
    name: str | None = None,
    overrides: dict[str, Any] | None = None,
    settings: Settings | None = None,
) -> SweepPlan:
    """What `run` would run. Nothing is trained or charged, and no sweep is created. The
    arguments are those of `run`.

    Raises: InvalidInput for what no trial could run, InvalidData for data that cannot
        be read. A plan whose trials are all refused is returned.
    """
    from sweep.planning.accounting import Accounting
    from sweep.planning.plan_total import total_of_plan
    from sweep.planning.prepare import prepare_space, read

    chosen = settings or from_environment()
    found = read(space, settings=chosen, overrides=overrides, name=name)
    prepared = prepare_space(found, settings=chosen)
    epsilon, delta = None, None
    if (price := prepared.price) is not None:
        epsilon, delta = price.epsilon_selected, price.delta
    elif prepared.space.search.is_adaptive:
        total = prepared.space.budget.total
        epsilon = math.inf if total is None else total
        delta = prepared.plan.filter_delta
    else:
        composed, _ = total_of_plan(prepared.plan, account=Accounting(chosen))
        if composed is not None:
            epsilon, delta = float(composed["epsilon"]), composed["delta"]
    return SweepPlan(
        name=prepared.plan.name,
        trials=prepared.plan.to_run,
        refused=prepared.plan.refused,
        to_choose=prepared.plan.to_choose,
        epsilon=epsilon,
        delta=delta,
        notes=prepared.notes,
    )


def run(
    space: str | Path | dict[str, Any],
    *,
    name: str | None = None,
    overrides: dict[str, Any] | None = None,
    budget_total: float | None = None,
    settings: Settings | None = None,
    address: str | None = None,
    resume: bool = False,
    quiet: bool = False,
) -> pd.DataFrame:
    """Run a space (a file, a shipped name or the document itself) to its end; its
    `results`, with the columns that are read most.

    `overrides` change its fields and axes, as `--set` does: `{"budget.epsilon": 8}`.

    Says on stderr how it goes, a line when a trial ends, unless `quiet`.
    `budget_total`: refuse it where all sweeps on its data would exceed this epsilon
    together. `resume`: go on with the sweep of that name where there is one, which was
    started with this space.

    Raises: InvalidInput for what is refused, before anything starts.
    """
    from sweep import progress_display
    from sweep.planning.prepare import read
    from sweep.results.frame import results

    chosen = settings or from_environment()
    found = read(space, settings=chosen, overrides=overrides, name=name)
    screen = _lines(quiet=quiet)
    folder = store.SweepFolder(chosen.home / found.name)
    if resume and folder.exists:
        before = folder.space()
        if (
            found != before and not before.search.is_private_selection
        ):  # whose noise was found
            raise InvalidInput(
                f"expected the space with which {found.name} was started, got another"
                " one: give it another name"
            )
        progress_display.resume(folder, chosen, screen, quiet=quiet, address=address)
    else:
        options = {
            "command": ["sweep.run"],
            "address": address,
            "budget_total": budget_total,
        }
        progress_display.start(found, chosen, screen, quiet=quiet, **options)
    return results(found.name, settings=chosen)


def extend(
    name: str,
    space: str | Path | dict[str, Any] | None = None,
    *,
    overrides: dict[str, Any] | None = None,
    reuse: bool = True,
    settings: Settings | None = None,
    address: str | None = None,
    quiet: bool = False,
) -> pd.DataFrame:
    """Add the points of a space to a sweep that is finished or stopped, and run them;
    the sweep's `results`. The column `taken_from` names the sweep that has trained a
    point, where it is another one.

    `space` is as for `run`, by default that of the sweep; `overrides` change its fields
    and axes: `{"training.epochs": 3}`, `{"axes.training.learning_rate": [0.1, 0.2]}`.
    With `reuse` points that other sweeps have trained on the same records are taken
    over, and nothing more is charged to the data set for them.

    Raises: InvalidInput for what is refused, before anything starts: a name that no
        sweep has, a sweep that runs, a private selection, another corpus, delta or
        search, a smaller total, no new point.
    """
    from sweep import progress_display
    from sweep.planning.prepare import read
    from sweep.results.frame import results

    chosen = settings or from_environment()
    folder = store.open_sweep(chosen.home, name)
    source = folder.space().document() if space is None else space
    found = read(source, settings=chosen, overrides=overrides, name=name)
    progress_display.extend(
        folder,
        found,
        chosen,
        _lines(quiet=quiet),
        quiet=quiet,
        reuse=reuse,
        address=address,
    )
    return results(name, settings=chosen)


def _lines(*, quiet: bool) -> Console:
    """Lines on stderr: a table that redraws itself is for terminals, not for a
    notebook's cells.
    """
    from rich.console import Console

    return Console(
        stderr=True,
        force_terminal=False,
        force_jupyter=False,
        highlight=False,
        quiet=quiet,
    )
