"""The journal of a running sweep: the files of its trials, written in a safe order."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from sweep.results import leakage
from sweep.results.privacy_cards import write_card
from sweep.spending.budget import TimeSpent, bounds_after
from sweep.spending.entries import PricedTrial
from sweep.store.plans import PlannedTrial
from sweep.store.sweeps import SweepFolder
from trainables.errors import InvalidData, StorageFailed
from trainables.figure_cache import FigureCache
from trainables.result import TrialResult
from trainables.system import checkpoint

_CLOCK_SECONDS = 5.0


class Journal:
    """Writes into the folder of a sweep. Slow work that can be deferred (pictures, figures of
    later cards) runs in a separate thread. Not for several threads.
    """

    def __init__(self, folder: SweepFolder, *, figures: FigureCache) -> None:
        self.folder = folder
        self._figures = figures
        self._background = ThreadPoolExecutor(max_workers=1, thread_name_prefix="accounting")
        self._closing = threading.Event()
        self._clock: threading.Thread | None = None

    def require_folder(self) -> None:
        """Raises: StorageFailed where the sweep's folder was removed."""
        if not self.folder.is_there:
            raise StorageFailed(f"the folder {self.folder.path} was removed")

    def begin(self, trial: PlannedTrial) -> int:
        """Create the trial's folder; returns its number of finished epochs with a checkpoint.

        Raises: InvalidData for a damaged checkpoint, with the next step.
        """
        place = self.folder.start_trial(trial)
        if not checkpoint.is_there(place):
            return 0
        try:
            checkpoint.state_of(place)
        except InvalidData as damage:
            raise InvalidData(
                f"{damage}: restore the checkpoint from a copy, or remove it to restart the trial"
                " (its charges stay)"
            ) from None
        return self.epochs_done(trial.id)

    def epochs_done(self, trial_id: str) -> int:
        """Number of recorded epochs of a trial."""
        rows = self.folder.epochs(trial_id)
        return int(rows[-1]["epochs_done"]) if rows else 0

    def foresee(self, priced: PricedTrial, epochs_done: int) -> None:
        """Compute the figures of a trial's later epochs and card during training, because exact
        figures take seconds for which its workers would otherwise wait.
        """
        self._background.submit(self._foresee, priced, epochs_done)

    def _foresee(self, priced: PricedTrial, epochs_done: int) -> None:
        for epochs in range(epochs_done + 1, priced.mechanism.epochs + 1):
            bounds_after(priced.mechanism, epochs)
        accountant = priced.trial.config.privacy.accountant
        self._figures.account(priced.mechanism, accountant=accountant)

    def finish(
        self, trial: PlannedTrial, result: TrialResult, *, attempt: int, when: float, reason: str
    ) -> None:
        """Write a trial's card, then its result, so that a trial with a result has a card. The
        checkpoint is kept for stopped trials only, which can be continued.
        """
        write_card(self.folder, result, attempt=attempt, figures=self._figures)
        self.folder.finish_trial(result, when=when, reason=reason)
        place = self.folder.trial_folder(trial.id)
        if not result.stopped_early:
            checkpoint.remove(place)
        if leakage.has_pictures(self.folder):
            self._background.submit(leakage.draw, place, trial.name)

    def keep_time(self, spent: TimeSpent) -> None:
        """Record the sweep's wall-clock time periodically until `close`, so that a killed process
        loses seconds of it, however long an epoch is.
        """
        self._clock = threading.Thread(
            target=self._keep_time, args=(spent,), name="clock", daemon=True
        )
        self._clock.start()

    def _keep_time(self, spent: TimeSpent) -> None:
        while not self._closing.wait(_CLOCK_SECONDS):
            self._write_time(spent)

    def _write_time(self, spent: TimeSpent) -> None:
        with suppress(OSError, InvalidData):  # the next event reports a failing disk
            self.folder.write_seconds_run(spent.seconds)

    def close(self, spent: TimeSpent) -> None:
        """Record the wall-clock time where the disk permits; pending deferred work is dropped."""
        self._background.shutdown(wait=False, cancel_futures=True)
        self._closing.set()
        if self._clock is not None:
            self._clock.join()
        self._write_time(spent)
