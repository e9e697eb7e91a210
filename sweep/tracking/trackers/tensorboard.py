"""TensorBoard: event files under $SWEEP_HOME/tensorboard, a folder a trial; no server is needed.

Show with `tensorboard --logdir $SWEEP_HOME/tensorboard`: figures by epoch, final ones and settings
(HPARAMS). The files are for the curator only, like those of the sweep.
"""

from __future__ import annotations

import importlib.util
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from sweep.settings import Settings
from sweep.tracking.facts import Audience, TrialFacts
from sweep.tracking.follower import Follower
from sweep.tracking.protocol import Away, Tracker
from trainables.errors import InvalidInput

if TYPE_CHECKING:
    from tensorboardX import SummaryWriter

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
        self._open: dict[str, tuple[SummaryWriter, int]] = {}  # and the epochs written

    def write(self, trial: TrialFacts, *, place: Path) -> None:
        """See `follower.Writer`."""
        from tensorboardX import SummaryWriter, summary

        if trial.trial not in self._open:
            folder = place / _folder_name(trial)
            shutil.rmtree(folder, ignore_errors=True)
            self._open[trial.trial] = (SummaryWriter(str(folder)), 0)
        writer, num_written = self._open[trial.trial]
        for epoch in trial.epochs[num_written:]:
            for name, value in epoch.figures.items():
                writer.add_scalar(name, value, epoch.step, walltime=epoch.when)
        if trial.is_over:
            last = trial.epochs[-1] if trial.epochs else None
            step, when = (0, None) if last is None else (last.step, last.when)
            for name, value in trial.final.items():
                writer.add_scalar(name, value, step, walltime=when)
            for name in trial.infinite:
                writer.add_text(name, "infinite", step, walltime=when)
            writer.add_text("status", trial.status, step, walltime=when)
            known = {**trial.params, "engine": trial.engine}
            for part in summary.hparams(known, dict.fromkeys(trial.final, 0.0)):
                writer.file_writer.add_summary(part)
            del self._open[trial.trial]
            writer.close()
        else:
            writer.flush()
            self._open[trial.trial] = (writer, len(trial.epochs))

    def close(self) -> None:
        """Close all files."""
        while self._open:
            self._open.popitem()[1][0].close()


def _folder_name(trial: TrialFacts) -> str:
    """Axes first, which distinguish trials; the id makes it unique."""
    words = re.sub(r"[^A-Za-z0-9_.=+-]+", "_", trial.name).strip("_.")[:80]
    return f"{words}-{trial.trial}"
