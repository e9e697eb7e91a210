"""Mechanisms for the tests of this folder, in the words of a config."""

from __future__ import annotations

from typing import Any

from sweep.spending.entries import ENTRY
from trainables.accountants import Release
from trainables.config import Engine, TrainingConfig
from trainables.guarantee.mechanism import Mechanism
from trainables.privacy.from_config import build_from


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


def poisson(sigma: float = 1.0, *, steps: int = 1_200, rate: float = 64 / 2_600) -> Release:
    return Release(
        phases=((sigma, steps),),
        sampling="poisson",
        sample_rate=rate,
        neighboring_relation="add_or_remove_one",
    )


def shuffled(sigma: float = 1.0, *, epochs: int = 30) -> Release:
    return Release(
        phases=((sigma, epochs),),
        sampling="shuffle",
        sample_rate=1.0,
        neighboring_relation="replace_one",
    )


def allocated(sigma: float = 1.0, *, epochs: int = 30, steps: int = 40) -> Release:
    return Release(
        phases=((sigma, epochs),),
        sampling="random_allocation",
        sample_rate=1 / steps,
        neighboring_relation="add_or_remove_one",
    )


def from_ledger(fields: dict[str, Any]) -> Release:
    """A release from its plain data, as the ledger reads it."""
    place = {"dataset": "d", "sweep": "s", "trial": "t", "attempt": 1, "first_epoch": 0}
    return ENTRY.validate_python({**place, "epochs": 1, "delta": 1e-5, "release": fields}).release
