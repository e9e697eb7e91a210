"""The loop of a running sweep, its driver, which answers every event of every trial, and the
executor without Ray.

The order of its steps makes a sweep safe: an epoch is written to disk first, and the ledger is
charged for the next epoch before this process permits it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace

from sweep import interrupts, phases
from sweep.results.privacy_cards import write_card
from sweep.results.tables.progress import Progress
from sweep.runtime import ray_session
from sweep.runtime.events import (
    GO_ON,
    Events,
    Interrupted,
    RayFailed,
    RunSettings,
    TrialEvent,
    TrialJob,
    Verdict,
)
from sweep.runtime.jobs import ChosenJobs, job_of
from sweep.runtime.worker_loop import LoneTeam, work
from sweep.spending.entries import PricedTrial
from sweep.spending.gate import SpendGate
from sweep.store.entries import Turn
from sweep.store.state import TrialStatus
from sweep.store.sweeps import SweepFolder, TrialRecord, storage_faults
from sweep.tracking.delivery import Delivery
from trainables import accountants, goals
from trainables.config import TrialConfig
from trainables.encoders.hub import ENCODER, require_files_of
from trainables.errors import InvalidData, InvalidInput, StorageFailed, SweepError
from trainables.figure_cache import FigureCache
from trainables.result import EpochReport, TrialResult
from trainables.system import checkpoint

Watch = Callable[[str, Progress], None]


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
    try:
        if settings.executor == "local":
            team = LoneTeam("cuda" if settings.gpus_per_worker else "cpu")
            desk = _Desk(list(jobs), events, stop_requested, source)
            work(desk.take, desk.send, team, settings)
            return
        phases.enter(phases.STARTING_RAY)
        with ray_session.session(settings):
            from sweep.runtime.tune import questions  # Ray reads its environment when imported

            phases.enter(phases.TRAINING)
            with closing(questions(jobs, settings, stop_requested, source)) as asked:
                for event, reply in asked:
                    reply(events(event))
    except _Refused as refused:
        raise refused.error from None
    except KeyboardInterrupt:
        raise Interrupted("the sweep was interrupted; its workers have stopped") from None


@contextmanager
def held(folder: SweepFolder) -> Iterator[Callable[[], bool]]:
    """Hold the lock of a sweep; yields whether it is to stop.

    Raises: InvalidInput where another process runs it; StorageFailed where the disk fails;
    SweepError where Ray does; Interrupted.
    """
    try:
        with (
            storage_faults(folder),
            folder.hold_lock(),
            interrupts.stop_when(lambda: folder.is_stop_requested) as is_stopped,
        ):
            yield is_stopped
    except Interrupted:
        raise Interrupted(f"interrupted; `sweep resume {folder.name}` continues") from None
    except RayFailed as problem:
        saved = f"finished epochs are saved: `sweep resume {folder.name}` continues"
        raise SweepError(f"{problem}; {saved}") from None


def run_pending(
    folder: SweepFolder,
    executed: RunSettings,
    driver: Driver,
    *,
    stop_requested: Callable[[], bool],
    source: ChosenJobs | None = None,
) -> None:
    """Run unfinished trials, and those that `source` chooses.

    Raises: as `run_trials`.
    """
    phases.enter(phases.TRAINING)
    records = folder.records(running=False)
    jobs = [job_of(record.plan, folder) for record in records if record.status.is_resumed]
    if source is not None and not jobs:
        # Ray need not start for a search that is over.
        first = source.next()
        source, jobs = (None, []) if first is None else (source, [first])
    with driver:
        run_trials(
            jobs, events=driver, settings=executed, stop_requested=stop_requested, source=source
        )


@dataclass
class Driver:
    """Called with each event, it returns whether the trial may continue. Slow work that can be
    deferred runs in a separate thread, until the end of its block.

    `watch` is called with each trial's progress, `rehearse` before the first charge of a trial; it
    raises InvalidInput where the trial would fail. Not for several threads.
    """

    gate: SpendGate
    folder: SweepFolder
    figures: FigureCache
    delivery: Delivery | None = None
    watch: Watch = lambda trial_id, progress: None
    rehearse: Callable[[TrialConfig], None] = lambda config: None

    def __post_init__(self) -> None:
        self._background = ThreadPoolExecutor(max_workers=1, thread_name_prefix="accounting")

    def __enter__(self) -> Driver:
        return self

    def __exit__(self, *error: object) -> None:
        self._background.shutdown(wait=False, cancel_futures=True)

    def __call__(self, event: TrialEvent) -> Verdict:
        """Record the event and answer it.

        Raises: StorageFailed where a failed disk paused a trial.
        """
        verdict = self._answer(event, self.gate.trials[event.trial_id])
        if self.delivery is not None:
            self.delivery.mark(event.trial_id)
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
        trial = priced.trial
        try:
            done = self._begin(priced)
            if done == 0:
                self.rehearse(trial.config)
        except InvalidInput as damage:  # before anything is charged; the other trials go on
            self._fail(priced, str(damage))
            return Verdict(str(damage))
        reason = self.gate.begin(trial.id, attempt=event.attempt, epochs_done=done)
        if reason is not None:
            self.folder.add(Turn(entry="denied", trial=trial.id, reason=reason))
            self._show(priced, TrialStatus.PLANNED)
            return Verdict(reason)
        if done == 0:
            anew = EpochReport(epochs_done=0, seconds=0.0, metrics={})
            self.folder.add_epoch(trial.id, anew, when=time.time())
        self._background.submit(self._foresee, priced, done)
        self._show(priced, TrialStatus.RUNNING)
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
        """Compute the figures of a trial's later epochs and card during training, because exact
        figures take seconds for which its workers would otherwise wait.
        """
        for epochs in range(epochs_done + 1, priced.mechanism.epochs + 1):
            accountants.bounds_after(priced.mechanism, epochs)
        accountant = priced.trial.config.privacy.accountant
        self.figures.account(priced.mechanism, accountant=accountant)

    def _epoch(self, priced: PricedTrial, event: TrialEvent, report: EpochReport) -> Verdict:
        spent = accountants.bounds_after(priced.mechanism, report.epochs_done)
        report = replace(report, metrics={**report.metrics, **spent})
        self.folder.add_epoch(event.trial_id, report, when=time.time())
        # A trial stopped by the scheduler spends no more, so nothing is charged.
        reason = self.gate.go_on(event.trial_id, epochs_done=report.epochs_done, stop=event.reason)
        self._show(priced, TrialStatus.RUNNING, seconds=report.seconds)
        return Verdict(reason or "")

    def _finish(self, priced: PricedTrial, event: TrialEvent, result: TrialResult) -> TrialStatus:
        """Write a trial's card, then its result, so that a trial with a result has a card."""
        # By the plan's id, which two draws of one configuration do not share.
        card, place = result.privacy, self.folder.trial_folder(event.trial_id)
        if card is not None:
            card = card.model_copy(update={"trial_id": event.trial_id})
            write_card(place, card)
        result = replace(result, trial_id=event.trial_id, privacy=card)
        self.folder.finish_trial(result, when=time.time(), reason=event.reason)
        checkpoint.remove(place)
        return TrialStatus.STOPPED if result.stopped_early else TrialStatus.DONE

    def _fail(self, priced: PricedTrial, reason: str) -> None:
        trial, now = priced.trial.id, time.time()
        self.folder.add(Turn(entry="failed", trial=trial, reason=reason, time=now))
        self._show(priced, TrialStatus.FAILED)

    def _show(
        self, priced: PricedTrial, status: TrialStatus, *, seconds: float | None = None
    ) -> None:
        record = self.folder.record(priced.trial, running=True)
        reason, shown = record.reason or "", progress_of(record)
        shown = replace(shown, status=status, reason=reason, seconds_per_epoch=seconds)
        self.watch(priced.trial.id, shown)


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


