"""Simulated models with known members, as draws of numbers."""

import numpy as np

from trainables.attacks import Knowledge, bag_of_words, gather
from trainables.attacks._panel import panel, possible, record_scores, sweep_scores


def signals(
    member,
    strength=0.0,
    *,
    seed=0,
    mode="bernoulli",
    corpus="corpus",
    pairs=None,
    population=None,
    difficulty=None,
):
    """Signals of a model whose confidence is higher on members by `strength` (in units
    of noise).

    `difficulty` [n] shifts a record's confidence in every model alike.
    """
    rng = np.random.default_rng(seed)
    n = len(member)
    shift = np.zeros(n) if difficulty is None else difficulty
    logit = 1.0 + strength * member + shift + rng.normal(size=n)
    top = 1 / (1 + np.exp(-logit))
    second = (1 - top) * 0.7
    features = np.column_stack(
        [
            top,
            second,
            (1 - top) * 0.2,
            top,
            second,
            (1 - top) * 0.2,
            top**2,
            np.log(top),
        ]
    )
    return gather(
        records=np.arange(n),
        member=member,
        mode=mode,
        features=features,
        log_confidence=np.log(top),
        pairs=pairs,
        population=population,
        corpus=corpus,
    )


def coins(n, seed):
    """An independent fair coin for each of n records."""
    return np.random.default_rng([seed, 1]).random(n) < 0.5


def paired_coins(num_pairs, seed):
    """(member, pairs) of 2 n records, one of each pair a member by a fair coin."""
    first = coins(num_pairs, seed)
    member = np.empty(2 * num_pairs, dtype=bool)
    member[::2], member[1::2] = first, ~first
    return member, np.repeat(np.arange(num_pairs), 2)


def world(mode="bernoulli", strength=1.0, seed=0, n=1_000):
    """A target whose last 200 records are of the population, which are no members."""
    outside = np.arange(n) >= n - 200
    member, pairs = paired_coins(n // 2, seed)
    if mode != "paired":
        member, pairs = coins(n, seed), np.full(n, -1)
    return signals(
        member & ~outside,
        strength,
        seed=500 + seed,
        mode=mode,
        pairs=np.where(outside, -1, pairs),
        population=outside,
    )


def knowledge(n=1_000):
    """A public corpus' signals, and texts of n records."""
    rng = np.random.default_rng(0)
    lengths = rng.integers(1, 8, n)
    return Knowledge(
        shadow=signals(coins(500, 77), 1.0, seed=78, corpus="public", mode="paper"),
        texts=bag_of_words(rng.integers(0, 100, lengths.sum()), lengths, num_types=100),
    )


NOTHING = Knowledge()


def every_figure(target, knowledge=NOTHING, *, sampling="shuffle", unit="record"):
    """Those of every attack that is possible."""
    how = {"sampling": sampling, "unit": unit}
    scores = record_scores(
        target, knowledge, attacks=possible(target, knowledge, **how)
    )
    return panel(target, scores, delta=1e-5, **how)


def of_sweep(trials):
    how = {"delta": 1e-5, "sampling": "shuffle", "num_trials": len(trials)}
    return [
        panel(*each, **how) for each in zip(trials, sweep_scores(trials), strict=True)
    ]
