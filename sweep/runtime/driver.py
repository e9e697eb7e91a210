"""The loop of a running sweep, its driver, which answers every event of every trial, and the
executor without Ray.

The order of its steps makes a sweep safe: an epoch is written to disk first, and the ledger is
charged for the next epoch before this process permits it.
"""

import itertools
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field, replace

from sweep import interrupts, phases
from sweep.results.privacy_cards import write_card
from sweep.results.tables.progress import Progress
from sweep.runtime import ray_session
from sweep.runtime.events import (
    GO_ON,
    Events,
    Interrupted,
    RunSettings,
    TrialEvent,
    TrialJob,
    Verdict,
)
from sweep.runtime.jobs import ChosenJobs, job_of
from sweep.runtime.worker_loop import LoneTeam, work
from sweep.spending.gate import SpendGate
from sweep.spending.ledger import PricedTrial
from sweep.store.state import TrialStatus, Turn
from sweep.store.sweeps import SweepFolder
from sweep.tracking.delivery import Delivery
from trainables import accountants
from trainables.config import TrialConfig
from trainables.errors import InvalidData, InvalidInput, StorageFailed
from trainables.models._files import ENCODER, require_files_of
from trainables.result import EpochReport, TrialResult
from trainables.system import checkpoint

Watch = Callable[[str, Progress], object]


def run_trials(
    jobs: Sequence[TrialJob],
    *,
    events: Events,
    settings: RunSettings,
    source: ChosenJobs | None = None,
) -> None:
    """Run every job to its end, and the jobs that `source` chooses after the first, with `events`
    called in this thread.

    A failed trial is an event, not an exception. After an interruption or a crash, call this again
    with the unfinished jobs; trials resume from their checkpoints.

    Raises: InvalidInput where a trial's workers do not fit; Interrupted where the process is to
    stop (`interrupts`); SweepError where Ray fails; any exception of `events` and `source`. No
    worker is then left running.
    """
    if not jobs:
        return
    try:
        if settings.executor == "local":
            _run_here(jobs, events, settings, source)
            return
        phases.enter(phases.STARTING_RAY)
        with ray_session.session(settings):
            from sweep.runtime.tune import questions  # Ray reads its environment when imported

            phases.enter(phases.TRAINING)
            with closing(questions(jobs, settings, source)) as asked:
                for event, reply in asked:
                    reply(events(event))
    except _Refused as refused:
        raise refused.args[0] from None
    except KeyboardInterrupt:
        raise Interrupted("the sweep was interrupted; its workers have stopped") from None