class _Refused(BaseException):
    """An error of the driver, which no trial takes for its own failure."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error = error


@dataclass
class _Desk:
    """Assigns jobs in order, in this process, one after another: the executor without Ray, with one
    process for each, whatever its `workers`.
    """

    jobs: list[TrialJob]
    events: Events
    stop_requested: Callable[[], bool]
    source: ChosenJobs | None
    why = ""  # why the present trial must stop

    def take(self) -> TrialJob | None:
        while True:
            job = self.jobs.pop(0) if self.jobs else None
            if job is None and self.source is not None:
                job = self.source.next()
            if job is None:
                return None
            self.why = ""
            verdict = self.send(TrialEvent(kind="started", trial_id=job.trial_id))
            if verdict.go_on:
                return replace(job, epochs_done=verdict.epochs_done)

    def send(self, event: TrialEvent) -> Verdict:
        if event.kind == "dying":  # and says how it failed
            return GO_ON
        if event.kind == "finished":
            event = replace(event, reason=self.why)
        try:
            verdict = self.events(event)
        except Exception as error:  # noqa: BLE001  raised again outside of the trial
            raise _Refused(error) from None
        if self.stop_requested():
            raise Interrupted("the sweep was interrupted")
        if event.kind == "epoch":
            self.why = verdict.reason
        return verdict
