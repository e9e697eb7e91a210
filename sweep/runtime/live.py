"""The live table of a running sweep, or occasional lines if the output is not a terminal."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from itertools import chain
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
from sweep.results.tables.fitting import FittedTable
from sweep.results.tables.progress import Progress, live_table
from sweep.runtime.execution import Watch
from sweep.store import sweeps
from sweep.store.plans import Plan
from sweep.store.status import TrialStatus
from trainables.formats import duration, number

_LINE_SECONDS = 60.0
_PREPARING = Guard("the line of progress")
# Phases in which a sweep may still be refused, which is one line.
_UNSAID = {"", phases.PLANNING, phases.CALIBRATING, phases.LOADING, phases.OPENING_MLFLOW}


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
        phase_of: Callable[[str], str] = lambda trial_id: "",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.phase = ""  # of the sweep as a whole; empty where those of its trials suffice
        self._name = name
        self._phase_of = phase_of
        self._num_expected = num_expected
        self._clock = clock
        self._lock = threading.Lock()
        self._progress: dict[str, Progress] = {}
        self._started = clock()
        self._course: list[tuple[float, float]] = []  # since a trial runs: finished epochs, time

    def update(self, trial_id: str, progress: Progress) -> tuple[Progress, Progress]:
        """Update the progress of a trial; missing figures keep their last values. Returns what was
        known before, if anything, and what is known now.
        """
        with self._lock:
            if not self._course and progress.status is TrialStatus.RUNNING:
                self._course.append((self._epochs()[0], self._clock()))
            before = self._progress.pop(trial_id, progress)
            by_epoch, found = before.by_epoch, progress.validation[1]
            if found is None:
                known = ("validation", "epsilon", "seconds_per_epoch")
                progress = replace(progress, **{name: getattr(before, name) for name in known})
            elif before.epochs_done < progress.epochs_done or not by_epoch:
                by_epoch = (*by_epoch, found)
            self._progress[trial_id] = now = replace(progress, by_epoch=by_epoch)
            if self._course:
                self._course.append((self._epochs()[0], self._clock()))
            return before, now

    def table(self, *, max_rows: int) -> FittedTable:
        """The present state."""
        with self._lock:
            rows = {
                trial_id: replace(row, phase=self._phase_of(trial_id))
                if row.status is TrialStatus.RUNNING
                else row
                for trial_id, row in self._progress.items()
            }
            done, *left = self._summary()
            words = ", ".join((done, duration(self._clock() - self._started), *left))
            summary = f"{self.phase}: {words}" if self.phase else words
            return live_table(self._name, rows, summary=summary, max_rows=max_rows)

    def summary(self) -> str:
        """The number of ended trials and the estimated remaining time, in words."""
        with self._lock:
            return ", ".join(self._summary())

    def _summary(self) -> Iterator[str]:
        rows = self._rows()
        ended = sum(row.status.is_over for row in rows)
        yield f"{ended} of {max(len(rows), self._num_expected)} done"
        done, total = self._epochs()
        # The speed is that of the later half of the epochs: the first one has what happens once,
        # such as a shadow model.
        if self._course and (before := self._course[0][0]) < done < total:
            half = (before + done) / 2
            by_then, when = next(each for each in reversed(self._course) if each[0] <= half)
            left = (self._clock() - when) * (total - done) / (done - by_then)
            yield f"about {duration(left)} left"

    def _rows(self) -> list[Progress]:
        return [row for row in self._progress.values() if row.status is not TrialStatus.REFUSED]

    def _epochs(self) -> tuple[float, float]:
        """Finished epochs, and those of all trials; one still to be chosen counts the mean."""
        rows = self._rows()
        total = sum(row.epochs for row in rows) * max(1.0, self._num_expected / (len(rows) or 1))
        # Most trials end early where a scheduler stops some, so those count as trained.
        done = sum(row.epochs if row.status.is_finished else row.epochs_done for row in rows)
        return done, total - sum(row.epochs - row.epochs_done for row in rows if row.trains_no_more)


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
    chosen = sum(trial.baseline for trial in plan.to_run) + plan.to_choose * num_seeds(space)
    return max(len(plan.to_run), min(chosen, space.budget.trials or chosen))


@contextmanager
def watching(view: View, console: Console, *, quiet: bool) -> Iterator[Watch]:
    """Show progress on `console` while the block runs, behind a guard; `quiet` shows nothing."""
    guard = Guard("the live table")
    if quiet:
        yield lambda trial_id, progress: None
    elif console.is_terminal:

        def drawn() -> FittedTable:
            return view.table(max_rows=console.height)

        with (
            _showing(drawn, console, guard),
            phases.listener(_guarded(guard, partial(setattr, view, "phase"))),
        ):
            yield _guarded(guard, view.update)
    else:
        said = set(_UNSAID)

        def say_once(words: str) -> None:
            if words not in said:
                said.add(words)
                console.print(f"{words} ...", markup=False, soft_wrap=True)

        with _open_screen(console), phases.listener(_guarded(guard, say_once)):
            yield _guarded(guard, lines(view, console))


@contextmanager
def preparing(console: Console, *, quiet: bool) -> Iterator[None]:
    """Show the phases before a sweep starts on `console`. `quiet` shows nothing, and neither does a
    pipe, where a refusal is one line.
    """
    if quiet or not console.is_terminal:
        yield
        return
    spinner = Spinner("dots", phases.PLANNING)
    with (
        _showing(lambda: spinner, console, _PREPARING),
        phases.listener(lambda text: spinner.update(text=text)),
    ):
        yield


@contextmanager
def _showing(shown: Callable[[], RenderableType], console: Console, guard: Guard) -> Iterator[None]:
    """Draw what is `shown` twice a second while the block runs."""
    size = console.size

    def draw() -> RenderableType:
        nonlocal size
        with guard:
            # A terminal of another size has wrapped the last frame again: its lines are unknown.
            if console.size != size:
                size = console.size
                console.control(Control.clear(), Control.home())
            # Drawn here, since the console would draw it outside of the guard; as high as the
            # screen, since the last frame could not be removed otherwise.
            lines = console.render_lines(shown(), new_lines=True)[: console.height - 1]
            return Segments(chain.from_iterable(lines))
        return ""

    live = Live(console=console, get_renderable=draw, refresh_per_second=2, transient=True)
    for name in ("start", "refresh", "stop"):  # also called by its own thread
        setattr(live, name, _guarded(guard, getattr(live, name)))
    with _open_screen(console), live:
        yield


def _guarded(guard: Guard, call: Callable[..., object]) -> Callable[..., None]:
    def called(*given: Any, **named: Any) -> None:
        with guard:
            call(*given, **named)

    return called


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
def _open_screen(console: Console) -> Iterator[None]:
    """Ignore errors of the screen inside the block, whose work matters more than what it shows."""
    before = console.file
    console.file = cast("IO[str]", _Screen(before))
    try:
        yield
    finally:
        console.file = before


def lines(view: View, console: Console, *, clock: Callable[[], float] = time.monotonic) -> Watch:
    """Print a line when a trial ends, and one after each minute without."""
    printed = clock()

    def print_line(trial_id: str, progress: Progress) -> None:
        nonlocal printed
        before, now = view.update(trial_id, progress)
        if now.status is TrialStatus.RUNNING:
            if clock() - printed < _LINE_SECONDS:
                return
        elif before.status is not TrialStatus.RUNNING or now.status is TrialStatus.PLANNED:
            return  # one that ended before this process is counted and not printed again
        printed = clock()
        words, value = now.validation
        known = f", validation {words} {number(value)}" if value is not None else ""
        why = f": {now.reason}" if now.reason else ""
        console.print(
            f"{now.status}: {now.name} ({now.epochs_done} of {now.epochs} epochs{known}){why};"
            f" {view.summary()}",
            markup=False,
            soft_wrap=True,
        )

    return print_line
