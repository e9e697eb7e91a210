"""How well the releases of the real engine tell D from D and one long record more.

    python benchmarks/distinguish.py [--records 8000] [--words 1000] [--steps 4] [--runs
    100]

The engine trains a linear tagger on full batches at a claimed epsilon (delta 1e-5),
`--runs` times on each side, with new noise. The adversary knows all records and sees
the update of every step: it sums the projections on the direction in which the record
moves the noiseless clipped sum at the weights of that step, in standard deviations of
the noise. That is the likelihood-ratio test for Gaussian noise, so the difference of
both sides' means in standard deviations estimates the mu of the whole trial. It must be
at most the claim's mu within the interval (95 %).
"""

from __future__ import annotations

import argparse
import math
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from scipy.optimize import brentq
from torch import Tensor, nn

from trainables import catalogue
from trainables.config.mechanism import build
from trainables.config.trial import parse
from trainables.dp.accounting.gaussian import gaussian_epsilon
from trainables.dp.engines.engine import Engine, Setup
from trainables.dp.layers.linear import Linear
from trainables.dp.layers.packing import Rows
from trainables.dp.mechanism import Mechanism
from trainables.dp.noise import SecretKey, new_key
from trainables.system.communication import Alone

WIDTH, TAGS = 16, 8
DELTA = 1e-5
LEARNING_RATE = 0.01


class Tagger(nn.Module):
    """One linear map over words, as the tag head of `features`."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.head = Linear(WIDTH, TAGS, bias=False)

    def losses(self, batch: tuple[Tensor, Tensor, np.ndarray, int]) -> Tensor:
        """[n]: the sum of a record's cross-entropies."""
        x, tags, record, number = batch
        scores = self.head(x, Rows(record, number))
        each = nn.functional.cross_entropy(scores, tags, reduction="none")
        return torch.zeros(number).index_add(0, torch.from_numpy(record), each)


class Records:
    """A loader of records of 3 to 11 words, and a last one of `words`, unlike the
    others.
    """

    def __init__(self, number: int, words: int) -> None:
        rng = np.random.default_rng(0)
        self.lengths = np.append(rng.integers(3, 12, number), words)
        self.ends = np.cumsum(self.lengths)
        x = rng.normal(size=(int(self.ends[-1]), WIDTH)) + 1.0
        x[-words:] = -x[-words:]
        self.x = torch.from_numpy(x.astype(np.float32))
        self.tags = torch.from_numpy(rng.integers(0, 2, len(x)))

    def batch(self, ids: np.ndarray) -> tuple[Tensor, Tensor, np.ndarray, int]:
        """The records 0 to len(ids) - 1: full batches are of no other order."""
        stop = int(self.ends[len(ids) - 1])
        record = np.repeat(np.arange(len(ids)), self.lengths[: len(ids)])
        return self.x[:stop], self.tags[:stop], record, len(ids)


def mechanism_of(options: argparse.Namespace, mu: float) -> Mechanism:
    """Full batches whose steps compose to `mu`; the declared n is that of D."""
    fields = {
        "engine": "dp_sgd",
        "data": {"num_records": options.records},
        "privacy": {
            "sampling": "full",
            "max_grad_norm": options.max_grad_norm,
            "noise_multiplier": math.sqrt(options.steps) / mu,
            "delta": DELTA,
        },
        "training": {"epochs": options.steps, "num_workers": 1},
    }
    return build(parse(fields), num_records=options.records)


def engine_of(
    mechanism: Mechanism, loader: Records, number: int, key: SecretKey
) -> Engine:
    """The engine on the first `number` records."""
    made: Engine = catalogue.entry("engines", "dp_sgd").make(
        Tagger(),
        mechanism,
        Setup(
            loader=loader,
            ids=np.arange(number),
            learning_rate=LEARNING_RATE,
            key=key,
            comm=Alone(),
            # the check would end a trial of a broken engine before it is measured
            compares=False,
        ),
    )
    return made


def statistic(mechanism: Mechanism, loader: Records, number: int) -> float:
    """The adversary's statistic of one trial on the first `number` records."""
    key, n, total = new_key(Alone()), mechanism.num_records, 0.0
    engine = engine_of(mechanism, loader, number, key)
    silent = replace(mechanism, noise_multiplier=0.0)
    std = mechanism.noise_multiplier * mechanism.max_grad_norm
    for epoch in range(mechanism.epochs):  # of one step each
        sums = []
        for size in (n, n + 1):
            quiet = engine_of(silent, loader, size, key)
            quiet.model.load_state_dict(engine.model.state_dict())
            quiet.step(0, 0)
            sums.append(quiet.released.double() * mechanism.num_microbatches)
        moved = sums[1] - sums[0]
        engine.step(epoch, 0)
        noisy = engine.released.double() * mechanism.num_microbatches - sums[0]
        total += float(noisy @ moved) / std**2
    return total


def estimate(without: np.ndarray, having: np.ndarray) -> tuple[float, float]:
    """mu, and the half width of its interval: the variance of a standardised difference
    of means (Hedges & Olkin 1985).

    >>> estimate(np.array([-1.0, 1.0, 0.0]), np.array([1.0, 3.0, 2.0]))[0]
    2.0
    """
    count = len(without)
    pooled = math.sqrt((without.var(ddof=1) + having.var(ddof=1)) / 2)
    mu = float(having.mean() - without.mean()) / pooled
    return mu, 1.96 * math.sqrt(2 / count + mu**2 / (4 * count))


def main() -> None:
    """Print mu as measured, its interval, and the claim's."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--records", type=int, default=8_000)
    parser.add_argument("--words", type=int, default=1_000)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--epsilon", type=float, default=8.0)
    parser.add_argument("--max-grad-norm", type=float, default=0.2)
    options = parser.parse_args()
    torch.set_num_threads(1)
    claimed = float(
        brentq(
            lambda mu: gaussian_epsilon(mu, DELTA) - options.epsilon,
            1e-6,
            100.0,
            xtol=1e-9,
        )
    )
    mechanism, loader = (
        mechanism_of(options, claimed),
        Records(options.records, options.words),
    )
    sides: list[Any] = [
        np.array([statistic(mechanism, loader, number) for _ in range(options.runs)])
        for number in (options.records, options.records + 1)
    ]
    mu, half = estimate(*sides)
    print(
        f"{options.runs} trials a side of {mechanism.steps} steps on {options.records}"
        f" records, without and with one of {options.words} words: mu {mu:.3f}"
        f" ({mu - half:.3f} to {mu + half:.3f}), claimed {claimed:.3f} (epsilon"
        f" {options.epsilon:g} at delta {DELTA:g}); measured mu as an epsilon:"
        f" {gaussian_epsilon(mu, DELTA):.2f}"
    )


if __name__ == "__main__":
    main()
