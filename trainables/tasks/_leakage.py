"""What a trained model gives away about who was in its training data: one inference pass."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from trainables import attacks, catalogue
from trainables.attacks import Knowledge, Signals
from trainables.metrics import membership
from trainables.seeding import generator
from trainables.tasks._setup import Setup

ShadowSignals = Callable[..., tuple[Signals, float]]


@dataclass(frozen=True, kw_only=True)
class Leakage:
    """The figures of every attack that a lone trial allows; all for the curator only."""

    metrics: dict[str, float]
    seconds: float
    shadow_seconds: float
    notes: tuple[str, ...]


def measure(
    setup: Setup, *, folder: Path, data_dir: Path, cache_dir: Path, shadow: ShadowSignals
) -> Leakage:
    """Infer the records that may be judged, keep the signals, run the attacks.

    Attacks that compare with other trials of the sweep wait until those are there; their signals
    are in `signals.npz` of each trial's folder.
    """
    names = [
        name
        for name in setup.config.evaluation.attacks
        if "references" not in catalogue.entry("attacks", name).NEEDS
    ]
    started = time.perf_counter()
    signals = judged_signals(setup)
    if setup.comm.rank == 0:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        attacks.write_signals(folder / "signals.npz", signals)
    notes: list[str] = []
    shadow_signals, shadow_seconds = None, 0.0
    if "shadow" in names:
        shadow_signals, shadow_seconds = shadow(
            setup.config, setup.corpus, comm=setup.comm, data_dir=data_dir, cache_dir=cache_dir
        )
    metrics: dict[str, float] = {}
    knowledge = Knowledge(shadow=shadow_signals)
    rows = signals.judged
    for name in names:
        scores = catalogue.entry("attacks", name).scores(signals, knowledge, seed=0)
        figures = membership.figures(scores[rows], signals.member[rows])
        metrics |= {f"mia_{name}_{figure}": value for figure, value in figures.items()}
    return Leakage(
        metrics=metrics,
        seconds=time.perf_counter() - started - shadow_seconds,
        shadow_seconds=shadow_seconds,
        notes=tuple(notes),
    )


def judged_signals(setup: Setup) -> Signals:
    """Signals of as many members as non-members (fixed splits), or of the whole audit pool."""
    split, seed = setup.split, setup.config.data.split_seed
    pair = None
    if split.audit_pool is not None and split.mask is not None:
        ids, member, pair = split.audit_pool, split.mask, split.pair_numbers
        population = np.concatenate([split.validation, split.test])
    else:
        few = min(len(split.train), len(split.test))
        rng = generator(seed, "judged")
        members, others = (
            np.sort(rng.permutation(side)[:few]) for side in (split.train, split.test)
        )
        ids = np.concatenate([members, others])
        member = np.arange(len(ids)) < few
        population = split.validation
    every = np.concatenate([ids, population])
    known = ~setup.corpus.outside[every]
    is_member = np.concatenate([member, np.zeros(len(population), dtype=np.bool_)])
    outside = np.arange(len(every)) >= len(ids)
    pairs = np.full(len(every), -1, dtype=np.int64)
    if pair is not None:
        pairs[: len(ids)] = pair
    said = setup.infer(every[known])
    return attacks.gather(
        records=every[known],
        member=is_member[known],
        mode=setup.config.data.split,
        features=said.features,
        log_confidence=said.log_confidence,
        pairs=pairs[known],
        population=outside[known],
        corpus=setup.corpus.fingerprint,
        trial=setup.config.id,
    )
