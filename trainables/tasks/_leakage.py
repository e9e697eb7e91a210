"""Membership leakage of a trained model."""

import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import scipy.sparse as sparse
from numpy.typing import NDArray

from trainables import attacks, catalogue, saved_predictions
from trainables.attacks import Knowledge, Signals, _panel
from trainables.data.storage import token_places
from trainables.dp.population import Ids
from trainables.dp.seeding import generator
from trainables.errors import InvalidInput
from trainables.io.files import make_folder
from trainables.tasks import _shadow
from trainables.tasks._inference import Inference
from trainables.tasks._setup import TrialSetup


@dataclass(frozen=True, kw_only=True)
class Leakage:
    """The figures of every attack that a single trial allows, on rank 0; for the
    curator only.
    """

    metrics: dict[str, float] = field(default_factory=dict)
    seconds: float = 0.0
    shadow_seconds: float = 0.0
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, eq=False)
class Targets:
    """The records that attacks guess or calibrate on, without those outside of the
    schema.

    `records` int64[n]; `member` bool[n]; `pairs` int64[n], -1 without; `population`
    bool[n]: non-members known to the attacker, which the attack does not guess.
    """

    records: Ids
    member: NDArray[np.bool_]
    pairs: Ids
    population: NDArray[np.bool_]


def measure(
    setup: TrialSetup,
    found: Targets,
    predicted: Inference,
    *,
    folder: Path,
) -> Leakage:
    """Run the attacks on the model's predictions of the targets, and keep the signals.

    Attacks that compare with other trials of the sweep run later, from `signals.npz` in
    each trial's folder.
    """
    started = time.perf_counter()
    if not (
        np.isfinite(predicted.features).all()
        and np.isfinite(predicted.log_confidence).all()
    ):
        why = "no leakage: attacks compare scores, and the model's are not finite for every record"
        return Leakage(notes=(why,))
    signals = attacks.gather(
        **vars(found),
        mode=setup.config.data.split,
        features=predicted.features,
        log_confidence=predicted.log_confidence,
        corpus=setup.corpus.fingerprint,
    )
    chosen = names(setup)
    shadow_signals, shadow_seconds = None, 0.0
    notes: tuple[str, ...] = ()
    if "shadow" in chosen:
        try:
            shadow_signals, shadow_seconds = _shadow.signals(
                setup.config,
                setup.corpus,
                comm=setup.comm,
                data_dir=setup.data_dir,
                cache_dir=setup.cache_dir,
            )
        except InvalidInput as problem:
            # Its scores are not finite; the trial is trained and paid.
            chosen.discard("shadow")
            notes = (f"no attack shadow: {problem}",)
    metrics: dict[str, float] = {}
    if setup.comm.rank == 0:
        known = Knowledge(shadow=shadow_signals, texts=_texts(setup, signals))
        sampling, unit = setup.mechanism.sampling, setup.mechanism.unit
        can = set(_panel.possible(signals, known, sampling=sampling, unit=unit))
        if setup.config.evaluation.attacks is not None:
            notes += tuple(
                f"attack {name}: not possible on this split or unit"
                for name in chosen - can
            )
        chosen &= can
        scores = _panel.record_scores(signals, known, attacks=chosen)
        metrics = _panel.panel(
            signals, scores, delta=setup.mechanism.delta, sampling=sampling, unit=unit
        )
        make_folder(folder)
        attacks.write_signals(folder / "signals.npz", signals)
        saved_predictions.write_scores(folder, scores)
    return Leakage(
        metrics=metrics,
        seconds=time.perf_counter() - started - shadow_seconds,
        shadow_seconds=shadow_seconds,
        notes=notes,
    )


def names(setup: TrialSetup) -> set[str]:
    """The chosen attacks that need no other trial; all such by default."""
    chosen = setup.config.evaluation.attacks
    allowed = (
        attacks.valid_attacks(setup.config.data.split) if chosen is None else chosen
    )
    return {
        name
        for name in allowed
        if "references" not in catalogue.entry("attacks", name).NEEDS
    }


def _texts(setup: TrialSetup, signals: Signals) -> sparse.csr_matrix:
    """Bag-of-words features of the records of the signals, which need no model."""
    corpus, ids = setup.corpus, signals.records
    lengths = corpus.lengths[ids].astype(np.int64)
    tokens = corpus.tokens[token_places(corpus.offsets[ids], lengths)]
    return attacks.bag_of_words(tokens, lengths, num_types=len(corpus.types))


def targets(setup: TrialSetup) -> Targets:
    """As many members as non-members (fixed splits), or the whole audit pool."""
    split, seed = setup.split, setup.config.data.split_seed
    if split.audit_pool is not None and split.mask is not None:
        ids, member = split.audit_pool, split.mask
        population = np.concatenate([split.validation, split.test])
    else:
        few = min(len(split.train), len(split.test))
        # The name of the stream fixes which records are drawn.
        rng = generator(seed, "judged")
        members, others = (
            np.sort(rng.permutation(side)[:few]) for side in (split.train, split.test)
        )
        ids = np.concatenate([members, others])
        member = np.arange(len(ids)) < few
        population = split.validation
    every = np.concatenate([ids, population])
    known = ~setup.corpus.outside[every]
    outside = np.arange(len(every)) >= len(ids)
    is_member, pairs = np.zeros(len(every), np.bool_), np.full(len(every), -1)
    is_member[: len(ids)] = member
    if split.pair_numbers is not None:
        pairs[: len(ids)] = split.pair_numbers
    return Targets(
        records=every[known],
        member=is_member[known],
        pairs=pairs[known],
        population=outside[known],
    )
