"""The loop of a running sweep, its driver, which answers every event of every trial,
and the executor without Ray.

The order of its steps makes a sweep safe: an epoch is written to disk first, and the
ledger is charged for the next epoch before this process permits it.
"""

import itertools
import math
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field, replace

from sweep import interrupts, status
from sweep.planning.order import longest_first
from sweep.results.privacy_cards import write_card
from sweep.results.tables.progress import Progress
from sweep.runtime import ray_session
from sweep.runtime.events import (
    GO_ON,
    MAX_FAILURES,
    Events,
    Interrupted,
    PastEpoch,
    RunSettings,
    TrialEvent,
    TrialJob,
    Verdict,
)
from sweep.runtime.jobs import ChosenJobs, job_of
from sweep.runtime.worker_loop import LoneTeam, work
from sweep.spending.gate import SpendGate
from sweep.spending.ledger import PricedTrial
from sweep.store import manifest
from sweep.store.plans import PlannedTrial
from sweep.store.state import StatusChanged, TrialStatus
from sweep.store.sweeps import SweepFolder, TrialRecord
from sweep.tracking.delivery import Delivery
from trainables import formats
from trainables.cards.card import with_starts
from trainables.config.trial import TrialConfig
from trainables.dp.accounting import choose
from trainables.errors import InvalidData, InvalidInput, MachineFailed, StorageFailed
from trainables.figures import RISKS
from trainables.models.encoders.named_files import ENCODER, require_files_of
from trainables.result import EpochReport, TrialResult
from trainables.system import checkpoint

Watch = Callable[[str, Progress], object]
_COMPOSED = (
    "epsilon",
    "epsilon_paper",
    "epsilon_rdp",
    "epsilon_replace_one",
    *RISKS,
)


def run_trials(
    jobs: Sequence[TrialJob],
    *,
    events: Events,
    settings: RunSettings,
    source: ChosenJobs | None = None,
    past: Sequence[PastEpoch] = (),
) -> None:
    """Run every job to its end, and the jobs that `source` chooses after the first,
    with `events` called in this thread. A scheduler counts the epochs of the `past`,
    which are in their order.

    A failed trial is an event, not an exception. After an interruption or a crash, call
    this again with the unfinished jobs; trials resume from their checkpoints.

    Raises: InvalidInput where a trial's workers do not fit; Interrupted where the
    process is to stop (`interrupts`); SweepError where Ray fails; any exception of
    `events` and `source`. No worker is then left running.
    """
    if not jobs:
        return
    try:
        if settings.executor == "local":
            _run_here(jobs, events, settings, source)
            return
        status.enter(status.STARTING_RAY)
        with ray_session.session(settings):
            # Ray reads its environment when imported.
            from sweep.runtime.tune import questions

            status.enter(status.TRAINING)
            with closing(questions(jobs, settings, source, past)) as asked:
                for event, reply in asked:
                    reply(events(event))
    except _Refused as refused:
        raise refused.args[0] from None
    except KeyboardInterrupt:
        raise Interrupted(
            "the sweep was interrupted; its workers have stopped"
        ) from None


