"""TensorBoard: event files under $SWEEP_HOME/tensorboard, a folder a trial; no server is needed.

Show with `tensorboard --logdir $SWEEP_HOME/tensorboard`: figures by epoch, final ones and settings
(HPARAMS). The files are for the curator only, like those of the sweep.
"""

from __future__ import annotations

import importlib.util
import re
import shutil
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from sweep.settings import Settings
from sweep.tracking.facts import Audience, TrialFacts
from sweep.tracking.follower import Follower
from sweep.tracking.protocol import Away, Tracker
from trainables.errors import InvalidInput

AUDIENCE: Audience = "curator"
FOLDER = "tensorboard"


def check(settings: Settings) -> None:
    """Raises: InvalidInput where the package is missing that writes event files."""
    if importlib.util.find_spec("tensorboardX") is None:
        raise InvalidInput(
            "expected tracking without tensorboard, since tensorboardX is not installed"
        )


def open_tracker(settings: Settings, *, away: Away | None = None) -> Tracker:
    """Event files under the home; nothing is written yet."""
    return Follower(EventFiles(), root=settings.home / FOLDER, audience=AUDIENCE)


class EventFiles:
    """Event files by trial; those of running trials are open."""

    def __init__(self) -> None:
        self._open: dict[str, tuple[_EventFile, int]] = {}  # and the epochs written

    def write(self, trial: TrialFacts, *, place: Path) -> None:
        """See `follower.Writer`. After an error the trial is not open."""
        file, num_written = self._open.pop(trial.trial, (None, 0))
        if file is None:
            folder = place / _folder_name(trial)
            shutil.rmtree(folder, ignore_errors=True)
            file = _EventFile(folder)
        try:
            for epoch in trial.epochs[num_written:]:
                file.add_figures(epoch.figures, step=epoch.step, when=epoch.when)
            if trial.is_over:
                file.add_end(trial)
            file.flush()
        except OSError:
            with suppress(OSError):
                file.close()
            raise
        if trial.is_over:
            file.close()
        else:
            self._open[trial.trial] = (file, len(trial.epochs))

    def close(self) -> None:
        """Close all files."""
        while self._open:
            self._open.popitem()[1][0].close()


class _EventFile:
    """One trial's event file. The library's `SummaryWriter` writes in a thread, which a full disk
    ends: its queue then waits for ever.
    """

    def __init__(self, folder: Path) -> None:
        from tensorboardX.event_file_writer import EventsWriter

        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._writer = EventsWriter(str(folder / "events"))

    def add_figures(self, figures: Mapping[str, float], *, step: int, when: float | None) -> None:
        from tensorboardX import summary

        for name, value in figures.items():
            self._add(summary.scalar(name, value), step=step, when=when)

    def add_end(self, trial: TrialFacts) -> None:
        """Final figures, status and settings."""
        from tensorboardX import summary

        last = trial.epochs[-1] if trial.epochs else None
        step, when = (0, None) if last is None else (last.step, last.when)
        self.add_figures(trial.final, step=step, when=when)
        for name in trial.infinite:
            self._add(summary.text(name, "infinite"), step=step, when=when)
        self._add(summary.text("status", trial.status), step=step, when=when)
        known = {**trial.params, "engine": trial.engine}
        for part in summary.hparams(known, dict.fromkeys(trial.final, 0.0)):
            self._add(part, step=0, when=None)

    def flush(self) -> None:
        self._writer.flush()

    def close(self) -> None:
        self._writer.close()

    def _add(self, part: Any, *, step: int, when: float | None) -> None:
        from tensorboardX.proto.event_pb2 import Event

        stamp = time.time() if when is None else when
        self._writer.write_event(Event(summary=part, step=step, wall_time=stamp))


def _folder_name(trial: TrialFacts) -> str:
    """Axes first, which distinguish trials; the id makes it unique."""
    words = re.sub(r"[^A-Za-z0-9_.=+-]+", "_", trial.name).strip("_.")[:80]
    return f"{words}-{trial.trial}"
