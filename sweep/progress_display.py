"""Sweeps that are shown on a console from their planning to their end: a live table, or
occasional lines where the output is not a terminal.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from itertools import chain
from pathlib import Path
from typing import IO, Any, cast

from rich.console import Console, RenderableType
from rich.live import Live
from rich.segment import Segments
from rich.spinner import Spinner

from search_spaces.expansion import num_seeds
from search_spaces.space import SearchSpace
from sweep import interrupts, status
from sweep.best_effort import BestEffort
from sweep.planning.accounting import Accounting
from sweep.planning.extension import plan_extension
from sweep.planning.plan import require_trials
from sweep.planning.prepare import prepare_space
from sweep.results.tables.progress import Progress, View
from sweep.runtime import runner
from sweep.runtime.driver import Watch
from sweep.runtime.runner import Run
from sweep.settings import Settings
from sweep.store import sweeps as store
from sweep.store.plans import Plan
from sweep.store.state import TrialStatus
from sweep.store.sweeps import SweepFolder
from trainables.formats import number
from trainables.system import phase

_LINE_SECONDS = 60.0
_PREPARING = BestEffort("the line of progress")
# Phases in which a sweep may still be refused, which is one line.
_UNSAID = {"", status.PLANNING, status.CALIBRATING, status.LOADING}


def start(
    space: SearchSpace,
    settings: Settings,
    screen: Console,
    *,
    quiet: bool,
    **options: Any,
) -> Run:
    """Plan a space and run it to its end, as `runner.start` with `options`. Notes of
    the plan are printed on `screen`, then a live table, or lines where it is no
    terminal; `quiet` shows no progress.

    Raises: as `prepare_space` and `runner.start`.
    """
    interrupts.now.explain = partial(store.how_to_go_on, settings.home, space.name)
    with preparing(screen, quiet=quiet):
        prepared = prepare_space(space, settings=settings)
    require_trials(prepared.plan)
    for note in prepared.notes:
        screen.print(note, style="yellow", markup=False, soft_wrap=True)
    view = view_of(prepared.space, prepared.plan, settings.home)
    with watching(view, screen, quiet=quiet) as watch:
        return runner.start(prepared, settings, watch=watch, **options)


def resume(
    folder: SweepFolder,
    settings: Settings,
    screen: Console,
    *,
    quiet: bool,
    **options: Any,
) -> Run:
    """Go on with a sweep to its end, as `runner.resume` with `options`. Progress is
    shown on `screen` as by `start`.

    Raises: as `runner.resume`.
    """
    interrupts.now.explain = partial(store.how_to_go_on, settings.home, folder.name)
    view = view_of(folder.space(), folder.plan(), settings.home)
    with watching(view, screen, quiet=quiet) as watch:
        return runner.resume(folder, settings, watch=watch, **options)


def extend(
    folder: SweepFolder,
    space: SearchSpace,
    settings: Settings,
    screen: Console,
    *,
    quiet: bool,
    reuse: bool,
    **options: Any,
) -> Run:
    """Add the points of a space to a sweep and go on with it to its end, as
    `runner.extend` with `options`. Shown as by `start`.

    Raises: as `plan_extension` and `runner.extend`.
    """
    interrupts.now.explain = partial(store.how_to_go_on, settings.home, folder.name)
    with preparing(screen, quiet=quiet):
        extension = plan_extension(folder, space, Accounting(settings), reuse=reuse)
    for note in extension.prepared.notes:
        screen.print(note, style="yellow", markup=False, soft_wrap=True)
    view = view_of(extension.prepared.space, extension.prepared.plan, settings.home)
    with watching(view, screen, quiet=quiet) as watch:
        return runner.extend(folder, extension, settings, watch=watch, **options)


def view_of(space: SearchSpace, plan: Plan, home: Path) -> View:
    """The view of a sweep that is about to run."""
    folder = SweepFolder(home / space.name)
    return View(
        space.name,
        num_expected=num_expected(space, plan),
        phase_of=lambda trial_id: phase.of(folder.trial_folder(trial_id)),
    )


def num_expected(space: SearchSpace, plan: Plan) -> int:
    """Number of all trials of a sweep, including those that its search is still to
    choose; 1 for a private selection, the released one.
    """
    if space.search.is_private_selection:
        return 1
    if not plan.to_choose:
        return len(plan.to_run)
    baselines = sum(trial.baseline for trial in plan.to_run)
    chosen = baselines + plan.to_choose * num_seeds(space)
    return max(len(plan.to_run), min(chosen, space.budget.trials or chosen))


@contextmanager
def watching(view: View, console: Console, *, quiet: bool) -> Iterator[Watch]:
    """Show progress on `console` while the block runs, behind a guard; `quiet` shows
    nothing.
    """
    guard, said = BestEffort("the live table"), set(_UNSAID)

    def enter(words: str) -> None:
        view.phase = words
        if not console.is_terminal and words not in said:
            said.add(words)
            console.print(f"{words} ...", markup=False, soft_wrap=True)

    if quiet:
        yield lambda trial_id, progress: None
        return
    with status.listener(guard(enter)):
        if console.is_terminal:
            with _showing(lambda: view.table(max_rows=console.height), console, guard):
                yield guard(view.update)
        else:
            with _open_screen(console):
                yield guard(lines(view, console))


@contextmanager
def preparing(console: Console, *, quiet: bool) -> Iterator[None]:
    """Show on a terminal what is being prepared while the block runs, before a sweep
    starts. Other outputs get nothing, because a refusal is one line. `quiet` shows
    nothing.
    """
    if quiet or not console.is_terminal:
        yield
        return
    spinner = Spinner("dots", status.PLANNING)
    with (
        _showing(lambda: spinner, console, _PREPARING),
        status.listener(lambda text: spinner.update(text=text)),
    ):
        yield


@contextmanager
def _showing(
    shown: Callable[[], RenderableType], console: Console, guard: BestEffort
) -> Iterator[None]:
    """Draw what is `shown` twice a second while the block runs."""

    def draw() -> RenderableType:
        with guard:
            # Drawn here, since the console would draw it outside of the guard; as high
            # as the screen, since the last frame could not be removed otherwise.
            lines = console.render_lines(shown(), new_lines=True)[: console.height - 1]
            return Segments(chain.from_iterable(lines))
        return ""

    live = Live(
        console=console, get_renderable=draw, refresh_per_second=2, transient=True
    )
    for name in ("start", "refresh", "stop"):  # also called by its own thread
        setattr(live, name, guard(getattr(live, name)))
    with _open_screen(console), live:
        yield


class _Screen:
    """A file whose errors are ignored: a terminal that is closed, a pipe whose reader
    has ended.
    """

    def __init__(self, file: IO[str]) -> None:
        self._file = file

    def write(self, text: str) -> int:
        with suppress(OSError):
            self._file.write(text)
        return len(text)

    def flush(self) -> None:
        with suppress(OSError):
            self._file.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


@contextmanager
def _open_screen(console: Console) -> Iterator[None]:
    """Ignore errors of the screen inside the block, whose work matters more than what
    it shows.
    """
    before = console.file
    console.file = cast("IO[str]", _Screen(before))
    try:
        yield
    finally:
        console.file = before


def lines(
    view: View, console: Console, *, clock: Callable[[], float] = time.monotonic
) -> Watch:
    """Print a line when a trial ends, and one after each minute without."""
    printed = clock()

    def print_line(trial_id: str, progress: Progress) -> None:
        nonlocal printed
        before, now = view.update(trial_id, progress)
        if now.status is TrialStatus.RUNNING:
            if clock() - printed < _LINE_SECONDS:
                return
        elif (
            before.status is not TrialStatus.RUNNING
            or now.status is TrialStatus.PLANNED
        ):
            # one that ended before this process is counted and not printed again
            return
        printed = clock()
        words, value = now.validation
        known = f", validation {words} {number(value)}" if value is not None else ""
        why = f": {now.reason}" if now.reason else ""
        console.print(
            f"{now.status}: {now.name} ({now.epochs_done} of {now.epochs}"
            f" epochs{known}){why}; {view.summary()}",
            markup=False,
            soft_wrap=True,
        )

    return print_line
