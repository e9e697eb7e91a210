"""Several trials of one architecture trained side by side, each with the result it has alone.

Trials may share a stack where they differ only in C, the noise multiplier and its decay, the
learning rate and the seed (`stack_key`). Every member keeps its own folder, checkpoints, secret
key, sampling, noise and dropout, so it can go on alone from a checkpoint of the stack, and the
other way round.
"""

from __future__ import annotations

import contextvars
import functools
import hashlib
import json
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from trainables import trial
from trainables.communication import Alone
from trainables.config import TrialConfig
from trainables.engines import PostedSource, Request, Stack
from trainables.errors import InvalidInput
from trainables.result import EpochReport, TrialResult
from trainables.tasks import nlu

# What members may differ in: none of it changes the shape of a step's work.
_FREE = {
    "privacy": ("max_grad_norm", "noise_multiplier", "noise_decay"),
    "training": ("learning_rate", "seed"),
}
_MODELS = ("bert", "clc")
_PATIENCE = 10.0  # seconds in which an abandoned member should come to its next question


@dataclass(frozen=True, kw_only=True)
class Member:
    """One trial of a stack: what `trainables.trial.run` is given for it."""

    config: TrialConfig
    folder: Path
    report: Callable[[EpochReport], bool]


def stack_key(config: TrialConfig) -> str | None:
    """Equal for trials that may be one stack; None for one that can only run alone.

    Trials of another task than intents and slots, of models without stacked layers, and in bf16 run
    alone. A stack is one process: the N workers of its members are logical ones.
    """
    if config.task != "nlu" or config.model.name not in _MODELS:
        return None
    if config.training.precision != "fp32":
        return None
    fields = config.model_dump(mode="json")
    for part, names in _FREE.items():
        for name in names:
            del fields[part][name]
    canonical = json.dumps(fields, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()[:12]


def run_stacked(
    members: Sequence[Member],
    *,
    data_dir: Path,
    cache_dir: Path,
    ended: Callable[[int, TrialResult | Exception], None],
) -> None:
    """Train and measure all `members` in this process, each as `trainables.trial.run` would.

    `ended(i, result or error)` is called once for each member, as soon as it is there. A member
    whose `report` answers False leaves the stack, and so does one that fails; the others go on.
    `report` and `ended` are called on the caller's thread; an error of `ended` ends the whole stack
    and is raised.

    Raises: InvalidInput where the members may not be stacked.
    """
    if len(members) == 1:
        (member,) = members
        plain = functools.partial(
            trial.run,
            member.config,
            folder=member.folder,
            comm=Alone(),
            report=member.report,
            data_dir=data_dir,
            cache_dir=cache_dir,
        )
        ended(0, _outcome(plain))
        return
    keys = {stack_key(member.config) for member in members}
    if None in keys or len(keys) > 1:
        raise InvalidInput(
            "expected trials that differ only in max_grad_norm, noise_multiplier, noise_decay,"
            f" learning_rate and seed, got {len(keys)} kinds"
        )

    def work(member: Member, ask: Ask) -> TrialResult:
        return nlu.run(
            member.config,
            folder=member.folder,
            comm=Alone(),
            report=ask,
            data_dir=data_dir,
            cache_dir=cache_dir,
            gradients=functools.partial(PostedSource, post=ask),
        )

    lanes = [Lane(functools.partial(work, member)) for member in members]
    stack = Stack()
    try:
        waiting: dict[int, Request] = {}
        answers: dict[int, Any] = dict.fromkeys(range(len(members)))
        while answers:
            for number, answer in answers.items():
                question = _until_gradient(lanes[number], members[number], answer)
                if isinstance(question, Request):
                    waiting[number] = question
                else:
                    ended(number, question)
            answers = dict(zip(waiting, stack.answer(list(waiting.values())), strict=True))
            waiting.clear()
    finally:
        for lane in lanes:
            lane.abandon()


def _until_gradient(
    lane: Lane, member: Member, answer: object
) -> Request | TrialResult | Exception:
    """Let a member run on until it needs a gradient or has ended; its reports pass through."""
    said = lane.run_on(answer)
    while isinstance(said, EpochReport):
        said = lane.run_on(_outcome(functools.partial(member.report, said)))
    if isinstance(said, BaseException) and not isinstance(said, Exception):
        raise said  # the process is to end: no member's own affair
    kept: Request | TrialResult | Exception = said
    return kept


def _outcome(work: Callable[[], Any]) -> Any:
    try:
        return work()
    except Exception as error:  # noqa: BLE001  what breaks one member must not touch others
        return error


Ask = Callable[[Any], Any]


class _Abandoned(BaseException):
    """Unwinds the thread of a member whose stack is given up."""


class Lane:
    """A member's trial on a thread of its own, which runs only within `run_on`.

    `work` is given `ask`: it hands a question to the caller of `run_on` and returns the answer, or
    raises it where it is an error.
    """

    def __init__(self, work: Callable[[Ask], TrialResult]) -> None:
        self._work = work
        self._questions: SimpleQueue[Any] = SimpleQueue()
        self._answers: SimpleQueue[Any] = SimpleQueue()
        context = contextvars.copy_context()
        self._thread = threading.Thread(target=context.run, args=(self._run,), daemon=True)

    def run_on(self, answer: object) -> Any:
        """Start (the first answer is not read) or go on: the next question, or the outcome."""
        if not self._thread.is_alive():
            self._thread.start()
        else:
            self._answers.put(answer)
        return self._questions.get()

    def abandon(self) -> None:
        """End the thread if it has not ended."""
        if self._thread.is_alive():
            self._answers.put(_Abandoned())
            self._thread.join(_PATIENCE)

    def _ask(self, question: object) -> Any:
        self._questions.put(question)
        answer = self._answers.get()
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def _run(self) -> None:
        try:
            self._questions.put(self._work(self._ask))
        except BaseException as error:  # noqa: BLE001  the caller's thread decides what it means
            self._questions.put(error)
