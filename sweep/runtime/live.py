"""The live table of a running sweep, or occasional lines if the output is not a terminal."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import IO, Any, cast

from rich.console import Console, RenderableType
from rich.control import Control
from rich.live import Live
from rich.segment import Segments
from rich.spinner import Spinner

from search_spaces.domains import num_seeds
from search_spaces.space import SearchSpace
from sweep import phases
from sweep.guard import Guard
from sweep.planning.prepare import Prepared
from sweep.results.tables.fitting import FittedTable
from sweep.results.tables.progress import Progress, live_table
from sweep.runtime import runner
from sweep.runtime.events import TRIAL_FUNCTION
from sweep.runtime.runner import Run
from sweep.settings import Settings
from sweep.store import sweeps
from sweep.store.plans import Plan
from sweep.store.status import TrialStatus
from sweep.store.sweeps import SweepFolder
from trainables.formats import duration, number

_LINE_SECONDS = 60.0
_PREPARING = Guard("the line of progress")
Watch = Callable[[str, Progress], None]
PhaseOf = Callable[[str], str]


class View:
    """The progress of every trial, shared by the updating code and the display.

    `num_expected`: number of all trials, including those that a search is still to choose.
    `phase_of`: the phase of a running trial outside of training, where known.
    """

    def __init__(
        self,
        name: str,
        *,
        num_expected: int = 0,
        phase_of: PhaseOf = lambda trial_id: "",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._name = name
        self._phase_of = phase_of
        self._phase = ""  # of the sweep as a whole
        self._num_expected = num_expected
        self._clock = clock
        self._lock = threading.Lock()
        self._progress: dict[str, Progress] = {}
        self._started = clock()
        self._course: list[tuple[float, float]] = []  # since a trial runs: finished epochs, time

    def enter(self, words: str) -> None:
        """Set the phase of the sweep; empty where those of its trials suffice."""
        with self._lock:
            self._phase = words

    def update(self, trial_id: str, progress: Progress) -> None:
        """Update the progress of a trial; missing figures keep their last values."""
        with self._lock:
            if not self._course and progress.status is TrialStatus.RUNNING:
                self._course.append((self._epochs()[0], self._clock()))
            before = self._progress.pop(trial_id, None)
            self._progress[trial_id] = _after(before, progress)
            if self._course:
                self._course.append((self._epochs()[0], self._clock()))

    def table(self, *, max_rows: int) -> FittedTable:
        """The present state."""
        with self._lock:
            rows = {
                trial_id: replace(row, phase=self._phase_of(trial_id))
                if row.status is TrialStatus.RUNNING
                else row
                for trial_id, row in self._progress.items()
            }
            summary = ": ".join(part for part in (self._phase, self._summary()) if part)
            return live_table(self._name, rows, summary=summary, max_rows=max_rows)

    def __rich_console__(self, console: Console, options: object) -> Iterator[FittedTable]:
        room = max(5, console.height - 2)
        rows = room
        table = self.table(max_rows=rows)
        while rows > 1 and (lines := len(console.render_lines(table))) > room:
            rows = max(1, min(rows - 1, rows * room // lines))  # a row may take several lines
            table = self.table(max_rows=rows)
        yield table

    def summary(self) -> str:
        """The number of ended trials and the estimated remaining time, in words."""
        with self._lock:
            return self._summary(elapsed=False)

    def _summary(self, *, elapsed: bool = True) -> str:
        rows = self._rows()
        ended = sum(row.status.is_over for row in rows)
        text = f"{ended} of {max(len(rows), self._num_expected)} done"
        if elapsed:
            text += f", {duration(self._clock() - self._started)}"
        left = self._seconds_left()
        return text if left is None else f"{text}, about {duration(left)} left"

    def _rows(self) -> list[Progress]:
        return [row for row in self._progress.values() if row.status is not TrialStatus.REFUSED]

    def _epochs(self) -> tuple[float, float]:
        """Finished epochs, and those of all trials; one still to be chosen counts the mean."""
        rows = self._rows()
        total = float(sum(row.epochs for row in rows))
        if rows:
            total *= max(1.0, self._num_expected / len(rows))
        # Most trials end early where a scheduler stops some, so those count as trained.
        done = sum(row.epochs if row.status.is_finished else row.epochs_done for row in rows)
        return done, total - sum(row.epochs - row.epochs_done for row in rows if row.trains_no_more)

    def _seconds_left(self) -> float | None:
        """Remaining seconds at the speed of the later half of the epochs; None if unknown or when
        nothing is left.

        The first half has what happens once: a shadow model is trained, caches are filled.
        """
        if not self._course:
            return None
        before = self._course[0][0]
        done, total = self._epochs()
        if done <= before or done >= total:
            return None
        half = (before + done) / 2
        by_then, when = next(each for each in reversed(self._course) if each[0] <= half)
        return (self._clock() - when) * (total - done) / (done - by_then)


def _after(before: Progress | None, progress: Progress) -> Progress:
    """The progress with missing figures from before, and with the validation figures by epoch."""
    if before is not None and progress.validation[1] is None:
        progress = replace(
            progress,
            validation=before.validation,
            epsilon=before.epsilon,
            seconds_per_epoch=before.seconds_per_epoch,
        )
    earlier = () if before is None else before.by_epoch
    found = progress.validation[1]
    is_new = before is None or before.epochs_done < progress.epochs_done or not earlier
    return replace(
        progress, by_epoch=(*earlier, found) if found is not None and is_new else earlier
    )


def view_of(space: SearchSpace, plan: Plan, home: Path) -> View:
    """The view of a sweep that is about to run."""
    phase_of = partial(sweeps.phase_of, home, space.name)
    return View(space.name, num_expected=num_expected(space, plan), phase_of=phase_of)


def num_expected(space: SearchSpace, plan: Plan) -> int:
    """Number of all trials of a sweep, including those that its search is still to choose; 1 for a
    private selection, the released one.
    """
    if space.search.is_private_selection:
        return 1
    if not plan.to_choose:
        return len(plan.to_run)
    fixed = sum(trial.baseline for trial in plan.to_run)
    number = fixed + plan.to_choose * num_seeds(space)
    if space.budget.trials is not None:
        number = min(number, space.budget.trials)
    return max(number, len(plan.to_run))


@contextmanager
def watching(view: View, console: Console, *, quiet: bool) -> Iterator[Watch]:
    """Show progress on `console` while the block runs, behind a guard; `quiet` shows nothing."""
    guard = Guard("the live table")

    def guarded(call: Callable[..., None]) -> Callable[..., None]:
        def called(*arguments: Any) -> None:
            with guard:
                call(*arguments)

        return called

    if quiet:
        yield lambda trial_id, progress: None
    elif console.is_terminal:
        draw = _clear_where_resized(view, console)
        live = _Live(guard, console=console, get_renderable=draw)
        with _ignore_screen_errors(console), phases.listener(guarded(view.enter)), live:
            yield guarded(view.update)
    else:
        with _ignore_screen_errors(console), phases.listener(guarded(_each_once(console))):
            yield guarded(lines(view, console))


class _Live(Live):
    """A live display whose failures, also those in its own thread, go to a guard."""

    def __init__(self, guard: Guard, **options: Any) -> None:
        self._guard = guard
        super().__init__(refresh_per_second=2, transient=True, **options)

    def get_renderable(self) -> RenderableType:
        """What is drawn now; nothing where that fails."""
        with self._guard:
            shown = super().get_renderable()
            # Drawn here, since the console would draw it outside of the guard.
            return Segments(list(self.console.render(shown)))
        return ""

    def start(self, refresh: bool = False) -> None:
        """Begin to draw."""
        with self._guard:
            super().start(refresh)

    def refresh(self) -> None:
        """Draw."""
        with self._guard:
            super().refresh()

    def stop(self) -> None:
        """End drawing."""
        with self._guard:
            super().stop()


@dataclass(frozen=True, kw_only=True)
class Execution:
    """Runs sweeps with their progress on `console`; `quiet` shows none."""

    console: Console
    quiet: bool = False
    address: str | None = None
    function: str = TRIAL_FUNCTION

    def start(
        self,
        prepared: Prepared,
        settings: Settings,
        *,
        command: Sequence[str],
        budget_total: float | None = None,
    ) -> Run:
        """See `runner.start`."""
        view = view_of(prepared.space, prepared.plan, settings.home)
        with watching(view, self.console, quiet=self.quiet) as watch:
            return runner.start(
                prepared,
                settings,
                command=command,
                address=self.address,
                budget_total=budget_total,
                function=self.function,
                watch=watch,
            )

    def resume(
        self,
        folder: SweepFolder,
        settings: Settings,
        *,
        take_up: Sequence[str] = (),
    ) -> Run:
        """See `runner.resume`."""
        view = view_of(folder.space(), folder.plan(), folder.path.parent)
        with watching(view, self.console, quiet=self.quiet) as watch:
            return runner.resume(
                folder,
                settings,
                take_up=take_up,
                address=self.address,
                function=self.function,
                watch=watch,
            )


class _Screen:
    """A file whose errors are ignored: a terminal that is closed, a pipe whose reader has ended."""

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
def _ignore_screen_errors(console: Console) -> Iterator[None]:
    """Ignore errors of the screen inside the block, whose work matters more than what it shows."""
    before = console.file
    console.file = cast("IO[str]", _Screen(before))
    try:
        yield
    finally:
        console.file = before


def _clear_where_resized(view: View, console: Console) -> Callable[[], View]:
    """The view, on a cleared screen where the terminal's size has changed, because it has wrapped
    the lines of the last frame again and their number is unknown.
    """
    size = console.size

    def draw() -> View:
        nonlocal size
        if console.size != size:
            size = console.size
            console.control(Control.clear(), Control.home())
        return view

    return draw


@contextmanager
def preparing(console: Console, *, quiet: bool) -> Iterator[None]:
    """Show the phases before a sweep starts on `console`. `quiet` shows nothing, and neither does a
    pipe, where a refusal is one line.
    """
    if quiet or not console.is_terminal:
        yield
    else:
        spinner = Spinner("dots", phases.PLANNING)
        live = _Live(_PREPARING, console=console, get_renderable=lambda: spinner)
        with (
            _ignore_screen_errors(console),
            live,
            phases.listener(lambda text: spinner.update(text=text)),
        ):
            yield


def _each_once(console: Console) -> Callable[[str], None]:
    """Prints a line when a phase is entered for the first time, except for phases in which a sweep
    may still be refused, so that a refusal is one line.
    """
    seen = {"", phases.PLANNING, phases.CALIBRATING, phases.LOADING, phases.OPENING_MLFLOW}

    def listen(words: str) -> None:
        if words not in seen:
            seen.add(words)
            console.print(f"{words} ...", markup=False, soft_wrap=True)

    return listen


def lines(view: View, console: Console, *, clock: Callable[[], float] = time.monotonic) -> Watch:
    """Print a line when a trial ends, and one after each minute without."""
    last: dict[str, Progress] = {}
    ran: set[str] = set()
    printed = clock()

    def print_line(trial_id: str, progress: Progress) -> None:
        nonlocal printed
        view.update(trial_id, progress)
        if progress.status is TrialStatus.RUNNING:
            ran.add(trial_id)
            if progress.validation[1] is not None:
                last[trial_id] = progress
            due = clock() - printed >= _LINE_SECONDS
        else:
            # Trials that ended before this process are counted and not printed again.
            due = trial_id in ran and progress.status is not TrialStatus.PLANNED
            ran.discard(trial_id)
        if due:
            printed = clock()
            words, value = last.get(trial_id, progress).validation
            known = f", validation {words} {number(value)}" if value is not None else ""
            why = f": {progress.reason}" if progress.reason else ""
            console.print(
                f"{progress.status}: {progress.name} ({progress.epochs_done} of {progress.epochs}"
                f" epochs{known}){why}; {view.summary()}",
                markup=False,
                soft_wrap=True,
            )

    return print_line
