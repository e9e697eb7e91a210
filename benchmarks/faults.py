"""What each fault costs: a sweep is hurt in its second epoch and must lose nothing.

    SWEEP_DATA_DIR=... python benchmarks/faults.py [worker tune driver cluster]

A small sweep of two trials runs as `sweep run` does. When the first trial has two epochs on disk,
something is killed with signal 9: a worker, the Tune trial that speaks for it, the driver, or every
process of the Ray cluster and the driver. After the last two `sweep resume` is called. Printed: the
seconds from the kill (or from the call of `sweep resume`) to the next epoch on disk, the epochs of
the two trials that are on disk in the end, and whether the ledger has charged every one of them.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil

from sweep.spending.ledger import FILE, Ledger
from sweep.store.sweeps import SweepFolder

SPACE = """
base:
  data: {name: atis}
  model: {name: clc, hidden_size: 32, num_layers: 1, word_buckets: 512, char_filters: 16}
  engine: dp_sgd
  training: {epochs: 5, expected_batch_size: 64, num_workers: 1}
  evaluation: {attacks: [], bootstrap_samples: 0}
axes:
  privacy.noise_multiplier: [0.6, 0.7]
resources: {workers: 1, slots: 1}
"""
NAMES = {"worker": "ray::RayTrainWorker", "tune": "ray::ImplicitFunc"}


def rows(home: Path) -> dict[str, list[int]]:
    """Epochs on disk, by trial."""
    folder = SweepFolder(home / "hurt")
    if not folder.is_there:
        return {}
    trials = folder.plan().trials
    return {t.id: [row["epochs_done"] for row in folder.epochs(t.id)] for t in trials}


def count(home: Path) -> int:
    """Epochs on disk in all."""
    return sum(len(epochs) for epochs in rows(home).values())


def mine(mark: str) -> list[psutil.Process]:
    """The processes that were started by this run: they inherited its mark."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get("SWEEP_FAULT") == mark:
                found.append(process)
        except (psutil.Error, OSError):
            continue
    return found


def wait_for(home: Path, more_than: int, *, seconds: float = 500.0) -> float:
    """Seconds until there are more epochs than that."""
    started = time.monotonic()
    while count(home) <= more_than:
        if time.monotonic() - started > seconds:
            raise TimeoutError(f"no epoch within {seconds:.0f} s")
        time.sleep(0.1)
    return time.monotonic() - started


def hurt(fault: str, place: Path) -> str:
    """A table row of one fault."""
    home, space, mark = place / "home", place / "space.yaml", place.name
    space.write_text(SPACE)
    env = {**os.environ, "SWEEP_HOME": str(home), "OMP_NUM_THREADS": "1", "SWEEP_FAULT": mark}
    sweep = [sys.executable, "-m", "sweep"]

    def start(*words: str) -> subprocess.Popen[bytes]:
        nowhere = subprocess.DEVNULL
        return subprocess.Popen([*sweep, *words], env=env, stdout=nowhere, stderr=nowhere)

    driver = start("run", str(space), "--name", "hurt")
    wait_for(home, 1)
    before = count(home)
    resumed = fault in ("driver", "cluster")
    if resumed:
        others = [p for p in mine(mark) if p.pid != driver.pid] if fault == "cluster" else []
        driver.kill()
        for process in others:
            if process.is_running():
                process.send_signal(signal.SIGKILL)
        driver.wait()
        before = count(home)
        driver = start("resume", "hurt")
    else:
        for process in mine(mark):
            if any(NAMES[fault] in part for part in process.cmdline()):
                process.kill()
    seconds = wait_for(home, before)
    code = driver.wait(timeout=500)
    found = sorted(rows(home).values())
    charged = Ledger(home / FILE).entries()
    paid = {(e.trial, n) for e in charged for n in range(e.first_epoch, e.epochs)}
    owed = {(trial, n - 1) for trial, epochs in rows(home).items() for n in epochs}
    lost = "nothing" if found == [[1, 2, 3, 4, 5]] * 2 and code == 0 else f"{found}, exit {code}"
    ledger = "exact" if owed <= paid else "too little"
    return f"| {fault} | {lost} | {seconds:.0f} s | {ledger} |"


def main() -> None:
    """Print a row a fault."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("faults", nargs="*", default=["worker", "tune", "driver", "cluster"])
    print("| killed | lost | to the next epoch | ledger |\n|---|---|---|---|", flush=True)
    for fault in parser.parse_args().faults:
        with tempfile.TemporaryDirectory(prefix="fault-", ignore_cleanup_errors=True) as scratch:
            print(hurt(fault, Path(scratch)), flush=True)


if __name__ == "__main__":
    main()
