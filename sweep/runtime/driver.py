"""The driver's side of a running sweep: it answers every event of every trial.

The order within an answer is what makes a sweep safe: an epoch is on the disk before anything else,
and the ledger has been charged for the next epoch before its permission leaves this process.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

from sweep.planning.packing import Packing
from sweep.results import leakage
from sweep.results.privacy_cards import write_card
from sweep.results.table import Progress
from sweep.runtime.events import TrialEvent
from sweep.spending.budget import EpsilonBudget, SweepBudget, spent_after
from sweep.spending.filter import admits
from sweep.spending.ledger import Entry, Ledger, attempt_key, entry_for, furthest
from sweep.spending.verdict import GO_ON, Verdict
from sweep.store.plans import PlannedTrial
from sweep.store.status import TrialStatus
from sweep.store.sweeps import SweepFolder
from sweep.tracking.delivery import Delivery
from trainables import goals
from trainables.accountants import RdpFilter, Release, epsilon_sweep, release
from trainables.errors import CannotAnalyze
from trainables.figure_cache import FigureCache
from trainables.privacy.mechanism import Mechanism
from trainables.result import EpochReport

_CLOCK_SECONDS = 5.0


@dataclass(frozen=True, kw_only=True)
class Paid:
    """A planned trial with what its epochs cost, and whose records they are about."""

    trial: PlannedTrial
    mechanism: Mechanism
    dataset: str
    dataset_name: str


@dataclass
class _Attempt:
    """The present attempt at a trial: entries of the ledger start at `first_epoch`."""

    number: int = 0
    first_epoch: int = 0
    earlier: list[Release] = field(default_factory=list)  # what earlier attempts have spent


class Driver:
    """Call it with each event; it answers whether the trial may go on. Safe for several threads.

    `watch` is told each trial's progress.
    """

    def __init__(
        self,
        folder: SweepFolder,
        trials: Mapping[str, Paid],
        *,
        packing: Packing,
        ledger: Ledger,
        delivery: Delivery | None,
        figures: FigureCache,
        total_filter: RdpFilter | None = None,
        budget_total: float | None = None,
        watch: Callable[[str, Progress], None] = lambda trial_id, progress: None,
    ) -> None:
        self._folder = folder
        self._trials = trials
        self._ledger = ledger
        self._delivery = delivery
        self._figures = figures
        self._watch = watch
        budget = folder.space().budget
        self._epsilon = EpsilonBudget(budget.epsilon, budget.accountant)
        self._sweep = SweepBudget(
            trials=budget.trials,
            seconds=budget.seconds,
            accelerator_hours=budget.accelerator_hours,
        )
        self._packing = packing
        records = folder.records(running=False)
        self._seconds_of = {record.plan.id: record.seconds for record in records}
        self._total = budget.total
        self._filter = total_filter
        self._budget_total = budget_total
        self._ended = {record.plan.id for record in records if record.status.is_over}
        self._lock = threading.RLock()
        self._name = folder.ledger_name
        self._attempts: dict[str, _Attempt] = {}
        self._furthest: dict[tuple[str, int, int], Entry] = {}
        for entry in furthest(e for e in ledger.entries() if e.sweep == self._name):
            self._furthest[attempt_key(entry)] = entry
        self._base = {
            trial_id: max(n for t, n, _ in self._furthest if t == trial_id)
            for trial_id in {t for t, *_ in self._furthest}
        }
        # What a trial's epochs and its card will say is worked out while it trains: exact figures
        # take seconds, in which its workers would otherwise wait for their next trial.
        self._ahead = ThreadPoolExecutor(max_workers=1, thread_name_prefix="accounting")
        self._seconds_before = folder.seconds_run()
        self._started = self._clock_written = time.monotonic()

    def __call__(self, event: TrialEvent) -> Verdict:
        """Write the event down and answer it."""
        with self._lock:
            verdict = self._answer(event)
            self._tick()
        if self._delivery is not None:
            self._delivery.mark(event.trial_id)
        return verdict

    @property
    def seconds(self) -> float:
        """Wall-clock of the sweep so far, earlier runs included."""
        return self._seconds_before + time.monotonic() - self._started

    @property
    def accelerator_hours(self) -> float:
        """Hours of one GPU that the trials have had so far; 0 without GPUs."""
        share = self._packing.gpus_per_worker / 3600
        return share * math.fsum(
            seconds * self._num_processes(trial_id)
            for trial_id, seconds in self._seconds_of.items()
            if trial_id in self._trials
        )

    def _num_processes(self, trial_id: str) -> int:
        config = self._trials[trial_id].trial.config
        return self._packing.processes(int(config["training"]["num_workers"]))

    def _permits_time(self) -> Verdict:
        hours = self.accelerator_hours if self._packing.gpus_per_worker else 0.0
        return self._sweep.permits_epoch(seconds=self.seconds, accelerator_hours=hours)

    def refusal(self, *others: Paid) -> str | None:
        """Why other trials may not begin: all their epochs, and all that is still to come of the
        trials that have begun, must fit into the sweep's total. None: they may.
        """
        asked = [paid for paid in others if not paid.trial.baseline]
        if self._total is None or not asked:
            return None
        with self._lock:
            unended = [
                release(other.mechanism)
                for other in (*self._trials.values(), *asked)
                if not other.trial.baseline and other.trial.id not in self._ended
            ]
            spent = [
                entry.release
                for (trial_id, *_), entry in self._furthest.items()
                if trial_id in self._ended and not self._is_baseline(trial_id)
            ]
        delta = min(paid.mechanism.delta for paid in asked)
        return self._over_total([*spent, *unended], delta=delta)

    def time_is_up(self) -> str | None:
        """Why no trial may begin any more, whatever it costs; None: one may."""
        verdict = self._permits_time()
        return None if verdict.go_on else verdict.reason

    def _is_baseline(self, trial_id: str) -> bool:
        """A trial that the plan no longer has is counted."""
        return trial_id in self._trials and self._trials[trial_id].trial.baseline

    def close(self) -> None:
        """Write down how long the sweep has run."""
        self._ahead.shutdown(wait=False, cancel_futures=True)
        self._folder.write_seconds_run(self.seconds)

    def _answer(self, event: TrialEvent) -> Verdict:
        paid = self._trials[event.trial_id]
        if event.kind == "started":
            return self._start(paid, event)
        if event.kind == "epoch":
            assert event.report is not None
            return self._epoch(paid, event, event.report)
        if event.kind == "finished":
            assert event.result is not None
            write_card(
                self._folder,
                event.result,
                attempt=self._attempts[event.trial_id].number,
                figures=self._figures,
            )
            self._folder.finish_trial(event.result, when=event.time, reason=event.reason)
            whole = event.result.seconds.get("total", 0.0)
            self._seconds_of[event.trial_id] = max(whole, self._seconds_of.get(event.trial_id, 0.0))
            status = TrialStatus.STOPPED if event.result.stopped_early else TrialStatus.DONE
            place = self._folder.trial_folder(event.trial_id)
            self._ahead.submit(leakage.draw, place, paid.trial.name)
        else:
            self._folder.fail_trial(event.trial_id, when=event.time, reason=event.reason)
            status = TrialStatus.FAILED
        self._ended.add(event.trial_id)
        self._show(paid, status, reason=event.reason)
        return GO_ON

    def _start(self, paid: Paid, event: TrialEvent) -> Verdict:
        trial = paid.trial
        verdict = self._permits_time()
        if not verdict.go_on:
            return self._deny(paid, verdict)
        place = self._folder.start_trial(trial)
        rows = self._folder.epochs(trial.id)
        kept = any(place.glob("checkpoint*")) or any(place.glob(".checkpoint*"))
        done = rows[-1]["epochs_done"] if rows and kept else 0
        number = self._base.get(trial.id, 0) + event.attempt
        attempt = _Attempt(number=number, first_epoch=done, earlier=self._repeated(trial.id, done))
        self._attempts[trial.id] = attempt
        verdict = self._permit(paid, attempt, done)
        if not verdict.go_on:
            return self._deny(paid, verdict)
        self._ahead.submit(self._look_ahead, paid, done)
        self._show(paid, TrialStatus.RUNNING)
        return verdict

    def _look_ahead(self, paid: Paid, done: int) -> None:
        """Work out what will be asked of a mechanism after epoch `done`: accountants remember it,
        and the trial finds its own figures in the cache.
        """
        for epochs in range(done + 1, paid.mechanism.epochs + 1):
            spent_after(paid.mechanism, epochs)
        accountant = paid.trial.config.get("privacy", {}).get("accountant")
        self._figures.account(paid.mechanism, accountant=accountant)

    def _deny(self, paid: Paid, verdict: Verdict) -> Verdict:
        self._folder.deny_trial(paid.trial.id, reason=verdict.reason)
        self._show(paid, TrialStatus.PLANNED)
        return verdict

    def _repeated(self, trial_id: str, done: int) -> list[Release]:
        """What earlier attempts have spent; nothing where they make, with one that goes on after
        `done` epochs, the trial as it was planned: every epoch once.
        """
        earlier = [entry for (t, *_), entry in self._furthest.items() if t == trial_id]
        paid = sorted(epoch for e in earlier for epoch in range(e.first_epoch, e.epochs))
        return [] if paid == list(range(done)) else [entry.release for entry in earlier]

    def continuation_refusal(self, trial_id: str) -> str | None:
        """Why a trial that was stopped may not go on from its last epoch; None: it may."""
        paid = self._trials[trial_id]
        rows = self._folder.epochs(trial_id)
        done = rows[-1]["epochs_done"] if rows else 0
        number = self._base.get(trial_id, 0) + 1
        attempt = _Attempt(number=number, first_epoch=done, earlier=self._repeated(trial_id, done))
        entry = self._entry(paid, attempt, done)
        verdict = self._permits_time()
        if verdict.go_on:
            verdict = self._within_epsilon(paid, attempt, entry)
        if verdict.go_on:
            verdict = self._within_total(paid, entry)
        if verdict.go_on and self._budget_total is not None and not paid.trial.baseline:
            self._ledger.require_within(
                paid.dataset, [entry.release], budget_total=self._budget_total
            )
        return None if verdict.go_on else verdict.reason

    def take_up(self, trial_id: str) -> None:
        """A trial that had ended goes on: it may spend again, and counts as one that has begun."""
        with self._lock:
            self._ended.discard(trial_id)

    def _epoch(self, paid: Paid, event: TrialEvent, report: EpochReport) -> Verdict:
        trial, done = paid.trial, report.epochs_done
        attempt = self._attempts[trial.id]
        # A checkpoint may be older than what was written down: what it replays is charged again.
        attempt.first_epoch = min(attempt.first_epoch, done)
        spent = spent_after(paid.mechanism, done)
        report = replace(report, metrics={**report.metrics, **spent})
        if self._folder.add_epoch(trial.id, report, when=event.time):
            before = self._seconds_of.get(trial.id, 0.0)
            self._seconds_of[trial.id] = before + report.seconds
        # What the scheduler has stopped spends no more, so nothing more is paid for.
        verdict = Verdict(False, event.reason) if event.reason else self._permits_time()
        if verdict.go_on:
            verdict = self._permit(paid, attempt, done)
        self._show(paid, TrialStatus.RUNNING, report=report)
        return verdict

    def _permit(self, paid: Paid, attempt: _Attempt, done: int) -> Verdict:
        """Whether the epoch after `done` may be spent; if so it is paid for when this returns."""
        if done >= paid.trial.epochs:
            return GO_ON
        entry = self._entry(paid, attempt, done)
        verdict = self._within_epsilon(paid, attempt, entry)
        if verdict.go_on:
            verdict = self._within_total(paid, entry)
        if verdict.go_on:
            verdict = self._charge(paid, entry)
        if verdict.go_on:
            self._furthest[attempt_key(entry)] = entry
        return verdict

    def _entry(self, paid: Paid, attempt: _Attempt, done: int) -> Entry:
        """What the ledger says of an attempt once the epoch after `done` is permitted."""
        return entry_for(
            paid.mechanism,
            dataset=paid.dataset,
            dataset_name=paid.dataset_name,
            sweep=self._name,
            trial=paid.trial.id,
            attempt=attempt.number,
            first_epoch=attempt.first_epoch,
            epochs=done + 1,
            baseline=paid.trial.baseline,
        )

    def _charge(self, paid: Paid, entry: Entry) -> Verdict:
        """Pay for an entry, unless all sweeps together would pass the data set's total."""
        if self._budget_total is None or paid.trial.baseline:
            self._ledger.charge(entry)
            return GO_ON
        reason = self._ledger.charge_within(entry, budget_total=self._budget_total)
        return GO_ON if reason is None else Verdict(False, reason)

    def _within_epsilon(self, paid: Paid, attempt: _Attempt, entry: Entry) -> Verdict:
        limit, trial = self._epsilon.limit, paid.trial
        if limit is None or trial.baseline:
            return GO_ON
        if attempt.earlier:
            # What an earlier attempt did after its last kept epoch is spent too.
            spent = epsilon_sweep([*attempt.earlier, entry.release], delta=entry.delta).epsilon
            if spent <= limit or self._epsilon.accountant == "paper":
                return GO_ON
            return Verdict(
                False, f"epsilon {spent:.4g} with earlier attempts exceeds budget.epsilon={limit:g}"
            )
        if trial.epsilon_budget is not None and trial.epsilon_budget <= limit:
            return GO_ON  # the plan has admitted all its epochs
        return self._epsilon.permits_next(paid.mechanism, entry.epochs - 1)

    def _within_total(self, paid: Paid, entry: Entry) -> Verdict:
        if self._total is None or paid.trial.baseline:
            return GO_ON
        counted = {**self._furthest, attempt_key(entry): entry}
        releases = [
            e.release for (trial_id, *_), e in counted.items() if not self._is_baseline(trial_id)
        ]
        delta = min(e.delta for e in counted.values())
        reason = self._over_total(releases, delta=delta)
        return GO_ON if reason is None else Verdict(False, reason)

    def _over_total(self, releases: Sequence[Release], *, delta: float) -> str | None:
        """Why releases do not fit into the sweep's total; None: they do."""
        assert self._total is not None
        if self._filter is not None:
            try:
                fits = admits(self._filter, releases)
            except CannotAnalyze as problem:
                return str(problem)
            return None if fits else f"no room left in budget.total={self._total:g} (filter)"
        together = epsilon_sweep(releases, delta=delta).epsilon
        if together > self._total:
            return f"epsilon {together:.4g} of all trials exceeds budget.total"
        return None

    def _tick(self) -> None:
        if time.monotonic() - self._clock_written > _CLOCK_SECONDS:
            self._clock_written = time.monotonic()
            self._folder.write_seconds_run(self.seconds)

    def _show(
        self,
        paid: Paid,
        status: TrialStatus,
        *,
        report: EpochReport | None = None,
        reason: str = "",
    ) -> None:
        metrics: Mapping[str, Any] = report.metrics if report is not None else {}
        rows = [] if report is not None else self._folder.epochs(paid.trial.id)
        self._watch(
            paid.trial.id,
            Progress(
                name=paid.trial.name,
                status=status,
                epochs_done=report.epochs_done if report else len(rows),
                epochs=paid.trial.epochs,
                validation=goals.validated(metrics),
                epsilon=metrics.get("epsilon_spent"),
                seconds_per_epoch=report.seconds if report else None,
                reason=reason,
            ),
        )
