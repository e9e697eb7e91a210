"""Attacks that use the finished trials of a sweep as each other's reference models.

From the signals, attack scores and test counts in the trials' folders RMIA, LiRA and
similar attacks are computed for all trials against all others, the certified bounds are
corrected for the number of trials and compared with each trial's claim, and each trial
is compared with its baseline. The result is the trial's panel in the log of the sweep;
a later one replaces it.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import numpy as np

from sweep.results import select
from sweep.results.frame import paired_change
from sweep.store.sweeps import SweepFolder, TrialRecord
from trainables import attacks, saved_predictions
from trainables.attacks import Signals, _panel, one_run
from trainables.config.sections import RANDOM_SPLITS, SplitMode
from trainables.dp.mechanism import Sampling
from trainables.dp.seeding import generator
from trainables.errors import InvalidData, InvalidInput
from trainables.metrics import membership

SIGNALS = "signals.npz"
_OF_THE_STRONGEST = ("epsilon_estimate_gdp", "epsilon_estimate_cp")


@dataclass
class FinishedTrial:
    """A finished trial with its folder and its signals, and what is found of it: the
    panel.
    """

    record: TrialRecord
    place: Path
    signals: Signals | None = None
    metrics: dict[str, float] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    @property
    def known(self) -> dict[str, float | None]:
        """The trial's own figures with those of the comparison."""
        return {**self.record.metrics, **self.metrics}

    def note(self, problem: InvalidInput) -> None:
        """Add a problem to the notes, once."""
        if str(problem) not in self.notes:
            self.notes.append(str(problem))


def write_panels(folder: SweepFolder) -> None:
    """Compute and write every finished trial's panel, with a note on evidence that is
    damaged.
    """
    ended = []
    for record in folder.records():
        if record.status.is_finished:
            each = FinishedTrial(record, folder.trial_folder(record.plan.id))
            try:
                if (each.place / SIGNALS).exists():
                    each.signals = attacks.read_signals(each.place / SIGNALS)
            except InvalidData as problem:
                each.note(problem)
            ended.append(each)
    for pool in _pools(ended):
        _judge_pool(pool)
    correct_bounds(ended)
    found = select.baselines([each.record for each in ended])
    by_id = {each.record.plan.id: each for each in ended}
    for each in ended:
        plan = each.record.plan
        claim = violation(each.known, plan.config.data.split)
        try:
            each.metrics.update(against_baseline(each, found, by_id))
        except InvalidData as problem:
            each.note(problem)
        panel = {"metrics": each.metrics, "notes": each.notes, "violation": claim}
        folder.write_panel(plan.id, panel)


def violation(
    metrics: Mapping[str, float | None], split: SplitMode
) -> dict[str, float] | None:
    """The certified bound and the claim of the same delta and relation that it
    violates, if any.
    """
    bound = metrics.get("epsilon_lower_bound")
    claim = metrics.get(attacks.audited(split))
    if bound is None or claim is None or not one_run.violates(bound, claim):
        return None
    return {"epsilon_lower_bound": bound, "epsilon_claimed": claim}


def _pools(ended: Sequence[FinishedTrial]) -> list[list[tuple[FinishedTrial, Signals]]]:
    """Pools of two or more trials on the same records, with a coin for each record (or
    pair).
    """
    pools: dict[tuple[str, str, bytes], list[tuple[FinishedTrial, Signals]]] = {}
    for each in ended:
        own = each.signals
        if own is not None and own.mode in RANDOM_SPLITS:
            pools.setdefault((own.mode, own.corpus, own.records.tobytes()), []).append(
                (each, own)
            )
    return [pool for pool in pools.values() if len(pool) > 1]


