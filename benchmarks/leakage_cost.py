"""What measuring leakage costs: a trial's panel against its training, LiRA over many trials.

    python benchmarks/leakage_cost.py [--epochs 3] [--model small|paper]

Processor time of one thread. The panel is every attack and the inference of the records that the
test did not ask for, without training the shadow model, which all trials of an architecture share;
training is the median epoch, times 30.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
import torch

from sweep.settings import from_environment
from trainables import attacks
from trainables.attacks import Signals, lira
from trainables.config import TrialConfig, parse
from trainables.result import EpochReport
from trainables.system.communication import Alone
from trainables.tasks import _leakage, _setup, _shadow
from trainables.training import train

_MODELS = {
    "small": {"word_buckets": 1_024, "word_dim": 32, "char_filters": 24, "num_layers": 1}
    | {"hidden_size": 64},
    "paper": {},
}


def panel(config: TrialConfig) -> tuple[float, float]:
    """Seconds of processor of 30 epochs of training, and of the panel after it."""
    settings = from_environment()
    places = {"data_dir": settings.data_dir, "cache_dir": Path(tempfile.mkdtemp())}
    setup = _setup.prepare(config, comm=Alone(), **places)
    times = [time.process_time()]

    def report(epoch: EpochReport) -> bool:
        times.append(time.process_time())
        return True

    train(
        setup,
        epochs=config.training.epochs,
        seed=0,
        folder=None,
        comm=Alone(),
        report=report,
    )
    found = []
    for _ in range(3):
        judged, test = _leakage.targets(setup), setup.split.test
        started = time.process_time()
        setup.infer(test)
        without = time.process_time() - started
        started = time.process_time()
        asked = np.union1d(test, judged.records)
        said = setup.infer(asked).take(np.searchsorted(asked, judged.records))
        folder = Path(tempfile.mkdtemp())
        _leakage.measure(setup, judged, said, folder=folder, shadow=_shadow.signals, **places)
        found.append(time.process_time() - started - without)
    # The first pass trains the shadow model.
    return 30 * statistics.median(np.diff(times)), min(found[1:])


def references(num_trials: int, num_records: int) -> tuple[float, float]:
    """Seconds of LiRA for all trials against all others, and of every such attack together."""
    rng = np.random.default_rng(0)
    trials = []
    for _ in range(num_trials):
        member = rng.random(num_records) < 0.5
        trials.append(
            Signals(
                records=np.arange(num_records),
                member=member,
                features=np.zeros((num_records, 8)),
                log_confidence=-np.exp(rng.normal(size=num_records) - member),
                pairs=np.full(num_records, -1),
                population=np.zeros(num_records, dtype=np.bool_),
                mode="bernoulli",
            )
        )
    attacks.sweep_scores(trials[:2])  # imports
    started = time.process_time()
    lira.all_scores(trials)
    alone = time.process_time() - started
    attacks.sweep_scores(trials)
    return alone, time.process_time() - started - alone


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=3, help="epochs that are trained")
    parser.add_argument("--model", choices=tuple(_MODELS), default="small")
    options = parser.parse_args()
    torch.set_num_threads(1)
    for trials, records in ((25, 10_000), (50, 10_000), (100, 10_000), (100, 20_000)):
        lira, every = references(trials, records)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(
            f"{trials} trials x {records} records: LiRA {lira:.2f} s, all that use other trials"
            f" {every:.2f} s, peak {peak:.0f} MiB",
            flush=True,
        )
    for engine in ("sgd", "edp_sgd", "dp_sgd"):
        config = parse(
            {
                "engine": engine,
                "data": {"name": "atis", "split": "bernoulli"},
                "model": {"name": "clc", **_MODELS[options.model]},
                "training": {"epochs": options.epochs, "num_workers": 2},
            }
        )
        training, measuring = panel(config)
        print(
            f"{options.model} CLC, {engine}: 30 epochs {training:.1f} s, panel {measuring:.2f} s,"
            f" {100 * measuring / training:.1f} %",
            flush=True,
        )


if __name__ == "__main__":
    main()
