"""How long a sweep takes beside its trials: from the command to the first result, and to its end.

    PYTHONPATH=. python benchmarks/sweep_start.py [--executor gang] [--trials 4] [--seconds 1]

A process of its own runs a sweep of so many trials of so many seconds, in a new home, where MLflow
makes its tables, and then again in the same home. Printed for each: seconds from the start of the
process to the first result, less the trial's own; seconds from one trial's end to the next one's
begin (medians of the first and of the last tenth); seconds from the last result to the end of the
process; and the seconds of the processor of all its processes, which bear a busy machine better.
`--homes new` runs the first sweep alone. `--floor` also times a process that starts Ray by its own
defaults and runs one `TorchTrainer` of one worker that reports at once: the part that is Ray's.
"""

from __future__ import annotations

import argparse
import atexit
import itertools
import json
import math
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any


def timed(config: Any, *, folder: Path, **rest: Any) -> Any:
    """The toy trial, drawn out to `SWEEP_START_SECONDS`; leaves timing.json in the folder."""
    from tests.sweep import toy_trial

    begun = time.time()
    time.sleep(float(os.environ["SWEEP_START_SECONDS"]))
    result = toy_trial.run(config, folder=folder, **rest)
    (folder / "timing.json").write_text(json.dumps({"begun": begun, "ended": time.time()}))
    return result


def child(folder: Path, *, executor: str, num_trials: int, name: str) -> None:
    """Plan and run a sweep, as `sweep run` does."""
    from search_spaces import space as spaces
    from sweep.planning.prepare import prepare_space
    from sweep.runtime import runner
    from tests.sweep.sweeps import settings_in, write_corpus

    settings = settings_in(folder)
    document: dict[str, Any] = {
        "name": name,
        "base": {
            "data": write_corpus(folder),
            "engine": "dp_sgd",
            "training": {"epochs": 1, "expected_batch_size": 30, "num_workers": 1},
            "evaluation": {"attacks": []},
        },
        "axes": {"training.learning_rate": [0.001 * (n + 1) for n in range(num_trials)]},
        "resources": {"executor": executor, "workers": 1, "slots": 1},
    }
    ends: list[float] = []

    def watch(trial_id: str, progress: Any) -> None:
        if progress.status.is_over:
            ends.append(time.time())

    prepared = prepare_space(spaces.parse(document), settings=settings)
    planned = time.time()
    done = runner.start(prepared, settings, function="sweep_start:timed", watch=watch)
    facts = {"planned": planned, "first": ends[0], "last": ends[-1], "returned": time.time()}
    (done.folder.path / "sweep_start.json").write_text(json.dumps(facts))


def bare(folder: Path) -> None:
    """Ray and one `TorchTrainer` by Ray's own defaults; the worker reports at once."""
    import ray
    from ray.train import RunConfig, ScalingConfig, report
    from ray.train.torch import TorchTrainer

    ray.init(num_cpus=os.cpu_count(), log_to_driver=False)
    scaling = ScalingConfig(num_workers=1)
    saved = RunConfig(storage_path=str(folder))
    TorchTrainer(lambda: report({"figure": 1.0}), scaling_config=scaling, run_config=saved).fit()
    (folder / "bare.json").write_text(json.dumps(time.time()))


def floor(folder: Path) -> str:
    """A row of figures of Ray without a sweep."""
    started = time.time()
    words = [sys.executable, __file__, "--bare", str(folder)]
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
    ended = time.time()
    fitted = float(json.loads((folder / "bare.json").read_text()))
    return f"to the end of fit {fitted - started:.2f} s, then to the end {ended - fitted:.2f} s"


def measure(folder: Path, options: argparse.Namespace, name: str) -> str:
    """A row of figures of one sweep."""
    home = folder / "home"
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    words = ["--child", str(folder), "--executor", options.executor, "--name", name]
    words += ["--trials", str(options.trials)]
    started = time.time()
    subprocess.run([sys.executable, __file__, *words], check=True)
    ended = time.time()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = (after.ru_utime - before.ru_utime) + (after.ru_stime - before.ru_stime)
    facts = json.loads((home / name / "sweep_start.json").read_text())
    trials = [json.loads(path.read_text()) for path in home.glob(f"{name}/trials/*/timing.json")]
    trials.sort(key=lambda trial: float(trial["begun"]))
    own = trials[0]["ended"] - trials[0]["begun"]
    gaps = [later["begun"] - trial["ended"] for trial, later in itertools.pairwise(trials)]
    tenth = max(1, len(gaps) // 10)
    rows = {
        "plan": facts["planned"] - started,
        "to the first trial": trials[0]["begun"] - started,
        "to the first result, less the trial": facts["first"] - started - own,
        "between trials, first tenth": statistics.median(gaps[:tenth] or [math.nan]),
        "last tenth": statistics.median(gaps[-tenth:] or [math.nan]),
        "last result to the end": ended - facts["last"],
        "of it, the end of the process": ended - facts["returned"],
        "processor": used,
    }
    return ", ".join(f"{what} {seconds:.2f} s" for what, seconds in rows.items())


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--executor", default="gang", choices=["gang", "local"])
    parser.add_argument("--trials", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--homes", nargs="+", default=["new", "again"])
    parser.add_argument("--floor", action="store_true", help="also time Ray without a sweep")
    parser.add_argument("--bare", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--name", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.bare is not None:
        bare(options.bare)
        return
    if options.child is not None:
        from sweep.cli import QuickExit

        exits = QuickExit()  # as `sweep run` does
        atexit.register(exits)
        child(
            options.child,
            executor=options.executor,
            num_trials=options.trials,
            name=options.name,
        )
        exits.code = 0
        return
    os.environ |= {"OMP_NUM_THREADS": "1", "SWEEP_START_SECONDS": str(options.seconds)}
    # Ray's workers must find this file; they are given our PYTHONPATH.
    here = str(Path(__file__).parent)
    os.environ["PYTHONPATH"] = os.pathsep.join([here, os.environ.get("PYTHONPATH", "")])
    with tempfile.TemporaryDirectory() as name:
        for home in options.homes:
            print(f"{home} home: {measure(Path(name), options, home)}", flush=True)
        if options.floor:
            print(f"Ray alone: {floor(Path(name))}", flush=True)


if __name__ == "__main__":
    main()
