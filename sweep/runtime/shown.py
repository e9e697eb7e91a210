"""Sweeps that are shown on a console from their planning to their end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console

from search_spaces.domains import num_seeds
from search_spaces.space import SearchSpace
from sweep import interrupts
from sweep.planning.plan import require_trials
from sweep.planning.prepare import prepare_space
from sweep.results.tables.progress import View
from sweep.runtime import live, runner
from sweep.runtime.runner import Run
from sweep.settings import Settings
from sweep.store import sweeps as store
from sweep.store.plans import Plan
from sweep.store.starting import starting
from sweep.store.sweeps import SweepFolder
from trainables.system import phase


def start(
    space: SearchSpace, settings: Settings, screen: Console, *, quiet: bool, **options: Any
) -> Run:
    """Plan a space and run it (`runner.start` with `options`). Notes are printed; `quiet` shows no
    progress.
    """
    with _marked(settings.home, space.name):
        with live.preparing(screen, quiet=quiet):
            prepared = prepare_space(space, settings=settings)
        require_trials(prepared.plan)
        for note in prepared.notes:
            screen.print(note, style="yellow", markup=False, soft_wrap=True)
        view = view_of(prepared.space, prepared.plan, settings.home)
        with live.watching(view, screen, quiet=quiet) as watch:
            return runner.start(prepared, settings, watch=watch, **options)


def resume(
    folder: SweepFolder,
    settings: Settings,
    screen: Console,
    *,
    quiet: bool,
    change: Callable[[], None] = lambda: None,
    **options: Any,
) -> Run:
    """Make the `change` of the space and go on (`runner.resume` with `options`)."""
    with _marked(settings.home, folder.name):
        change()
        view = view_of(folder.space(), folder.plan(), settings.home)
        with live.watching(view, screen, quiet=quiet) as watch:
            return runner.resume(folder, settings, watch=watch, **options)


@contextmanager
def _marked(home: Path, name: str) -> Iterator[None]:
    """What `sweep stop` and an interrupt find, until the sweep has a process that runs it."""
    with interrupts.explain(partial(store.how_to_go_on, home, name)), starting(home, name):
        yield


def view_of(space: SearchSpace, plan: Plan, home: Path) -> View:
    """The view of a sweep that is about to run."""
    folder = SweepFolder(home / space.name)
    return View(
        space.name,
        num_expected=num_expected(space, plan),
        phase_of=lambda trial_id: phase.of(folder.trial_folder(trial_id)),
    )


def num_expected(space: SearchSpace, plan: Plan) -> int:
    """Number of all trials of a sweep, including those that its search is still to choose; 1 for a
    private selection, the released one.
    """
    if space.search.is_private_selection:
        return 1
    if not plan.to_choose:
        return len(plan.to_run)
    chosen = sum(trial.baseline for trial in plan.to_run) + plan.to_choose * num_seeds(space)
    return max(len(plan.to_run), min(chosen, space.budget.trials or chosen))
