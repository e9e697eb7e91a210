"""Weights & Biases: public figures alone, offline unless $WANDB_MODE is online.

Offline, a trial is a run in $SWEEP_HOME/wandb/NAME/wandb, which `wandb sync` sends later, and no
connection is opened. $WANDB_PROJECT (default: sweeps) and $WANDB_ENTITY select the project; a sweep
is a group. Console, code, command line, host and user are not recorded.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
from pathlib import Path
from typing import Any

from sweep.settings import Settings
from sweep.tracking.facts import Audience, TrialFacts
from sweep.tracking.follower import Follower
from sweep.tracking.protocol import Away, Tracker
from trainables.errors import InvalidInput

AUDIENCE: Audience = "public"
FOLDER = "wandb"
_MODES = ("offline", "online")
_INIT_SECONDS = 20


def check(settings: Settings) -> None:
    """Raises: InvalidInput where the package is missing or $WANDB_MODE is no mode of it."""
    if importlib.util.find_spec("wandb") is None:
        raise InvalidInput(
            "expected tracking without wandb, which is not installed: pip install"
            " 'dp-nlu-sweep[wandb]'"
        )
    if _mode() not in _MODES:
        raise InvalidInput(f"expected WANDB_MODE to be one of {', '.join(_MODES)}, got {_mode()!r}")


def open_tracker(settings: Settings, *, away: Away | None = None) -> Tracker:
    """Runs under the home; nothing is written or sent yet."""
    return Follower(Runs(), root=settings.home / FOLDER, audience=AUDIENCE)


class Runs:
    """A run for each trial; those of running trials are open."""

    def __init__(self) -> None:
        self._open: dict[str, tuple[Any, int]] = {}  # and the epochs written

    def write(self, trial: TrialFacts, *, place: Path) -> None:
        """See `follower.Writer`."""
        if trial.trial not in self._open:
            for folder in place.glob(f"wandb/offline-run-*-{_id(trial)}"):
                shutil.rmtree(folder)
            self._open[trial.trial] = (_init(trial, place), 0)
        run, num_written = self._open[trial.trial]
        for epoch in trial.epochs[num_written:]:
            run.log(dict(epoch.figures), step=epoch.step)
        run.summary.update({"status": trial.status, **dict.fromkeys(trial.infinite, "Infinity")})
        if trial.is_over:
            run.summary.update(trial.final)
            del self._open[trial.trial]
            run.finish(exit_code=int(trial.status == "failed"))
        else:
            self._open[trial.trial] = (run, len(trial.epochs))

    def close(self) -> None:
        """End the open runs, as unfinished ones, and W&B's process."""
        while self._open:
            self._open.popitem()[1][0].finish(exit_code=1)
        if (loaded := sys.modules.get("wandb")) is not None:
            loaded.teardown()


def _init(trial: TrialFacts, place: Path) -> Any:
    # Disable its error reports and its output.
    os.environ.setdefault("WANDB_ERROR_REPORTING", "false")
    os.environ.setdefault("WANDB_SILENT", "true")
    import wandb

    return wandb.init(
        id=_id(trial),
        name=trial.name,
        group=trial.sweep,
        project=os.environ.get("WANDB_PROJECT") or "sweeps",
        dir=str(place),
        config={**trial.params, "engine": trial.engine},
        resume="allow" if _mode() == "online" else None,
        reinit="create_new",
        settings=wandb.Settings(
            mode=_mode(),
            init_timeout=_INIT_SECONDS,
            console="off",
            silent=True,
            disable_code=True,
            disable_git=True,
            host="",
            save_code=False,
            x_disable_machine_info=True,
            x_disable_meta=True,
            x_disable_stats=True,
            x_save_requirements=False,
        ),
    )


def _mode() -> str:
    return os.environ.get("WANDB_MODE") or "offline"


def _id(trial: TrialFacts) -> str:
    return f"{trial.sweep_id[:8]}-{trial.trial}"
