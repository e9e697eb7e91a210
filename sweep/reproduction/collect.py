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
    strongest = _strongest_attack(baseline) or _strongest_attack(records)
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
        attack=_strongest_attack(records),
        ser_change=_change(folder, records, against, "ser", attack=None),
        mia_change=_change(
            folder, records, against, attacks.auc_of(PAPERS_ATTACK), attack=PAPERS_ATTACK
        ),
        leakage_change=_leakage_change(folder, records, against, strongest),
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


def _strongest_attack(records: Sequence[TrialRecord]) -> str | None:
    """The attack that is strongest on most of the trials, of equal ones the first by name."""
    found = [s.attack for r in records if (s := attacks.strongest(r.metrics)) is not None]
    return max(sorted(set(found)), key=found.count, default=None)


def _change(
    folder: SweepFolder,
    records: Sequence[TrialRecord],
    baseline: Sequence[TrialRecord],
    metric: str,
    *,
    attack: str | None,
) -> Estimate | None:
    """The change from the baseline, paired seed by seed over the same records."""
    theirs = {r.plan.seed: r for r in baseline}
    paired = []
    for record in records:
        other = theirs.get(record.plan.seed)
        if other is None:
            continue
        places = [folder.trial_folder(r.plan.id) for r in (record, other)]
        found = _ser_change(*places) if attack is None else _auc_change(attack, *places)
        name = "delta_ser_percent" if attack is None else "delta_mia_percent"
        if found is not None and all(math.isfinite(v) for v in found.values()):
            paired.append(
                Estimate(value=found[name], low=found[f"{name}_low"], high=found[f"{name}_high"])
            )
    sides = [[e.value for e in _estimates(side, metric)] for side in (records, baseline)]
    return relative_change(sides[0], sides[1], paired=paired)


def _leakage_change(
    folder: SweepFolder,
    records: Sequence[TrialRecord],
    baseline: Sequence[TrialRecord],
    attack: str | None,
) -> Estimate | None:
    """The change of the AUC of the attack that is strongest on the baseline."""
    if attack is None or not baseline:
        return None
    return _change(folder, records, baseline, attacks.auc_of(attack), attack=attack)


# A trial that has ended does not change, and a table is written after each of its stages.
@lru_cache(maxsize=1_000)
def _ser_change(mine: Path, baseline: Path) -> dict[str, float] | None:
    return evidence.ser_change(mine, baseline)


@lru_cache(maxsize=1_000)
def _auc_change(attack: str, mine: Path, baseline: Path) -> dict[str, float] | None:
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
        sides.append((scores[attack][rows], signals.member[rows]))
    if not np.array_equal(ids[0], ids[1]):
        return None
    return membership.auc_change(sides[0], sides[1], rng=generator(0, "bootstrap", "reproduction"))
