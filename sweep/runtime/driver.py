"""The driver of a running sweep, which answers every event of every trial.

The order of its steps makes a sweep safe: an epoch is written to disk first, and the ledger is
charged for the next epoch before this process permits it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from sweep.results.tables.progress import Progress
from sweep.runtime.events import GO_ON, TrialEvent, Verdict
from sweep.runtime.journal import Journal
from sweep.spending.budget import bounds_after
from sweep.spending.entries import PricedTrial
from sweep.spending.gate import SpendGate
from sweep.store.status import TrialStatus
from sweep.tracking.delivery import Delivery
from trainables import goals
from trainables.config import TrialConfig
from trainables.errors import InvalidInput, StorageFailed
from trainables.result import EpochReport


class Driver:
    """Called with each event, it returns whether the trial may continue. Safe for several threads.

    `watch` is called with each trial's progress, `rehearse` before the first charge of a trial; it
    raises InvalidInput where the trial would fail.
    """

    rehearse: Callable[[TrialConfig], None] | None = None

    def __init__(
        self,
        gate: SpendGate,
        journal: Journal,
        *,
        delivery: Delivery | None = None,
        watch: Callable[[str, Progress], None] = lambda trial_id, progress: None,
    ) -> None:
        self._gate = gate
        self._journal = journal
        self._delivery = delivery
        self._watch = watch
        self._lock = threading.RLock()

    def __call__(self, event: TrialEvent) -> Verdict:
        """Record the event and answer it.

        Raises: StorageFailed where a failed disk paused a trial, or the sweep's folder is missing.
        """
        self._journal.require_folder()
        with self._lock:
            verdict = self._answer(event)
        if self._delivery is not None:
            self._delivery.mark(event.trial_id)
        return verdict

    def _answer(self, event: TrialEvent) -> Verdict:
        if event.is_of_disk:
            raise StorageFailed(event.reason.partition(": ")[2])
        priced = self._gate.priced_trial(event.trial_id)
        if event.kind == "started":
            return self._start(priced, event)
        if event.kind == "epoch":
            assert event.report is not None
            return self._epoch(priced, event, event.report)
        status = self._finish(priced, event) if event.kind == "finished" else self._fail(event)
        self._gate.end(event.trial_id)
        # A scheduler ends a trial at its last epoch too, which stopped nothing.
        self._show(priced, status, reason="" if status is TrialStatus.DONE else event.reason)
        return GO_ON

    def _start(self, priced: PricedTrial, event: TrialEvent) -> Verdict:
        done, reason = 0, self._gate.time_is_up()
        if reason is None:
            try:
                done = self._journal.begin(priced.trial)
                if done == 0 and self.rehearse is not None:
                    self.rehearse(priced.trial.config)
            except InvalidInput as damage:  # before anything is charged; the other trials go on
                return self._refuse(priced, event, reason=str(damage))
            reason = self._gate.begin(event.trial_id, attempt=event.attempt, epochs_done=done)
        if reason is not None:
            self._journal.folder.deny_trial(event.trial_id, reason=reason)
            self._show(priced, TrialStatus.PLANNED, reason=reason)
            return Verdict(False, reason)
        if done == 0:
            self._journal.folder.begin_anew(event.trial_id, when=time.time())
        self._journal.foresee(priced, done)
        self._show(priced, TrialStatus.RUNNING)
        return Verdict(epochs_done=done)

    def _refuse(self, priced: PricedTrial, event: TrialEvent, *, reason: str) -> Verdict:
        """Fail a trial that cannot continue."""
        status = self._fail(replace(event, reason=reason))
        self._gate.end(event.trial_id)
        self._show(priced, status, reason=reason)
        return Verdict(False, reason)

    def _epoch(self, priced: PricedTrial, event: TrialEvent, report: EpochReport) -> Verdict:
        spent = bounds_after(priced.mechanism, report.epochs_done)
        report = replace(report, metrics={**report.metrics, **spent})
        if self._journal.folder.add_epoch(event.trial_id, report, when=event.time):
            self._gate.time.add(event.trial_id, report.seconds)
        # A trial stopped by the scheduler spends no more, so nothing is charged.
        reason = self._gate.go_on(event.trial_id, epochs_done=report.epochs_done, stop=event.reason)
        self._show(priced, TrialStatus.RUNNING, report=report)
        return GO_ON if reason is None else Verdict(False, reason)

    def _finish(self, priced: PricedTrial, event: TrialEvent) -> TrialStatus:
        assert event.result is not None
        self._journal.finish(
            priced.trial,
            # By the plan's id, which two draws of one configuration do not share.
            replace(event.result, trial_id=event.trial_id),
            attempt=self._gate.attempt_of(event.trial_id),
            when=event.time,
            reason=event.reason,
        )
        self._gate.time.add_rest(event.trial_id, event.result.seconds.get("total", 0.0))
        return TrialStatus.STOPPED if event.result.stopped_early else TrialStatus.DONE

    def _fail(self, event: TrialEvent) -> TrialStatus:
        self._journal.folder.fail_trial(event.trial_id, when=event.time, reason=event.reason)
        return TrialStatus.FAILED

    def _show(
        self,
        priced: PricedTrial,
        status: TrialStatus,
        *,
        report: EpochReport | None = None,
        reason: str = "",
    ) -> None:
        metrics: Mapping[str, Any] = report.metrics if report is not None else {}
        trial = priced.trial
        self._watch(
            trial.id,
            Progress(
                name=trial.name,
                status=status,
                epochs_done=report.epochs_done if report else self._journal.epochs_done(trial.id),
                epochs=trial.epochs,
                plan=trial,
                validation=goals.validation_figure(metrics),
                epsilon=metrics.get("epsilon_spent"),
                seconds_per_epoch=report.seconds if report else None,
                reason=reason,
            ),
        )
