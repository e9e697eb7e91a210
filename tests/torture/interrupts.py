"""Interrupts of `sweep run` at random moments: each is reported, with the right exit
code, and leaves nothing behind. `python -m tests.torture` counts them, and tests run a
few of the same cases.
"""

from __future__ import annotations

import itertools
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import yaml

from sweep.status import COMPARING, DELIVERING, STARTING_RAY
from sweep.store import sweeps as store
from sweep.store.sweeps import LOG, SweepFolder
from tests.sweep.sweeps import space_in

ROOT = Path(__file__).parents[2]
SPACE = "calls"
LINE_SECONDS = 2.0  # until the line
END_SECONDS = 20.0  # until the end
BEGINNING = b"interrupted: "
WAYS = ("SIGINT", "SIGTERM", "stop")
EXECUTORS = {"local": 15.0, "gang": 40.0}  # seconds that a run takes, about


@dataclass(frozen=True, kw_only=True)
class Case:
    """One interrupt. `delay` is in seconds after the program has begun to handle
    signals, which is the first that it does, or has named its `phase`; `second` is in
    seconds after the first, or None. `way` "stop" is `sweep stop`, and SIGTERM where
    the sweep does not run yet.
    """

    executor: str
    way: str
    delay: float
    phase: str = ""
    terminal: bool = False
    second: float | None = None


@dataclass
class Ending:
    """What a process that was interrupted did; times are seconds after the
    interrupt.
    """

    code: int
    way: str
    stderr: bytes
    line_after: float | None
    end_after: float
    left: list[str] = field(default_factory=list)
    begun: bool = False


def cases_of_phases(executor):
    """An interrupt in each phase, in all ways, in a pipe and in a terminal, some of
    them twice.
    """
    phases = ["", STARTING_RAY, *("0 of 3 done", "1 of 3 done", COMPARING, DELIVERING)]
    if executor == "local":
        phases.remove(STARTING_RAY)
    return [
        Case(
            executor=executor,
            way=WAYS[(number + 1) % len(WAYS)],
            delay=0.3,
            phase=phase,
            terminal=number % 3 == 2,
            second=0.5 if number % 3 == 1 else None,
        )
        for number, phase in enumerate(phases)
    ]


def write_space(folder, *, executor, **search):
    """A space whose trials take a few seconds in all; `search` are fields of its
    search.
    """
    document = space_in(folder, name=SPACE, resources={"executor": executor}).document()
    document["search"] = {**document.get("search", {}), **search}
    document["base"] |= {
        "model": {
            "name": "clc",
            "word_vectors": "hashed",
            "hidden_size": 16,
            "num_layers": 1,
        },
        "training": {"epochs": 8, "expected_batch_size": 8, "num_workers": 1},
        "evaluation": {"attacks": ["loss_threshold"]},
    }
    path = folder / "space.yaml"
    path.write_text(yaml.safe_dump(document))
    return path


def interrupt(case, folder):
    """Run a sweep in `folder`, which is new, and interrupt it."""
    if (
        signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    ):  # inherited; so would the sweep
        signal.signal(signal.SIGINT, signal.default_int_handler)
    folder.mkdir(parents=True, exist_ok=True)
    space = write_space(folder, executor=case.executor)
    mark = f"INTERRUPTED_{os.getpid()}_{time.monotonic_ns()}"
    outer, inner = os.openpty() if case.terminal else os.pipe()
    process = subprocess.Popen(
        [sys.executable, "-m", "sweep", "run", str(space)],
        cwd=ROOT,
        env=_environment(folder, mark),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=inner,
        start_new_session=True,
    )
    os.close(inner)
    watcher = _Watcher(outer)
    while not _handles(process.pid, signal.SIGTERM):
        time.sleep(0.005)
    while case.phase.encode() not in watcher.content and process.poll() is None:
        time.sleep(0.02)
    time.sleep(case.delay)
    begun = time.monotonic()
    way = _send(case.way, process, folder, terminal=case.terminal)
    if case.second is not None:
        time.sleep(case.second)
        with suppress(ProcessLookupError):
            process.send_signal(signal.SIGINT if way == "SIGINT" else signal.SIGTERM)
    try:
        code = process.wait(END_SECONDS + 40)
    except subprocess.TimeoutExpired:
        process.kill()
        code = process.wait()
    ended = time.monotonic()
    left = list(processes_with(mark))
    watcher.close()
    return Ending(
        code=code,
        way=way,
        stderr=bytes(watcher.content),
        line_after=None if watcher.line_at is None else watcher.line_at - begun,
        end_after=ended - begun,
        left=left,
        begun=(folder / "home" / SPACE / LOG).exists(),
    )


