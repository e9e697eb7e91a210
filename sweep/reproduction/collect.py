"""Reads finished sweeps of a table: the chosen points, and a row for each method of a pair."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from search_spaces.expansion import expand
from sweep.reproduction.rows import Row
from sweep.reproduction.stages import Stage
from sweep.reproduction.statistics import Estimate, mean, relative_change
from sweep.results import select
from sweep.store import sweeps as store
from sweep.store.sweeps import SweepFolder, TrialRecord
from trainables import attacks, evidence
from trainables.figures import EPSILON, EPSILON_PAPER
from trainables.metrics import membership
from trainables.seeding import generator

PAPERS_ATTACK = "shadow"
_BY = "validation_ser"


def records_of(home: Path, stage: Stage) -> list[TrialRecord]:
    """The trials of a stage that the present description has; empty where it has not begun."""
    if not (home / stage.name / "sweep.json").exists():
        return []
    wanted = variants(stage)
    return [r for r in store.open_sweep(home, stage.name).records() if r.plan.id in wanted]


def is_complete(stage: Stage, records: Sequence[TrialRecord]) -> bool:
    """Whether every trial of the stage has a result, or is refused by its plan."""
    return has_ended(stage, records) and not any(r.status.is_resumed for r in records)


def has_ended(stage: Stage, records: Sequence[TrialRecord]) -> bool:
    """Whether no trial of the stage is pending; failed ones are not."""
    return len(records) == len(variants(stage)) and not any(r.status.is_pending for r in records)


def variants(stage: Stage) -> dict[str, str]:
    """The variant of each trial's id; a trial keeps it where labels change."""
    points = expand(stage.space).points
    return {p.config.id: p.variant for p in points if p.config is not None}


def best(records: Sequence[TrialRecord]) -> TrialRecord | None:
    """The trial with the least validation SER, of equal ones that with the smaller epsilon; None
    without one that has ended.
    """
    ranked = select.rank_groups(select.groups(records), _BY)
    return ranked[0].records[0] if ranked else None


def rows(home: Path, stage: Stage) -> list[Row]:
    """A row for each method of a stage with a finished trial, in the order of the stage."""
    records = [r for r in records_of(home, stage) if r.status.is_finished]
    if not records:
        return []
    folder = store.open_sweep(home, stage.name)
    by_method: dict[str, list[TrialRecord]] = {}
    labels = variants(stage)
    for record in records:
        by_method.setdefault(stage.methods[labels[record.plan.id]], []).append(record)
    baseline = by_method.get(next(iter(stage.methods.values())), [])
    return [
        _row(folder, stage, label, by_method[method], baseline)
        for label, method in stage.methods.items()
        if method in by_method
    ]


def _row(
    folder: SweepFolder,
    stage: Stage,
    label: str,
    records: Sequence[TrialRecord],
    baseline: Sequence[TrialRecord],
) -> Row:
    first = records[0].plan
    is_baseline = {r.plan.id for r in records} == {r.plan.id for r in baseline}
    against = [] if is_baseline else baseline
    strongest = _strongest_attack(records)
    errors = _estimates(records, "ser")
    return Row(
        corpus=stage.pair.corpus,
        model=stage.pair.model,
        part=stage.part,
        method=stage.methods[label],
        label=label,
        point=stage.points.get(label),
        seeds=len(errors),
        epochs=first.epochs,
        epochs_done=max(r.epochs_done for r in records),
        seconds=sum(r.seconds for r in records),
        ser=mean(errors),
        mia=mean(_estimates(records, attacks.auc_of(PAPERS_ATTACK))),
        leakage=mean(_estimates(records, "leakage")),
        attack=None if strongest is None else _name(*strongest),
        ser_change=_change(folder, records, against, "ser", attack=None),
        mia_change=_mia_change(folder, records, against),
        leakage_change=_leakage_change(folder, records, against),
        delta=first.delta,
        epsilon=_largest(records, EPSILON),
        epsilon_paper=_largest(records, EPSILON_PAPER),
    )


def _estimates(records: Sequence[TrialRecord], metric: str) -> list[Estimate]:
    """The figure of each trial that has a finite one."""
    found = []
    for record in records:
        value = record.metrics.get(metric)
        if value is None or not math.isfinite(value):
            continue
        low, high = (record.metrics.get(f"{metric}_{end}") for end in ("low", "high"))
        found.append(
            Estimate(
                value=value,
                low=value if low is None else low,
                high=value if high is None else high,
            )
        )
    return found


