"""Kills with signal 9 at random moments of small sweeps: driver, workers, pool, Ray's daemons,
and the trials of Tune where a scheduler ("asha") waits for them after each epoch.

After each one the sweep goes on by itself or says in one line how; then it is resumed. In the end
all trials are whole, each epoch is there and paid for, and a trial without noise has the same bits
as in a sweep that was not killed.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from sweep.spending.ledger import FILE, Ledger
from sweep.store.sweeps import SweepFolder
from tests.torture.interrupts import ROOT, SPACE, write_space
from tests.torture.outcome import Tally

Figures = list[dict[str, Any]]
EPOCHS = 8
VICTIMS = {
    "local": {"driver": ""},
    "gang": {
        "driver": "",
        "worker": "ray::RayTrainWorker",
        "Tune trial": "ray::ImplicitFunc",
        "pool": "ray::Pool",
        "raylet": "raylet",
        "GCS": "gcs_server",
    },
    "asha": {"driver": "", "Tune trial": "ray::ImplicitFunc"},
}
TURNS = ("local", "local", "local", "gang")
_MOST_RUNS = {
    "local": 8,
    "gang": 4,
    "asha": 2,
}  # of one sweep that are ended, before it may end by itself
_PATIENCE_SECONDS = 1_500.0  # of a machine that does much else
_WAY_ON = f"`sweep resume {SPACE}`"
_ANEW = "the same command"


GOES_ON = ("worker", "Tune trial")  # the sweep goes on without them, by itself


@dataclass(frozen=True)
class Moment:
    """So many epochs later, and so many seconds after these."""

    epochs: int
    seconds: float


class Killed:
    """A sweep in `folder`, through the installed command."""

    def __init__(self, folder: Path, *, executor: str, tally: Tally, how: str) -> None:
        folder.mkdir()
        self.folder, self.executor, self.tally, self.how = folder, executor, tally, how
        self.kills = 0
        # The scheduler asks Tune after each epoch, and stops no trial before the last one.
        search = {"scheduler": "asha", "grace_epochs": EPOCHS} if executor == "asha" else {}
        on = "local" if executor == "local" else "gang"
        self._space = write_space(folder, executor=on, **search)
        self._mark = f"KILLED_{os.getpid()}_{time.monotonic_ns()}"

    @property
    def sweep(self) -> SweepFolder:
        """The sweep, where it is there."""
        return SweepFolder(self.home / SPACE)

    @property
    def home(self) -> Path:
        """The home of this sweep alone."""
        return self.folder / "home"

    def start(self) -> subprocess.Popen[bytes]:
        """`sweep run`, or `sweep resume` where there is something to resume."""
        begun = self.sweep.is_there
        words = ["resume", SPACE] if begun else ["run", str(self._space)]
        environment = {
            **os.environ,
            "SWEEP_HOME": str(self.home),
            "SWEEP_DATA_DIR": str(self.folder),
            "PYTHONPATH": str(ROOT),
            self._mark: "1",
        }
        with (self.folder / "stderr").open("wb") as err:
            return subprocess.Popen(
                [sys.executable, "-m", "sweep", *words],
                cwd=ROOT,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=err,
            )

    def run_and_kill(self, victims: Sequence[str], moments: Sequence[Moment]) -> bool:
        """Start it and kill the victims one after another, each at its moment. True where the
        sweep is to be resumed: the last one ended it.
        """
        process = self.start()
        hits = [
            victim
            for victim, moment in zip(victims, moments, strict=True)
            if self._wait_for(victim, moment, process) and self._send(victim, process)
        ]
        self.kills += len(hits)
        for victim in hits:
            self.tally.add(f"kills of the {victim}")
        code = self._end(process)
        err = (self.folder / "stderr").read_text(errors="replace")
        after = f"after kills of {', '.join(hits) or 'nothing'}"
        if "driver" in hits:
            self._end_rest()
        elif code == 1:
            last = err.strip().splitlines()[-1:] or [""]
            if not last[0].startswith("error:") or (_WAY_ON not in err and _ANEW not in err):
                self.wrong(f"{after}: {err[-1_500:]!r}")
        elif code != 0:
            self.wrong(f"exit code {code} {after}: {err[-1_500:]!r}")
        if "Traceback" in err:
            self.wrong(f"a traceback {after}: {err[-3_000:]}")
        return code != 0

    def finish(self) -> None:
        """Let it go on to its end."""
        code = self._end(self.start())
        if code != 0:
            err = (self.folder / "stderr").read_text(errors="replace")
            self.wrong(f"exit code {code} of the last resume: {err[-1_500:]!r}")

    def wrong(self, detail: str) -> None:
        """What must never be."""
        self.tally.add("wrong", how=self.how, detail=detail)

    def figures(self) -> Figures:
        """What the trials measured that train without noise."""
        found = []
        for record in self.sweep.records() if self.sweep.is_there else ():
            if record.plan.engine == "sgd" and record.status.is_finished:
                metrics = record.metrics.items()
                found.append({k: v for k, v in metrics if "seconds" not in k})
        return found

    def check(self, expected: Figures) -> None:
        """Every epoch is there once, all are paid for, and the figures are the same ones."""
        epochs = self._epochs()
        whole = list(range(1, EPOCHS + 1))
        if len(epochs) != 3 or any(found != whole for found in epochs.values()):
            self.wrong(f"epochs on disk: {epochs}")
        paid = _charges(self.home / FILE)
        owed = {(trial, epoch - 1) for trial, found in epochs.items() for epoch in found}
        if not owed <= paid.keys():
            self.wrong(f"not paid for: {sorted(owed - paid.keys())}")
        repeated = sum(paid.values()) - len(paid)
        if repeated > 3 * self.kills:  # an epoch of each trial that was under way
            self.wrong(f"{repeated} epochs are charged twice after {self.kills} kills")
        self.tally.counts["epochs on disk"] += len(owed)
        self.tally.counts["epochs charged again"] += repeated
        if self.figures() != expected:
            self.wrong(f"figures differ: {self.figures()} and {expected}")

    def num_epochs(self) -> int:
        """Epochs on disk."""
        return sum(map(len, self._epochs().values()))

    def _epochs(self) -> dict[str, list[int]]:
        """Numbers of the epochs on disk, by trial."""
        if not self.sweep.is_there:
            return {}
        trials = [trial.id for trial in self.sweep.plan().trials]
        return {n: [row["epochs_done"] for row in self.sweep.epochs(n)] for n in trials}

    def _wait_for(self, victim: str, moment: Moment, process: subprocess.Popen[bytes]) -> bool:
        """Wait until there is such a victim, then for the moment; false where the sweep ended."""
        deadline = time.monotonic() + _PATIENCE_SECONDS
        wanted = self.num_epochs() + moment.epochs
        while time.monotonic() < deadline:
            if process.poll() is not None:
                return False
            if self.num_epochs() >= wanted and self._found(victim, process) is not None:
                time.sleep(moment.seconds)
                return True
            time.sleep(0.05 if victim == "driver" else 0.2)
        return False

    def _found(
        self, victim: str, process: subprocess.Popen[bytes]
    ) -> psutil.Process | subprocess.Popen[bytes] | None:
        if victim == "driver":
            return process
        name = VICTIMS[self.executor][victim]
        with suppress(psutil.Error):
            for child in psutil.Process(process.pid).children(recursive=True):
                with suppress(psutil.Error):
                    if any(name in word for word in [child.name(), *child.cmdline()[:1]]):
                        return child
        return None

    def _send(self, victim: str, process: subprocess.Popen[bytes]) -> bool:
        found = self._found(victim, process)
        alive = process.poll() is None
        with suppress(psutil.Error):
            if found is not None and alive:
                found.send_signal(signal.SIGKILL)
                return True
        return False

    def _end(self, process: subprocess.Popen[bytes]) -> int:
        try:
            return process.wait(_PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            self.wrong(f"no end within {_PATIENCE_SECONDS:.0f} s")
            return process.wait()

    def _end_rest(self) -> None:
        """What a killed driver leaves ends by itself; it is only waited for."""
        deadline = time.monotonic() + 60
        while (left := self._left()) and time.monotonic() < deadline:
            time.sleep(0.2)
        if left:
            self.wrong(f"processes left a minute after their driver: {[p.name() for p in left]}")
            for process in left:
                with suppress(psutil.Error):
                    process.kill()

    def _left(self) -> list[psutil.Process]:
        found = []
        for process in psutil.process_iter():
            with suppress(psutil.Error, OSError):
                if self._mark in process.environ():
                    found.append(process)
        return found


def _charges(ledger: Path) -> Counter[tuple[str, int]]:
    """How often each epoch of a trial was charged."""
    furthest: dict[tuple[str, int, int], int] = {}
    for entry in Ledger(ledger).entries():
        key = (entry.trial, entry.attempt, entry.first_epoch)
        furthest[key] = max(furthest.get(key, 0), entry.epochs)
    return Counter(
        (trial, epoch)
        for (trial, _, first), epochs in furthest.items()
        for epoch in range(first, epochs)
    )


def rounds(
    work: Path, seed: int, *, executors: Sequence[str] = TURNS
) -> Iterator[Callable[[dict[str, Tally]], None]]:
    """Sweeps that are killed, without end, on these executors in turn."""
    expected: dict[str, Figures] = {}
    number = 0
    while True:
        executor = executors[number % len(executors)]
        number += 1
        own = seed * 1_000_003 + number
        yield lambda tallies, e=executor, s=own: one(work, e, s, tallies[e], expected)  # type: ignore[misc]


def draw_victims(draw: random.Random, executor: str) -> list[str]:
    """Who is killed in one run: some that the sweep goes on without, then one that ends it."""
    names = sorted(VICTIMS[executor])
    first = [name for name in names if name in GOES_ON]
    least = 1 if executor == "asha" else 0
    some = [draw.choice(first) for _ in range(draw.randint(least, least + 2))] if first else []
    return [*some, draw.choice([name for name in names if name not in GOES_ON])]


def draw_moment(draw: random.Random) -> Moment:
    """Three of ten moments are near the start, the others after some epochs."""
    early = draw.random() < 0.3
    return Moment(0 if early else draw.randint(1, 3), draw.uniform(0.0, 8.0 if early else 0.3))


def one(work: Path, executor: str, seed: int, tally: Tally, expected: dict[str, Figures]) -> None:
    """A sweep that is killed a few times. `expected` keeps the figures of one that is not."""
    how = f"{executor}, seed {seed}"
    if executor not in expected:
        whole = Killed(work / f"whole-{executor}", executor=executor, tally=tally, how=how)
        whole.finish()
        expected[executor] = whole.figures()
    draw = random.Random(seed)
    killed = Killed(work / f"{executor}-{seed}", executor=executor, tally=tally, how=how)
    for _ in range(draw.randint(2, _MOST_RUNS[executor])):
        victims = draw_victims(draw, executor)
        if not killed.run_and_kill(victims, [draw_moment(draw) for _ in victims]):
            break
    killed.finish()
    killed.check(expected[executor])
    tally.add("sweeps")