def _judge_pool(pool: Sequence[tuple[FinishedTrial, Signals]]) -> None:
    try:
        scores = _panel.sweep_scores([trial for _, trial in pool])
        figures = [
            _against_others(each.record, trial, own, num_trials=len(pool))
            for (each, trial), own in zip(pool, scores, strict=True)
        ]
    except InvalidInput as problem:
        for each, _ in pool:
            each.note(problem)
        return
    for (each, _), own, found in zip(pool, scores, figures, strict=True):
        best = attacks.strongest({**each.record.metrics, **found})
        if best is not None and best.attack not in own:
            # The trial's own panel has the estimates of the strongest attack.
            found = {n: v for n, v in found.items() if n not in _OF_THE_STRONGEST}
        each.metrics.update({**found, "mia_num_references": float(len(pool) - 1)})
        try:
            saved_predictions.write_scores(each.place, own)
        except InvalidData as problem:  # of earlier scores, which are kept
            each.note(problem)


def _against_others(
    record: TrialRecord,
    trial: Signals,
    scores: Mapping[str, membership.Floats],
    *,
    num_trials: int,
) -> dict[str, float]:
    """The figures of the attacks that use all other trials, and the certified bound
    where there is one: the bounds hold together with probability 95 %.
    """
    card = record.privacy
    return _panel.panel(
        trial,
        scores,
        delta=record.plan.delta or 1e-5,
        sampling=cast(Sampling, card.sampling) if card else "shuffle",
        unit=card.unit if card else "record",
        num_trials=num_trials,
    )


def correct_bounds(ended: Sequence[FinishedTrial]) -> None:
    """Make the certified bounds of all pools, and of trials without one, hold
    together.
    """
    bounded = [
        each for each in ended if each.known.get("epsilon_lower_bound") is not None
    ]
    for each in bounded:
        # Those of a pool that is the whole sweep hold together already.
        if each.metrics.get("epsilon_lower_bound_p") != one_run.ERROR / len(bounded):
            each.metrics.update(one_run.corrected(each.known, num_trials=len(bounded)))


def against_baseline(
    trial: FinishedTrial,
    found: Sequence[select.Group],
    ended: Mapping[str, FinishedTrial],
) -> dict[str, float]:
    """Delta SER % and Delta MIA % with intervals, by paired bootstrap over the same
    records, of the baseline with the same seed, or of its first trial. `found` are the
    baselines of the `ended`.

    Raises: InvalidData for a damaged file.
    """
    record = trial.record
    group = None if record.plan.baseline else select.nearest_baseline(record, found)
    if group is None:
        return {}
    base = ended[group.of_seed(record.plan.seed).plan.id]
    result = paired_change([trial.place], [base.place]) or {}
    if trial.signals is not None and base.signals is not None:
        sides = ((trial.signals, trial.place), (base.signals, base.place))
        result |= _leakage_change(*sides, baseline=base.known)
    return {name: value for name, value in result.items() if math.isfinite(value)}


def _leakage_change(
    trial: tuple[Signals, Path],
    base: tuple[Signals, Path],
    *,
    baseline: Mapping[str, float | None],
) -> dict[str, float]:
    """The change of leakage, by the strongest attack on the `baseline` that both trials
    have.
    """
    rows = [own.is_evaluated for own, _ in (trial, base)]
    if not np.array_equal(trial[0].records[rows[0]], base[0].records[rows[1]]):
        return {}
    if not all(
        (place / saved_predictions.SCORES).exists() for _, place in (trial, base)
    ):
        return {}
    scores = [saved_predictions.read_scores(place) for _, place in (trial, base)]
    both = scores[0].keys() & scores[1].keys()
    known = {
        f"{attacks.auc_of(name)}{end}" for name in both for end in ("", "_low", "_high")
    }
    best = attacks.strongest(
        {name: value for name, value in baseline.items() if name in known}
    )
    if best is None:
        return {}
    sign = -1.0 if best.inverted else 1.0
    sides = [
        (sign * own[best.attack][row], each.member[row])
        for own, row, (each, _) in zip(scores, rows, (trial, base), strict=True)
    ]
    return membership.auc_change(*sides, rng=generator(0, "bootstrap", "baseline"))
