"""What a large sweep costs beside its training: planning, looking at it, disk, memory,
gaps.

    PYTHONPATH=. python benchmarks/scale.py [--trials 10000] [--run 300] [--executor
    gang]

In a temporary home a sweep of so many tiny trials is planned. Its trials are then ended
by the driver, one after another, with events as an executor sends them and without
flushes of the disk, so that what it costs to look at a finished sweep is measured in
minutes. `--run` runs a sweep of its own with an executor and MLflow. Printed: seconds
of `plan`; milliseconds that the driver takes a trial (second and last tenth); seconds
(and those of the processor) and MB of `sweep list`, `show` and `report`; of the real
run the seconds between the ends of trials (medians of the second and of the last tenth;
also those of the processor, with MLflow's thread and the trials), MB of disk a trial in
whole blocks (its folder, its run of MLflow, that run's artifacts) and MB of memory.
"""

from __future__ import annotations

import argparse
import itertools
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil

from search_spaces import space as spaces
from sweep.planning.accounting import Accounting
from sweep.planning.prepare import Prepared, prepare_space
from sweep.planning.pricing import price
from sweep.runtime import runner
from sweep.runtime.driver import Driver
from sweep.runtime.events import TrialEvent
from sweep.settings import Settings
from sweep.spending.gate import open_gate
from sweep.spending.ledger import FILE, Ledger
from sweep.store import sweeps as store
from sweep.store.sweeps import SweepFolder, about
from tests.sweep.sweeps import TOY, settings_in, write_corpus
from trainables.cards import card as cards
from trainables.dp.accounting import choose
from trainables.result import EpochReport, TrialResult

EPOCHS, SEEDS, LEVELS = 2, 10, 2


