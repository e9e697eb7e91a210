"""The loop of a running sweep, and its driver, which answers every event of every trial.

The order of its steps makes a sweep safe: an epoch is written to disk first, and the ledger is
charged for the next epoch before this process permits it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import replace

from sweep.results import leakage
from sweep.results.privacy_cards import write_card
from sweep.results.tables.progress import Progress
from sweep.runtime.events import (
    GO_ON,
    Events,
    Interrupted,
    RunSettings,
    TrialEvent,
    TrialJob,
    Verdict,
)
from sweep.runtime.jobs import ChosenJobs
from sweep.spending.entries import PricedTrial
from sweep.spending.gate import SpendGate
from sweep.store.entries import Ran, Turn
from sweep.store.state import TrialStatus
from sweep.store.sweeps import SweepFolder, TrialRecord
from sweep.tracking.delivery import Delivery
from trainables import accountants, goals
from trainables.config import TrialConfig
from trainables.errors import InvalidData, InvalidInput, StorageFailed
from trainables.figure_cache import FigureCache
from trainables.result import EpochReport, TrialResult
from trainables.system import checkpoint

Watch = Callable[[str, Progress], None]
_CLOCK_SECONDS = 5.0


def run_trials(
    jobs: Sequence[TrialJob],
    *,
    events: Events,
    settings: RunSettings,
    stop_requested: Callable[[], bool] = lambda: False,
    source: ChosenJobs | None = None,
) -> None:
    """Run every job to its end, and the jobs that `source` chooses, with `events` called in this
    thread.

    A failed trial is an event, not an exception. After an interruption or a crash, call this again
    with the unfinished jobs; trials resume from their checkpoints.

    Raises: InvalidInput where a trial's workers do not fit; Interrupted on SIGINT, SIGTERM or once
    `stop_requested` returns True; SweepError where Ray fails; any exception of `events` and
    `source`. No worker is then left running.
    """
    if not jobs and source is None:
        return
    if settings.executor == "local":
        from sweep.runtime.local import questions
    else:
        from sweep.runtime.tune import questions
    try:
        with closing(questions(jobs, settings, stop_requested, source)) as asked:
            for event, reply in asked:
                reply(events(event))
    except KeyboardInterrupt:
        raise Interrupted("the sweep was interrupted; its workers have stopped") from None


class Driver:
    """Called with each event, it returns whether the trial may continue. In its block it records
    the sweep's wall-clock time periodically, so that a killed process loses seconds of it, however
    long an epoch is. Slow work that can be deferred runs in a separate thread.

    `watch` is called with each trial's progress, `rehearse` before the first charge of a trial; it
    raises InvalidInput where the trial would fail. Not for several threads.
    """

    def __init__(
        self,
        gate: SpendGate,
        folder: SweepFolder,
        *,
        figures: FigureCache,
        delivery: Delivery | None = None,
        watch: Watch = lambda trial_id, progress: None,
        rehearse: Callable[[TrialConfig], None] = lambda config: None,
    ) -> None:
        self.rehearse = rehearse
        self._gate = gate
        self._folder = folder
        self._figures = figures
        self._delivery = delivery
        self._watch = watch
        self._background = ThreadPoolExecutor(max_workers=1, thread_name_prefix="accounting")
        self._closing = threading.Event()
        self._clock = threading.Thread(target=self._keep_time, name="clock", daemon=True)

    def __enter__(self) -> Driver:
        self._clock.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._background.shutdown(wait=False, cancel_futures=True)
        self._closing.set()
        self._clock.join()

    def _keep_time(self) -> None:
        is_over = False
        while not is_over:
            is_over = self._closing.wait(_CLOCK_SECONDS)
            with suppress(OSError, InvalidData):  # the next event reports a failing disk
                self._folder.add(Ran(seconds=self._gate.seconds))

    def __call__(self, event: TrialEvent) -> Verdict:
        """Record the event and answer it.

        Raises: StorageFailed where a failed disk paused a trial, or the sweep's folder is missing.
        """
        if not self._folder.is_there:
            raise StorageFailed(f"the folder {self._folder.path} was removed")
        verdict = self._answer(event, self._gate.trials[event.trial_id])
        if self._delivery is not None:
            self._delivery.mark(event.trial_id)
        return verdict

    def _answer(self, event: TrialEvent, priced: PricedTrial) -> Verdict:
        if event.kind == "started":
            return self._start(priced, event)
        if event.report is not None:
            return self._epoch(priced, event, event.report)
        if event.result is not None:
            self._show(priced, self._finish(priced, event, event.result))
        else:
            kind, _, words = event.reason.partition(": ")
            if kind == StorageFailed.__name__:
                raise StorageFailed(words)
            self._fail(priced, event.reason)
        return GO_ON

    def _start(self, priced: PricedTrial, event: TrialEvent) -> Verdict:
        trial, done, reason = priced.trial, 0, self._gate.time_is_up()
        if reason is None:
            try:
                done = self._begin(priced)
                if done == 0:
                    self.rehearse(trial.config)
            except InvalidInput as damage:  # before anything is charged; the other trials go on
                self._fail(priced, str(damage))
                return Verdict(str(damage))
            reason = self._gate.begin(trial.id, attempt=event.attempt, epochs_done=done)
        if reason is not None:
            self._folder.add(Turn(entry="denied", trial=trial.id, reason=reason))
            self._show(priced, TrialStatus.PLANNED)
            return Verdict(reason)
        if done == 0:
            self._folder.begin_anew(trial.id, when=time.time())
        self._background.submit(self._foresee, priced, done)
        self._show(priced, TrialStatus.RUNNING)
        return Verdict(epochs_done=done)

    def _begin(self, priced: PricedTrial) -> int:
        """Create the trial's folder; returns its number of finished epochs with a checkpoint.

        Raises: InvalidData for a damaged checkpoint, with the next step.
        """
        place = self._folder.start_trial(priced.trial)
        if not checkpoint.is_there(place):
            return 0
        try:
            checkpoint.state_of(place)
        except InvalidData as damage:
            raise InvalidData(
                f"{damage}: restore the checkpoint from a copy, or remove it to restart the trial"
                " (its charges stay)"
            ) from None
        return self._folder.state().trial(priced.trial.id).epochs_done

    def _foresee(self, priced: PricedTrial, epochs_done: int) -> None:
        """Compute the figures of a trial's later epochs and card during training, because exact
        figures take seconds for which its workers would otherwise wait.
        """
        for epochs in range(epochs_done + 1, priced.mechanism.epochs + 1):
            accountants.bounds_after(priced.mechanism, epochs)
        accountant = priced.trial.config.privacy.accountant
        self._figures.account(priced.mechanism, accountant=accountant)

    def _epoch(self, priced: PricedTrial, event: TrialEvent, report: EpochReport) -> Verdict:
        spent = accountants.bounds_after(priced.mechanism, report.epochs_done)
        report = replace(report, metrics={**report.metrics, **spent})
        self._folder.add_epoch(event.trial_id, report, when=time.time())
        # A trial stopped by the scheduler spends no more, so nothing is charged.
        reason = self._gate.go_on(event.trial_id, epochs_done=report.epochs_done, stop=event.reason)
        self._show(priced, TrialStatus.RUNNING, seconds=report.seconds)
        return Verdict(reason or "")

    def _finish(self, priced: PricedTrial, event: TrialEvent, result: TrialResult) -> TrialStatus:
        """Write a trial's card, then its result, so that a trial with a result has a card. The
        checkpoint is kept for stopped trials only, which can be continued.
        """
        # By the plan's id, which two draws of one configuration do not share.
        card, place = result.privacy, self._folder.trial_folder(event.trial_id)
        if card is not None:
            card = card.model_copy(update={"trial_id": event.trial_id})
            write_card(place, card)
        result = replace(result, trial_id=event.trial_id, privacy=card)
        self._folder.finish_trial(result, when=time.time(), reason=event.reason)
        if not result.stopped_early:
            checkpoint.remove(place)
        if leakage.has_pictures(self._folder):
            self._background.submit(leakage.draw, place, priced.trial.name)
        return TrialStatus.STOPPED if result.stopped_early else TrialStatus.DONE

    def _fail(self, priced: PricedTrial, reason: str) -> None:
        trial, now = priced.trial.id, time.time()
        self._folder.add(Turn(entry="failed", trial=trial, reason=reason, time=now))
        self._show(priced, TrialStatus.FAILED)

    def _show(
        self, priced: PricedTrial, status: TrialStatus, *, seconds: float | None = None
    ) -> None:
        record = self._folder.record(priced.trial, running=True)
        shown = replace(progress_of(record), status=status, reason=record.reason or "")
        self._watch(priced.trial.id, replace(shown, seconds_per_epoch=seconds))


def progress_of(record: TrialRecord) -> Progress:
    """Progress of a trial that no process trains; one that is run again is planned."""
    return Progress(
        name=record.plan.name,
        status=TrialStatus.PLANNED if record.status.is_resumed else record.status,
        epochs_done=record.epochs_done,
        epochs=record.plan.epochs,
        plan=record.plan,
        validation=goals.validation_figure(record.metrics),
        epsilon=record.metrics.get("epsilon_spent"),
    )