@dataclass
class Driver:
    """Called with each event, it returns whether the trial may continue. `watch` is called with
    each trial's progress, `rehearse` before the first charge of a trial; it raises InvalidInput
    where the trial would fail. Not for several threads.
    """

    gate: SpendGate
    folder: SweepFolder
    delivery: Delivery | None = None
    watch: Watch = lambda trial_id, progress: None
    rehearse: Callable[[TrialConfig], None] = lambda config: None

    _background: ThreadPoolExecutor = field(
        default_factory=lambda: ThreadPoolExecutor(1, "accounting"), init=False
    )

    def run(self, settings: RunSettings, source: ChosenJobs | None = None) -> None:
        """Run unfinished trials, and those that `source` chooses. Raises: as `run_trials`."""
        phases.enter(phases.TRAINING)
        records = self.folder.records(running=False)
        jobs = [job_of(record.plan, self.folder) for record in records if record.status.is_resumed]
        if source is not None and not jobs:
            jobs = [*filter(None, [source.next()])]  # Ray need not start for a search that is over
        try:
            run_trials(jobs, events=self, settings=settings, source=source)
        finally:
            self._background.shutdown(cancel_futures=True)  # it writes into the folder

    def __call__(self, event: TrialEvent) -> Verdict:
        """Record and answer an event. Raises: StorageFailed where a failed disk paused a trial."""
        priced, verdict = self.gate.trials[event.trial_id], GO_ON
        kind, _, words = event.reason.partition(": ")
        if event.kind == "started":
            verdict = self._start(priced, event.attempt)
        elif event.report is not None:
            verdict = self._epoch(priced, event, event.report)
        elif event.result is not None:
            self._finish(event, event.result)
        elif kind == StorageFailed.__name__:
            raise StorageFailed(words)
        else:
            self._fail(event.trial_id, event.reason)
        record = self.folder.record(priced.trial, running=True)
        seconds = None if event.report is None else event.report.seconds
        is_denied = record.status is TrialStatus.INTERRUPTED  # it waits
        shown = replace(
            Progress.of(record),
            status=TrialStatus.PLANNED if is_denied else record.status,
            reason=record.reason or "",
            seconds_per_epoch=seconds,
        )
        self.watch(event.trial_id, shown)
        if self.delivery is not None:
            self.delivery.mark(event.trial_id)
        return verdict

    def _start(self, priced: PricedTrial, attempt: int) -> Verdict:
        trial = priced.trial
        try:
            done = self._begin(priced)
            if done == 0:
                self.rehearse(trial.config)
        except InvalidInput as damage:  # before anything is charged; the other trials go on
            self._fail(trial.id, str(damage))
            return Verdict(str(damage))
        reason = self.gate.begin(trial.id, attempt=attempt, epochs_done=done)
        if reason is not None:
            self.folder.add(Turn(entry="denied", trial=trial.id, reason=reason))
            return Verdict(reason)
        if done == 0:
            anew = EpochReport(epochs_done=0, seconds=0.0, metrics={})
            self.folder.add_epoch(trial.id, anew, when=time.time())
        self._background.submit(self._foresee, priced, done)
        return Verdict(epochs_done=done)

    def _begin(self, priced: PricedTrial) -> int:
        """Create the trial's folder; returns its number of finished epochs with a checkpoint.

        Raises: InvalidData for a damaged checkpoint, with the next step; InvalidInput where it was
        trained with another encoder.
        """
        place = self.folder.start_trial(priced.trial)
        if not checkpoint.is_there(place):
            return 0
        try:
            state = checkpoint.state_of(place)
        except InvalidData as damage:
            raise InvalidData(
                f"{damage}: restore the checkpoint from a copy, or remove it to restart the trial"
                " (its charges stay)"
            ) from None
        if digest := str(state.get(ENCODER, "")):
            model = priced.trial.config.model.model_dump(mode="json")
            require_files_of(model, digest, where=place / "checkpoint")
        return self.folder.state().trial(priced.trial.id).epochs_done

    def _foresee(self, priced: PricedTrial, epochs_done: int) -> None:
        """Compute the bounds of its epochs while it trains, because its workers would wait."""
        for epochs in range(epochs_done + 1, priced.mechanism.epochs + 1):
            accountants.bounds_after(priced.mechanism, epochs)

    def _epoch(self, priced: PricedTrial, event: TrialEvent, report: EpochReport) -> Verdict:
        spent = accountants.bounds_after(priced.mechanism, report.epochs_done)
        report = replace(report, metrics={**report.metrics, **spent})
        self.folder.add_epoch(event.trial_id, report, when=time.time())
        # A trial stopped by the scheduler spends no more, so nothing is charged.
        reason = self.gate.go_on(event.trial_id, epochs_done=report.epochs_done, stop=event.reason)
        return Verdict(reason or "")

    def _finish(self, event: TrialEvent, result: TrialResult) -> None:
        """Write a trial's card, then its result, so that a trial with a result has a card."""
        # By the plan's id, which two draws of one configuration do not share.
        card, place = result.privacy, self.folder.trial_folder(event.trial_id)
        if card is not None:
            card = card.model_copy(update={"trial_id": event.trial_id})
            write_card(place, card)
        result = replace(result, trial_id=event.trial_id, privacy=card)
        self.folder.finish_trial(result, when=time.time(), reason=event.reason)
        checkpoint.remove(place)

    def _fail(self, trial: str, reason: str) -> None:
        self.folder.add(Turn(entry="failed", trial=trial, reason=reason, time=time.time()))


class _Refused(BaseException):
    """An error of the driver, which no trial takes for its own failure."""


def _run_here(
    jobs: Sequence[TrialJob], events: Events, settings: RunSettings, source: ChosenJobs | None
) -> None:
    """Run the jobs in this process, one after another, whatever their `workers`."""
    why = ""  # the present trial must stop
    waiting = itertools.chain(jobs, iter(source.next, None) if source is not None else ())

    def take() -> TrialJob | None:
        nonlocal why
        for job in waiting:
            why = ""
            verdict = send(TrialEvent(kind="started", trial_id=job.trial_id))
            if verdict.go_on:
                return replace(job, epochs_done=verdict.epochs_done)
        return None

    def send(event: TrialEvent) -> Verdict:
        nonlocal why
        if event.kind == "dying":  # and says how it failed
            return GO_ON
        if event.kind == "finished":
            event = replace(event, reason=why)
        try:
            verdict = events(event)
        except Exception as error:  # noqa: BLE001  raised again outside of the trial
            raise _Refused(error) from None
        if interrupts.is_stopping():
            raise Interrupted("the sweep was interrupted")
        if event.kind == "epoch":
            why = verdict.reason
        return verdict

    work(take, send, LoneTeam("cuda" if settings.gpus_per_worker else "cpu"), settings)