@dataclass
class Driver:
    """Called with each event, it returns whether the trial may continue. `watch` is
    called with each trial's progress, `dry_run` before the first charge of a trial; it
    raises InvalidInput where the trial would fail. `notice` gets a line for a trial
    whose workers have died. `is_resumed` chooses what `run` runs. Not for several
    threads.
    """

    gate: SpendGate
    folder: SweepFolder
    delivery: Delivery | None = None
    watch: Watch = lambda trial_id, progress: None
    dry_run: Callable[[TrialConfig], None] = lambda config: None
    notice: Callable[[str], object] = lambda line: None
    is_resumed: Callable[[TrialRecord], bool] = lambda record: record.status.is_resumed

    _background: ThreadPoolExecutor = field(
        default_factory=lambda: ThreadPoolExecutor(1, "accounting"), init=False
    )

    def run(self, settings: RunSettings, source: ChosenJobs | None = None) -> None:
        """Run unfinished trials, and those that `source` chooses. Raises: as
        `run_trials`.
        """
        status.enter(status.TRAINING)
        trials = [
            record.plan
            for record in self.folder.records(running=False)
            if self.is_resumed(record)
        ]
        # Of sealed trials the order would say which were drawn.
        if settings.executor != "local" and not settings.sealed:
            trials = longest_first(trials)
        jobs = [job_of(trial, self.folder) for trial in trials]
        # Ray need not start for a search that is over.
        if not jobs and source is not None and (job := source.next()) is not None:
            jobs = [job]
        try:
            run_trials(
                jobs, events=self, settings=settings, source=source, past=self._past()
            )
        finally:
            self._background.shutdown(cancel_futures=True)  # it writes into the folder

    def _past(self) -> list[PastEpoch]:
        """The epochs on disk, in the order in which they ended."""
        state = self.folder.state()
        rows = [(name, row) for name in state.planned for row in state.trial(name).rows]
        return [
            PastEpoch(
                trial_id=name, epochs_done=row["epochs_done"], metrics=row["metrics"]
            )
            for name, row in sorted(rows, key=lambda each: each[1]["time"])
        ]

    def __call__(self, event: TrialEvent) -> Verdict:
        """Record and answer an event. Raises: StorageFailed where a failed disk paused
        a trial.
        """
        priced, verdict = self.gate.trials[event.trial_id], GO_ON
        kind, _, words = event.reason.partition(": ")
        if event.kind == "started":
            verdict = self._start(priced, event.attempt)
            if event.reason and verdict.go_on:
                self.notice(_of_a_death(event, priced.trial, verdict.epochs_done))
        elif event.report is not None:
            verdict = self._epoch(priced, event, event.report)
        elif event.result is not None:
            self._finish(priced, event, event.result)
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
        # Before anything is charged; the other trials go on.
        try:
            done = self._begin(priced)
        except InvalidInput as damage:
            return self._fail(trial.id, f"{MachineFailed.__name__}: {damage}")
        try:
            if done == 0:
                self.dry_run(trial.config)
        except InvalidInput as problem:
            return self._fail(trial.id, str(problem))
        stop = self._stop_after(trial.id, done)
        reason = self.gate.begin(trial.id, attempt=attempt, epochs_done=done, stop=stop)
        if reason is not None:
            self.folder.add(
                StatusChanged(entry="denied", trial=trial.id, reason=reason)
            )
            return Verdict(reason)
        if done == 0:
            anew = EpochReport(epochs_done=0, seconds=0.0, metrics={})
            self.folder.add_epoch(trial.id, anew, when=time.time())
        self._background.submit(self._foresee, priced, done)
        return Verdict(epochs_done=done)

    def _begin(self, priced: PricedTrial) -> int:
        """Create the trial's folder; returns its number of finished epochs with a
        checkpoint. A trial whose folder was removed begins anew.

        Raises: InvalidData for a damaged or lost checkpoint, with the next step;
        InvalidInput where it was trained with another encoder.
        """
        place = self.folder.trial_folder(priced.trial.id)
        is_new = not place.exists()
        done = self.folder.state().trial(priced.trial.id).epochs_done
        self.folder.start_trial(priced.trial)
        if not checkpoint.exists(place):
            if is_new or not (done or manifest.exists(place)):
                return 0
            raise InvalidData(
                f"expected a checkpoint of {formats.count(done, 'epoch')} in {place},"
                " got none: restore it from a copy, or remove that folder to restart"
                " the trial (its charges stay)"
            )
        try:
            state = checkpoint.state_of(place)
            if checkpoint.owner_of(place) not in ("", self.folder.made().id):
                raise InvalidData(
                    f"expected a checkpoint of this sweep in {place}, got another's"
                )
        except InvalidData as damage:
            raise InvalidData(
                f"{damage}: restore the checkpoint from a copy, or remove the folder of"
                " the trial to restart it (its charges stay)"
            ) from None
        if digest := str(state.get(ENCODER, "")):
            model = priced.trial.config.model.model_dump(mode="json")
            require_files_of(model, digest, where=place / "checkpoint")
        return done

    def _foresee(self, priced: PricedTrial, epochs_done: int) -> None:
        """Compute the bounds of its epochs while it trains, because its workers would
        wait.
        """
        for epochs in range(epochs_done + 1, priced.mechanism.epochs + 1):
            choose.bounds_after(priced.mechanism, epochs)

    def _epoch(
        self, priced: PricedTrial, event: TrialEvent, report: EpochReport
    ) -> Verdict:
        done = report.epochs_done
        spent = choose.bounds_after(priced.mechanism, done)
        report = replace(report, metrics={**report.metrics, **spent})
        stop = event.reason or self._stop_after(event.trial_id, done)
        self.folder.add_epoch(event.trial_id, report, when=time.time(), stop=stop)
        # A trial stopped by the scheduler spends no more, so nothing is charged.
        reason = self.gate.go_on(event.trial_id, epochs_done=done, stop=stop)
        return Verdict(reason or "")

    def _stop_after(self, trial_id: str, epochs_done: int) -> str:
        """Why the scheduler stopped a trial after this epoch, where it did, before a
        crash.
        """
        rows = self.folder.epochs(trial_id)
        is_last = bool(rows) and rows[-1]["epochs_done"] == epochs_done
        return str(rows[-1].get("stop", "")) if is_last else ""

    def _finish(
        self, priced: PricedTrial, event: TrialEvent, result: TrialResult
    ) -> None:
        """Write a trial's card, then its result, so that a trial with a result has a
        card.
        """
        result = self._composed(priced, result)
        # By the plan's id, which two draws of one configuration do not share.
        card, place = result.privacy, self.folder.trial_folder(event.trial_id)
        if card is not None:
            card = card.model_copy(update={"trial_id": event.trial_id})
            write_card(place, card)
        result = replace(result, trial_id=event.trial_id, privacy=card)
        self.folder.finish_trial(result, when=time.time(), reason=event.reason)
        checkpoint.remove(place)

    def _composed(self, priced: PricedTrial, result: TrialResult) -> TrialResult:
        """The result with the figures of a trial that starts from exports of its own
        records, which the home knows and the trial does not.
        """
        mechanism, card = priced.mechanism.first(result.epochs_done), result.privacy
        if not mechanism.starts or card is None or math.isinf(card.epsilon):
            return result
        accountant = priced.trial.config.privacy.accountant
        summary = choose.account(mechanism, accountant=accountant)
        figures = {
            name: getattr(summary, name) for name in _COMPOSED if name in result.metrics
        }
        return replace(
            result,
            metrics={**result.metrics, **figures},
            privacy=with_starts(card, mechanism, summary),
        )

    def _fail(self, trial: str, reason: str) -> Verdict:
        self.folder.add(
            StatusChanged(entry="failed", trial=trial, reason=reason, time=time.time())
        )
        return Verdict(reason)


def _of_a_death(event: TrialEvent, trial: PlannedTrial, epochs_done: int) -> str:
    """What happened to the workers of a trial, and what is done."""
    why = event.reason
    if ray_session.took_memory():
        why = (
            "the memory of the machine ran out, so its worker processes were ended"
            " (fewer resources.slots need less)"
        )
    place = f"after epoch {epochs_done}" if epochs_done else "at its beginning"
    return (
        f"trial {trial.id} ({trial.name}): {why}; new ones go on {place}"
        f" (attempt {event.attempt} of {MAX_FAILURES + 1})"
    )


class _Refused(BaseException):
    """An error of the driver, which no trial takes for its own failure."""


def _run_here(
    jobs: Sequence[TrialJob],
    events: Events,
    settings: RunSettings,
    source: ChosenJobs | None,
) -> None:
    """Run the jobs in this process, one after another, whatever their `workers`."""
    why = ""  # the present trial must stop
    further = () if source is None else iter(source.next, None)
    waiting = itertools.chain(jobs, further)

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
