"""Mechanisms for the tests of this folder, in the words of a config."""

from __future__ import annotations

import json
from typing import Any

from sweep.spending.entries import ENTRY, Entry
from trainables.config import Engine, TrainingConfig
from trainables.guarantee.mechanism import Mechanism, NeighboringRelation
from trainables.guarantee.releases import Allocated, Gaussian, Release, Sampled, Step, Training
from trainables.privacy.from_config import build_from
from trainables.privacy.summary import plain


def mechanism(
    engine: Engine = "edp_sgd",
    *,
    num_records: int = 2_560,
    batch: int = 64,
    workers: int = 8,
    epochs: int = 30,
    delta: float | None = 5e-4,
    decay: str = "none",
    tau: float = 0.0,
    undeclared: tuple[str, ...] = (),
    **privacy: Any,
) -> Mechanism:
    if decay != "none":
        privacy["noise_decay"] = {"kind": decay, "tau": tau}
    return build_from(
        engine,
        {"delta": delta, **privacy},
        training=TrainingConfig(expected_batch_size=batch, num_workers=workers, epochs=epochs),
        num_records=num_records,
        undeclared=undeclared,
    )


def training(*steps: Step, relation: NeighboringRelation = "add_or_remove_one") -> Training:
    return Training(steps=steps, neighboring_relation=relation)


def sampled(sigma: float = 1.0, *, steps: int = 1_200, rate: float = 64 / 2_600) -> Step:
    if rate == 1:
        return Gaussian(sigma=sigma, count=steps)
    return Sampled(sigma=sigma, count=steps, rate=rate)


def poisson(sigma: float = 1.0, *, steps: int = 1_200, rate: float = 64 / 2_600) -> Training:
    return training(sampled(sigma, steps=steps, rate=rate))


def shuffled(sigma: float = 1.0, *, epochs: int = 30) -> Training:
    return training(Gaussian(sigma=sigma, count=epochs), relation="replace_one")


def allocated(sigma: float = 1.0, *, epochs: int = 30, steps: int = 40) -> Training:
    return training(Allocated(sigma=sigma, count=epochs, steps=steps))


def histogram(sigma: float, count: int = 1) -> tuple[Gaussian, ...]:
    """What stands beside the steps."""
    return (Gaussian(sigma=sigma, count=count),)


def through_the_ledger(what: Release) -> Release:
    """A release as the ledger reads what it wrote."""
    entry = Entry(
        dataset="d", sweep="s", trial="t", attempt=1, first_epoch=0, epochs=1, delta=1e-5,
        release=what,
    )  # fmt: skip
    return ENTRY.validate_json(json.dumps(plain(ENTRY.dump_python(entry)))).release
