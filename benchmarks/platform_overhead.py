"""What the platform takes of a sweep's time, against the same trials in one plain loop.

    SWEEP_DATA_DIR=... python benchmarks/platform_overhead.py [--trials 20] [--epochs 4]
    [--slots 1]

Both sides run the same trial function, which writes down when it began and ended; each
is one process with an empty cache, timed from its start to its end. The loop is what a
user would script: every trial trains, is measured, and its epsilon is worked out.
Printed: start of the command to the first trial, the gaps between two trials in one
slot, and the wall-clock of the loop over that of the sweep.
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
from typing import Any

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


def timed(
    config: Any, *, folder: Path, report: Callable[[Any], bool], **rest: Any
) -> Any:
    """`trainables.trial.run`, which leaves timing.json in the trial's folder."""
    from trainables.trial import run

    begun = time.time()
    result = run(config, folder=folder, report=report, **rest)
    facts = {"begun": begun, "ended": time.time(), "worker": os.getpid()}
    (folder / "timing.json").write_text(json.dumps(facts))
    return result


def plain(place: Path) -> None:
    """Every trial of `configs.json` in this process, one after another."""
    import torch

    from trainables.config.trial import parse
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
    from sweep.settings import from_environment

    home, place = scratch / "home", scratch / "plain"
    uri = f"sqlite:///{home / 'mlflow.db'}"
    settings = replace(
        from_environment(), home=home, cache_dir=home / "cache", tracking_uri=uri
    )
    document = {
        "name": "overhead",
        "base": {**BASE, "training": {**BASE["training"], "epochs": asked.epochs}},
        "axes": {
            "privacy.noise_multiplier": [
                round(0.5 + n / 20, 3) for n in range(asked.trials)
            ]
        },
        "resources": {"workers": 1, "slots": asked.slots},
    }
    prepared = prepare_space(spaces.parse(document), settings=settings)
    done = runner.start(prepared, settings, function="platform_overhead:timed")
    begun, ended = psutil.Process().create_time(), time.time()
    place.mkdir()
    (place / "configs.json").write_text(
        json.dumps([t.fields for t in prepared.plan.trials])
    )
    subprocess.run([sys.executable, __file__, "--plain", str(place)], check=True)
    loop = time.time() - ended
    found = (done.folder.path / "trials").glob("*/timing.json")
    swept = sorted(
        (json.loads(path.read_text()) for path in found), key=lambda f: f["begun"]
    )
    by_worker: dict[int, list[dict[str, Any]]] = {}
    for facts in swept:
        by_worker.setdefault(facts["worker"], []).append(facts)
    gaps = [
        later["begun"] - earlier["ended"]
        for own in by_worker.values()
        for earlier, later in pairwise(own)
    ]
    print(
        f"start to the first trial: {swept[0]['begun'] - begun:.1f} s\nend of a trial"
        f" to the next, median / 90 % / worst: {statistics.median(gaps):.3f} /"
        f" {statistics.quantiles(gaps, n=10)[-1]:.3f} / {max(gaps):.3f} s\nplain loop /"
        f" sweep, wall-clock: {100 * loop / (asked.slots * (ended - begun)):.1f} %"
    )


if __name__ == "__main__":
    sys.modules.setdefault("platform_overhead", sys.modules["__main__"])
    main()