def prepared(
    folder: Path, num_trials: int, name: str, executor: str = "local"
) -> tuple[Prepared, Settings]:
    """A grid of two noise multipliers and many learning rates, ten seeds each, and a
    baseline.
    """
    rates = max(1, num_trials // SEEDS // LEVELS)
    document: dict[str, Any] = {
        "name": name,
        "base": {
            "data": write_corpus(folder),
            "training": {"epochs": EPOCHS, "expected_batch_size": 30, "num_workers": 1},
            "evaluation": {"attacks": []},
        },
        "variants": [
            {
                "name": "sgd",
                "baseline": True,
                "set": {"engine": "sgd"},
                "drop_axes": "all",
            },
            {
                "name": "dp",
                "set": {"engine": "dp_sgd"},
                "axes": {
                    "privacy.noise_multiplier": [0.8 + n / 5 for n in range(LEVELS)],
                    "training.learning_rate": [0.001 * (n + 1) for n in range(rates)],
                },
            },
        ],
        "repeats": SEEDS,
        "resources": {"executor": executor, "workers": 1, "slots": 1},
    }
    settings = settings_in(folder)
    return prepare_space(spaces.parse(document), settings=settings), settings


def end_all(folder: SweepFolder, settings: Settings) -> list[float]:
    """End every trial as an executor would; seconds of the processor for each."""
    ledger = Ledger(settings.home / FILE)
    priced = price(folder.plan().to_run, Accounting(settings))
    gate = open_gate(folder, priced, ledger=ledger)
    driver = Driver(gate, folder)
    taken = []
    for number, each in enumerate(priced):
        started = time.process_time()
        trial_id = each.trial.id
        error = 0.1 + (number % 97) / 200
        driver(TrialEvent(kind="started", trial_id=trial_id))
        for epoch in range(1, EPOCHS + 1):
            report = EpochReport(
                epochs_done=epoch, seconds=0.1, metrics={"validation_ser": error}
            )
            driver(TrialEvent(kind="epoch", trial_id=trial_id, report=report))
        result = TrialResult(
            trial_id=trial_id,
            epochs_done=EPOCHS,
            stopped_early=False,
            metrics={
                "ser": error,
                "validation_ser": error,
                "epsilon": each.trial.epsilon or 0.0,
            },
            privacy=cards.make(
                each.mechanism,
                choose.account(each.mechanism),
                trial_id=trial_id,
                corpus="mine",
            ),
            seconds={"total": 0.3},
        )
        driver(TrialEvent(kind="finished", trial_id=trial_id, result=result))
        taken.append(time.process_time() - started)
    return taken


def tenths(values: list[float]) -> tuple[float, float]:
    """Medians of the second tenth, because MLflow is imported beside the first, and of
    the last.
    """
    count = max(1, len(values) // 10)
    return statistics.median(values[count : 2 * count]), statistics.median(
        values[-count:]
    )


def command(home: Path, *words: str) -> tuple[float, float, float]:
    """(seconds, seconds of the processor, MB at the most) of a command of `sweep`."""
    code = (
        "import resource, sys; from sweep import cli; code = cli.run(sys.argv[1:]);"
        " used = resource.getrusage(resource.RUSAGE_SELF); print(used.ru_utime +"
        " used.ru_stime, used.ru_maxrss / 1024, file=sys.stderr); sys.exit(code)"
    )
    started = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", code, *words],
        env={**os.environ, "SWEEP_HOME": str(home)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        check=True,
    )
    processor, memory = map(float, done.stderr.splitlines()[-1].split())
    return time.perf_counter() - started, processor, memory


def look(folder: Path, num_trials: int) -> None:
    """Plan and end a sweep, then look at it."""
    started, processor = time.perf_counter(), time.process_time()
    plan, settings = prepared(folder, num_trials, "large")
    seconds, processor = time.perf_counter() - started, time.process_time() - processor
    count = len(plan.plan.to_run)
    print(f"plan of {count} trials: {seconds:.1f} s ({processor:.1f} CPU)", flush=True)
    made = store.create(settings.home, plan.space, plan.plan, about=about(["scale"]))
    os.fsync = lambda fd: None
    first, last = tenths(end_all(made, settings))
    print(
        f"driver, ms of the processor a trial: {1e3 * first:.1f} at first,"
        f" {1e3 * last:.1f} last",
        flush=True,
    )
    words = {
        "list": (),
        "show": ("large",),
        "report": ("large", "--output", str(folder / "page")),
    }
    for name, rest in words.items():
        seconds, processor, memory = command(settings.home, name, *rest)
        print(
            f"sweep {name}: {seconds:.1f} s ({processor:.1f} CPU), {memory:.0f} MB",
            flush=True,
        )


def run(folder: Path, num_trials: int, executor: str) -> None:
    """Run a sweep of the toy trial."""
    plan, settings = prepared(folder, num_trials, "run", executor)
    ends: list[float] = []
    used: list[float] = []

    def watch(trial_id: str, progress: Any) -> None:
        if progress.status.is_over:
            ends.append(time.perf_counter())
            used.append(time.process_time())

    started = time.perf_counter()
    made = runner.start(plan, settings, function=TOY, watch=watch)
    whole = time.perf_counter() - started
    first, last = tenths([after - before for before, after in itertools.pairwise(ends)])
    processor = tenths([after - before for before, after in itertools.pairwise(used)])
    places = [made.folder.path / "trials", settings.home / "mlartifacts"]
    blocks = sum(path.stat().st_blocks for place in places for path in place.rglob("*"))
    size = 512 * blocks + (settings.home / "mlflow.db").stat().st_size
    memory = psutil.Process().memory_info().rss / 2**20
    print(
        f"run of {len(ends)} trials: {whole:.0f} s, {first:.3f} s between ends at"
        f" first, {last:.3f} s at last ({processor[0]:.3f} and {processor[1]:.3f} of"
        f" the processor), {ends[0] - started:.1f} s to the first,"
        f" {started + whole - ends[-1]:.1f} s after the last,"
        f" {size / len(ends) / 2**20:.3f} MB of disk a trial, {memory:.0f} MB of memory"
    )


def main() -> None:
    """Print what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=10_000)
    parser.add_argument("--run", type=int, default=0, metavar="N")
    parser.add_argument("--executor", choices=["local", "gang"], default="local")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        if options.trials:
            look(Path(name), options.trials)
        if options.run:
            run(Path(name), options.run, options.executor)


if __name__ == "__main__":
    main()