def _largest(records: Sequence[TrialRecord], metric: str) -> float | None:
    values = [v for r in records if (v := select.value(r, metric)) is not None]
    return max(values, default=None)


def _strongest_attack(records: Sequence[TrialRecord]) -> tuple[str, bool] | None:
    """The attack that is strongest on most of the trials, of equal ones the first by name, and
    whether it is inverted there.
    """
    best = [s for r in records if (s := attacks.strongest(r.metrics)) is not None]
    found = [(each.attack, each.inverted) for each in best]
    return max(sorted(set(found)), key=found.count, default=None)


def _name(attack: str, is_inverted: bool) -> str:
    return f"{attack} inverted" if is_inverted else attack


def _change(
    folder: SweepFolder,
    records: Sequence[TrialRecord],
    baseline: Sequence[TrialRecord],
    metric: str,
    *,
    attack: str | None,
    is_inverted: bool = False,
) -> Estimate | None:
    """The change from the baseline, paired seed by seed over the same records; seeds that one side
    lacks are left out. An inverted attack's AUC is taken from 1 on both sides.
    """
    mine, theirs = (
        {r.plan.seed: r for r in side if _estimates([r], metric)} for side in (records, baseline)
    )
    pairs = [(each, theirs[seed]) for seed, each in mine.items() if seed in theirs]
    paired = []
    for pair in pairs:
        places = [folder.trial_folder(r.plan.id) for r in pair]
        found = (
            _ser_change(*places) if attack is None else _auc_change(attack, is_inverted, *places)
        )
        name = "delta_ser_percent" if attack is None else "delta_mia_percent"
        if found is not None and all(math.isfinite(v) for v in found.values()):
            paired.append(
                Estimate(value=found[name], low=found[f"{name}_low"], high=found[f"{name}_high"])
            )
    sides = []
    for place in (0, 1):
        values = [e.value for e in _estimates([pair[place] for pair in pairs], metric)]
        sides.append([1 - value for value in values] if is_inverted else values)
    return relative_change(sides[0], sides[1], paired=paired)


def _mia_change(
    folder: SweepFolder, records: Sequence[TrialRecord], baseline: Sequence[TrialRecord]
) -> Estimate | None:
    """The change of the AUC of the paper's attack; None where it is inverted on a side, because a
    ratio of such AUCs is no change of leakage.
    """
    papers = attacks.auc_of(PAPERS_ATTACK)
    both = [mean(_estimates(side, papers)) for side in (records, baseline)]
    if any(side is not None and side.high < 0.5 for side in both):
        return None
    return _change(folder, records, baseline, papers, attack=PAPERS_ATTACK)


def _leakage_change(
    folder: SweepFolder, records: Sequence[TrialRecord], baseline: Sequence[TrialRecord]
) -> Estimate | None:
    """The change of the AUC of the attack that is strongest on the baseline."""
    strongest = _strongest_attack(baseline)
    if strongest is None:
        return None
    attack, is_inverted = strongest
    metric = attacks.auc_of(attack)
    return _change(folder, records, baseline, metric, attack=attack, is_inverted=is_inverted)


# A trial that has ended does not change, and a table is written after each of its stages.
@lru_cache(maxsize=1_000)
def _ser_change(mine: Path, baseline: Path) -> dict[str, float] | None:
    return evidence.mean_ser_change([mine], [baseline])


@lru_cache(maxsize=1_000)
def _auc_change(
    attack: str, is_inverted: bool, mine: Path, baseline: Path
) -> dict[str, float] | None:
    sides: list[tuple[Any, Any]] = []
    ids = []
    for place in (mine, baseline):
        if not all((place / name).exists() for name in ("signals.npz", evidence.SCORES)):
            return None
        signals, scores = attacks.read_signals(place / "signals.npz"), evidence.read_scores(place)
        if attack not in scores:
            return None
        rows = signals.is_evaluated
        ids.append(signals.records[rows])
        sign = -1.0 if is_inverted else 1.0
        sides.append((sign * scores[attack][rows], signals.member[rows]))
    if not np.array_equal(ids[0], ids[1]):
        return None
    return membership.auc_change(sides[0], sides[1], rng=generator(0, "bootstrap", "reproduction"))
