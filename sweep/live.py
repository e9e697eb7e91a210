"""The live table of a running sweep; where nobody watches a terminal, one line for each trial."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.live import Live
from rich.table import Table

from sweep.results_table import Progress, duration, figure, live_table

_ENDED = ("done", "stopped", "failed")
Watch = Callable[[str, Progress], None]


class View:
    """What is known of every trial's progress, shared by the threads that tell and that draw."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = threading.Lock()
        self._progress: dict[str, Progress] = {}
        self._started = time.monotonic()
        self._epochs_before: int | None = None

    def tell(self, trial_id: str, progress: Progress) -> None:
        """Something about a trial is new; figures that it lacks stay as they were."""
        with self._lock:
            before = self._progress.pop(trial_id, None)
            if before is not None and progress.validation[1] is None:
                progress = Progress(
                    name=progress.name,
                    status=progress.status,
                    epochs_done=progress.epochs_done,
                    epochs=progress.epochs,
                    validation=before.validation,
                    epsilon=before.epsilon,
                    seconds_per_epoch=before.seconds_per_epoch,
                )
            self._progress[trial_id] = progress

    def table(self, *, max_rows: int) -> Table:
        """The present state."""
        with self._lock:
            return live_table(
                self._name, dict(self._progress), summary=self._summary(), max_rows=max_rows
            )

    def __rich_console__(self, console: Console, options: object) -> Iterator[Table]:
        yield self.table(max_rows=max(5, console.height - 8))

    def _summary(self) -> str:
        rows = [row for row in self._progress.values() if row.status != "refused"]
        ended = sum(row.status in _ENDED for row in rows)
        total = sum(row.epochs for row in rows)
        # What ended will not train further, whatever it had left.
        done = sum(row.epochs if row.status in _ENDED else row.epochs_done for row in rows)
        if self._epochs_before is None:
            self._epochs_before = done
        elapsed = time.monotonic() - self._started
        text = f"{ended} of {len(rows)} trials, {duration(elapsed)}"
        if done > self._epochs_before:
            left = elapsed * (total - done) / (done - self._epochs_before)
            text += f", about {duration(left)} left"
        return text


@contextmanager
def watching(name: str, console: Console, *, quiet: bool) -> Iterator[Watch]:
    """Show progress on `console` while the block runs; `quiet` shows nothing."""
    view = View(name)
    if quiet:
        yield lambda trial_id, progress: None
    elif console.is_terminal:
        with Live(view, console=console, refresh_per_second=2, transient=True):
            yield view.tell
    else:
        yield _lines(console)


def _lines(console: Console) -> Watch:
    """A line when a trial ends."""
    ended: set[str] = set()

    def tell(trial_id: str, progress: Progress) -> None:
        if progress.status == "running" and progress.validation[1] is not None:
            last[trial_id] = progress
        if progress.status in _ENDED and trial_id not in ended:
            ended.add(trial_id)
            words, value = last.get(trial_id, progress).validation
            console.print(
                f"{progress.status}: {progress.name} ({progress.epochs_done} of {progress.epochs}"
                f" epochs, validation {words} {figure(value)})",
                markup=False,
                soft_wrap=True,
            )

    last: dict[str, Progress] = {}
    return tell