def problems(case, ending, folder):
    """What was not as it has to be."""
    if ending.code == 0 and ending.line_after is None:  # it had ended before
        return []
    number = signal.SIGINT if ending.way == "SIGINT" else signal.SIGTERM
    found = []
    if ending.code != 128 + number:
        found.append(f"exit code {ending.code} after {ending.way}")
    if ending.line_after is None:
        found.append("no line")
    elif ending.line_after > LINE_SECONDS:
        found.append(f"the line came after {ending.line_after:.1f} s")
    if ending.end_after > END_SECONDS:
        found.append(f"the end came after {ending.end_after:.1f} s")
    last = ending.stderr.rpartition(BEGINNING)[2]
    if ending.stderr.count(BEGINNING) != 1 or last.count(b"\n") != 1:
        found.append(f"not one last line: {ending.stderr[-300:]!r}")
    if b"Traceback" in ending.stderr or b"core worker" in ending.stderr:
        found.append("a traceback")
    way_on = f"`sweep resume {SPACE}`" if ending.begun else "the same command"
    if ending.line_after is not None and way_on.encode() not in last:
        found.append(f"{way_on} is not in {last!r}")
    if ending.left:
        found.append(f"{len(ending.left)} processes are left: {ending.left[:3]}")
    if ending.begun:
        sweep = store.open_sweep(folder / "home", SPACE)
        if sweep.is_running:
            found.append("the sweep is locked")
        sweep.records()
    return found


def resumed(folder):
    """The exit code of `sweep resume`."""
    command = [sys.executable, "-m", "sweep", "resume", SPACE]
    done = subprocess.run(
        command,
        cwd=ROOT,
        env=_environment(folder, "RESUMED"),
        capture_output=True,
        check=False,
    )
    return done.returncode


class _Watcher(threading.Thread):
    """Reads a pipe or a terminal to its end, and notes when the line came."""

    def __init__(self, descriptor):
        super().__init__(daemon=True)
        self._descriptor = descriptor
        self.content = bytearray()
        self.line_at = None
        self.start()

    def run(self):
        with suppress(OSError):  # the other end of a terminal is gone
            while piece := os.read(self._descriptor, 65_536):
                self.content += piece
                if self.line_at is None and BEGINNING in self.content:
                    self.line_at = time.monotonic()

    def close(self):
        self.join(5.0)
        os.close(self._descriptor)


def _send(way, process, folder, *, terminal):
    """Interrupt it; what was done."""
    if way == "stop":
        if (sweep := SweepFolder(folder / "home" / SPACE)).is_running:
            sweep.request_stop()
            return way
        way = "SIGTERM"
    number = signal.Signals[way]
    with suppress(ProcessLookupError):
        if terminal and way == "SIGINT":
            os.killpg(process.pid, number)  # a terminal tells all of its group
        else:
            process.send_signal(number)
    return way


def _handles(pid, number):
    """Whether a process has a handler of a signal."""
    status = Path(f"/proc/{pid}/status").read_text()
    caught = next(line for line in status.splitlines() if line.startswith("SigCgt:"))
    return bool(int(caught.split()[1], 16) >> (number - 1) & 1)


def _environment(folder, mark):
    return {
        **os.environ,
        "SWEEP_HOME": str(folder / "home"),
        "SWEEP_DATA_DIR": str(folder),
        "PYTHONPATH": str(ROOT),
        "TERM": "xterm",
        mark: "1",
    }


def processes_with(variable):
    """Command lines of the live processes that inherited an environment variable."""
    for place in Path("/proc").iterdir():
        if place.name.isdigit():
            with suppress(OSError):
                if variable in (place / "environ").read_text(errors="replace"):
                    yield (place / "cmdline").read_text(errors="replace")[:100]


def rounds(work, seed):
    """Interrupts at random moments without end, of each executor in turn."""
    draw = random.Random(seed)
    for number in itertools.count():
        executor = list(EXECUTORS)[number % len(EXECUTORS)]
        case = Case(
            executor=executor,
            way=draw.choice(WAYS),
            delay=draw.uniform(0.0, EXECUTORS[executor]),
            terminal=draw.random() < 0.5,
            second=draw.uniform(0.0, 1.0) if draw.random() < 0.3 else None,
        )
        yield partial(_one, case, work / str(number))


def _one(case, folder, tallies):
    ending, tally = interrupt(case, folder), tallies[case.executor]
    wrong = "; ".join(problems(case, ending, folder))
    outcome = "ended before" if ending.line_after is None else "interrupted"
    tally.seconds = max(tally.seconds, ending.line_after or 0.0)
    tally.add("wrong" if wrong else outcome, how=str(case), detail=wrong)
    shutil.rmtree(folder)
