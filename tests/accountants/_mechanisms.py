"""Mechanisms for the tests of this folder, in the words of a config."""

import json

from sweep.spending.ledger import ENTRY, Entry
from trainables.config.mechanism import build_from
from trainables.config.trial import TrainingConfig
from trainables.dp.accounting.releases import Allocated, Gaussian, Sampled, Training
from trainables.dp.accounting.summary import plain


def mechanism(
    engine="edp_sgd",
    *,
    num_records=2_560,
    batch=64,
    workers=8,
    epochs=30,
    delta=5e-4,
    decay="none",
    tau=0.0,
    undeclared=(),
    **privacy,
):
    if decay != "none":
        privacy["noise_decay"] = {"kind": decay, "tau": tau}
    return build_from(
        engine,
        {"delta": delta, **privacy},
        training=TrainingConfig(
            expected_batch_size=batch, num_workers=workers, epochs=epochs
        ),
        num_records=num_records,
        undeclared=undeclared,
    )


def training(*steps, relation="add_or_remove_one", **other):
    return Training(steps=steps, neighboring_relation=relation, **other)


def sampled(sigma=1.0, *, steps=1_200, rate=64 / 2_600):
    if rate == 1:
        return Gaussian(sigma=sigma, count=steps)
    return Sampled(sigma=sigma, count=steps, rate=rate)


def poisson(sigma=1.0, *, steps=1_200, rate=64 / 2_600, **other):
    return training(sampled(sigma, steps=steps, rate=rate), **other)


def shuffled(sigma=1.0, *, epochs=30, **other):
    return training(
        Gaussian(sigma=sigma, count=epochs), relation="replace_one", **other
    )


def allocated(steps):
    return training(Allocated(sigma=1.0, count=30, steps=steps))


def histogram(sigma, count=1):
    """What stands beside the steps."""
    return (Gaussian(sigma=sigma, count=count),)


def through_the_ledger(what):
    """A release as the ledger reads what it wrote."""
    entry = Entry(
        dataset="d", sweep="s", trial="t", attempt=1, first_epoch=0, epochs=1, delta=1e-5,
        release=what,
    )  # fmt: skip
    return ENTRY.validate_json(json.dumps(plain(ENTRY.dump_python(entry)))).release
