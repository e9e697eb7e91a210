"""What the platform takes of a sweep's time, against the same trials in one plain loop.

    SWEEP_DATA_DIR=... python benchmarks/platform_overhead.py [--trials 20] [--epochs 4] [--slots 1]

Both sides run the same trial function, which writes down when it began and ended and how long it
waited for permissions; each is one process with an empty cache, timed from its start to its end.
The loop is what a user would script: every trial trains, is measured, and its epsilon is worked
out. Printed for the sweep: start of the command to the first trial, the gaps between two trials in
one slot, the wait for a permission an epoch, and the share of the time in trials,
from the first trial's begin to the last one's end and over the whole sweep; and the processor
seconds of a trial on both sides. Shares of one run bear a busy machine; the ratio of the two sides'
wall-clock does not.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sweep.settings import Settings

BASE: dict[str, Any] = {
    "data": {"name": "atis"},
    "model": {
        "name": "clc",
        "word_buckets": 1024,
        "word_dim": 32,
        "char_filters": 24,
        "hidden_size": 64,
        "num_layers": 1,
    },
    "engine": "dp_sgd",
    "training": {"expected_batch_size": 64, "num_workers": 1},
    "evaluation": {"attacks": ["loss_threshold"]},
}


def timed(config: Any, *, folder: Path, report: Callable[[Any], bool], **rest: Any) -> Any:
    """`trainables.trial.run`, which leaves timing.json in the trial's folder."""
    from trainables.trial import run

    waited: list[float] = []

    def ask(epoch: Any) -> bool:
        asked = time.time()
        try:
            return report(epoch)
        finally:
            waited.append(time.time() - asked)

    begun, used = time.time(), time.process_time()
    result = run(config, folder=folder, report=ask, **rest)
    facts = {
        "begun": begun,
        "ended": time.time(),
        "processor": time.process_time() - used,
        "waited": waited,
        "worker": os.getpid(),
        "prepare": result.seconds["prepare"],
    }
    (folder / "timing.json").write_text(json.dumps(facts))
    return result


def plain(place: Path) -> None:
    """Every trial of `configs.json` in this process, one after another."""
    import torch

    from trainables.config import parse
    from trainables.system.communication import Alone

    torch.set_num_threads(1)
    for number, fields in enumerate(json.loads((place / "configs.json").read_text())):
        folder = place / str(number)
        folder.mkdir(parents=True)
        timed(
            parse(fields),
            folder=folder,
            report=lambda epoch: True,
            comm=Alone(),
            data_dir=Path(os.environ.get("SWEEP_DATA_DIR", "data")),
            cache_dir=place / "cache",
        )


def timings(place: Path) -> list[dict[str, Any]]:
    """What `timed` left, in order of the trials' begin."""
    found = [json.loads(path.read_text()) for path in place.glob("*/timing.json")]
    return sorted(found, key=lambda facts: facts["begun"])


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--slots", type=int, default=1)
    parser.add_argument("--plain", type=Path, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"
    # Ray workers must find this file; they are given our PYTHONPATH.
    here = str(Path(__file__).parent)
    os.environ["PYTHONPATH"] = os.pathsep.join([here, os.environ.get("PYTHONPATH", "")])
    if asked.plain is not None:
        plain(asked.plain)
        return
    with tempfile.TemporaryDirectory(prefix="platform-overhead-") as scratch:
        compare(asked, Path(scratch))


def compare(asked: argparse.Namespace, scratch: Path) -> None:
    """Run the sweep, then its trials in one plain loop, and print both sides."""
    import psutil

    from search_spaces import space as spaces
    from sweep.planning.prepare import prepare_space
    from sweep.runtime import runner

    started = time.time()
    settings = _settings(scratch / "home")
    document = _document(trials=asked.trials, epochs=asked.epochs, slots=asked.slots)
    prepared = prepare_space(spaces.parse(document), settings=settings)
    planned = time.time()
    done = runner.start(prepared, settings, function="platform_overhead:timed")
    ended = time.time()
    place = scratch / "plain"
    place.mkdir()
    (place / "configs.json").write_text(json.dumps([t.fields for t in prepared.plan.trials]))
    begun = time.time()
    subprocess.run([sys.executable, __file__, "--plain", str(place)], check=True)
    show(
        timings(done.folder.path / "trials"),
        timings(place),
        planned=planned - started,
        begun=psutil.Process().create_time(),
        ended=ended,
        slots=asked.slots,
        loop=time.time() - begun,
    )


def _settings(home: Path) -> Settings:
    from sweep.settings import from_environment

    uri = f"sqlite:///{home / 'mlflow.db'}"
    return replace(from_environment(), home=home, cache_dir=home / "cache", tracking_uri=uri)


def _document(*, trials: int, epochs: int, slots: int) -> dict[str, Any]:
    """A space of so many trials that differ in their noise."""
    noise = [round(0.5 + 0.05 * n, 3) for n in range(trials)]
    return {
        "name": "overhead",
        "base": {**BASE, "training": {**BASE["training"], "epochs": epochs}},
        "axes": {"privacy.noise_multiplier": noise},
        "resources": {"workers": 1, "slots": slots},
    }


def show(
    swept: list[dict[str, Any]],
    alone: list[dict[str, Any]],
    *,
    planned: float,
    begun: float,
    ended: float,
    slots: int,
    loop: float,
) -> None:
    """Print both sides."""
    by_worker: dict[int, list[dict[str, Any]]] = {}
    for facts in swept:
        by_worker.setdefault(facts["worker"], []).append(facts)
    gaps = [
        later["begun"] - earlier["ended"]
        for own in by_worker.values()
        for earlier, later in pairwise(own)
    ]
    waits = [wait for facts in swept for wait in facts["waited"]]
    busy = sum(f["ended"] - f["begun"] - sum(f["waited"]) for f in swept)
    span = swept[-1]["ended"] - swept[0]["begun"]
    last = max(f["ended"] for f in swept)
    processor = [statistics.fmean(f["processor"] for f in side) for side in (swept, alone)]
    rows = {
        "trials, slots": f"{len(swept)}, {slots}",
        "plan": f"{planned:.1f} s",
        "start to first trial": f"{swept[0]['begun'] - begun:.1f} s",
        "last trial to the end": f"{ended - last:.1f} s",
        "trial start to first step (data, model, mechanism)": f"{_mean(swept, 'prepare'):.2f} s",
        "end of a trial to the next, median / 90 % / worst": (
            f"{statistics.median(gaps):.3f} / {statistics.quantiles(gaps, n=10)[-1]:.3f}"
            f" / {max(gaps):.3f} s"
        ),
        "wait for a permission an epoch, mean / worst": (
            f"{statistics.fmean(waits):.3f} / {max(waits):.3f} s"
        ),
        "in trials, first begin to last end": f"{100 * busy / (slots * span):.1f} %",
        "in trials, of the whole sweep": f"{100 * busy / (slots * (ended - begun)):.1f} %",
        "processor a trial, sweep / plain loop": f"{processor[0]:.2f} / {processor[1]:.2f} s",
        "plain loop / sweep, wall-clock": f"{100 * loop / (slots * (ended - begun)):.1f} %",
    }
    for name, value in rows.items():
        print(f"| {name} | {value} |")


def _mean(side: list[dict[str, Any]], name: str) -> float:
    return statistics.fmean(facts[name] for facts in side)


if __name__ == "__main__":
    sys.modules.setdefault("platform_overhead", sys.modules["__main__"])
    main()
