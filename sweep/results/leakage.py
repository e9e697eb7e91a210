"""Attacks that use the finished trials of a sweep as each other's reference models.

Every trial has written its signals, its attack scores and its test counts to its folder. Here RMIA,
LiRA and similar attacks are computed for all trials against all others, the certified bounds are
corrected for the number of trials and compared with each trial's claim, and each trial is compared
with its baseline. The result is the trial's panel in the log of the sweep, which tables and the
tracking store read; computing it again with more trials replaces it.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sweep.guard import Guard
from sweep.results import select
from sweep.store.sweeps import SweepFolder, TrialRecord
from trainables import attacks, evidence
from trainables.attacks import Signals, one_run
from trainables.errors import InvalidData, InvalidInput
from trainables.metrics import membership
from trainables.sections import SPLITS_WITH_COINS, SplitMode
from trainables.seeding import generator

SIGNALS, PICTURE = "signals.npz", "roc.png"
_OF_THE_STRONGEST = ("epsilon_estimate_gdp", "epsilon_estimate_cp")
_MOST_PICTURES = 200  # one costs a tenth of a second and 60 KB, in the trial's folder and in MLflow


def write_panels(folder: SweepFolder) -> tuple[str, ...]:
    """Compute and write every finished trial's panel; returns ids of trials that break their claim.

    A trial whose evidence is missing or damaged is left out, with a note in its panel.
    """
    finished = [r for r in folder.records() if r.status.is_finished]
    panels: dict[str, dict[str, Any]] = {
        r.plan.id: {"metrics": {}, "notes": [], "violation": None} for r in finished
    }
    signals: dict[str, Signals] = {}
    for record in finished:
        path = folder.trial_folder(record.plan.id) / SIGNALS
        if not path.exists():
            continue
        try:
            signals[record.plan.id] = attacks.read_signals(path)
        except InvalidData as problem:
            _note(panels[record.plan.id], problem)
    for pool in _pools([r for r in finished if r.plan.id in signals], signals):
        _judge_pool(folder, pool, signals, panels)
    _correct_bounds(finished, panels)
    found, guard = select.baselines(finished), Guard("a picture of ROC curves")
    for record in finished:
        own = panels[record.plan.id]
        own["violation"] = violation(
            {**record.metrics, **own["metrics"]}, record.plan.config.data.split
        )
        if not record.plan.baseline:
            try:
                own["metrics"] |= _against_baseline(folder, record, found, signals, panels)
            except InvalidData as problem:
                _note(own, problem)
        if has_pictures(folder):
            try:
                with guard:
                    draw(folder.trial_folder(record.plan.id), record.plan.name)
            except InvalidData as problem:
                _note(own, problem)
        folder.write_panel(record.plan.id, own)
    return tuple(trial_id for trial_id, own in panels.items() if own["violation"])


def violation(metrics: Mapping[str, float | None], split: SplitMode) -> dict[str, float] | None:
    """The certified bound and the claim that it violates; None without a violation.

    Both have the same delta and neighbouring relation.
    """
    bound = metrics.get("epsilon_lower_bound")
    claim = metrics.get(attacks.audited(split))
    if bound is None or claim is None or not one_run.violates(bound, claim):
        return None
    return {"epsilon_lower_bound": bound, "epsilon_claimed": claim}


def has_pictures(folder: SweepFolder) -> bool:
    """Whether each trial gets a picture of its ROC curves, which large sweeps do not have."""
    return len(folder.plan().trials) <= _MOST_PICTURES


def draw(place: Path, title: str) -> None:
    """The trial's ROC curves as a picture beside their data, where it is missing or older."""
    data, picture = place / evidence.ROC, place / PICTURE
    if not data.exists() or (
        picture.exists() and picture.stat().st_mtime_ns >= data.stat().st_mtime_ns
    ):
        return
    from dashboards.charts import roc_of_trial
    from dashboards.render import png  # Matplotlib, imported late so that sweeps start faster

    fresh = place / f".{threading.get_ident()}.{PICTURE}"  # two processes may draw it at once
    fresh.write_bytes(png(roc_of_trial(evidence.read_curves(place), title=title)))
    fresh.replace(picture)


def _pools(records: Sequence[TrialRecord], signals: dict[str, Signals]) -> list[list[TrialRecord]]:
    """Pools of two or more trials on the same records, with a coin for each record (or pair)."""
    pools: dict[tuple[str, str, bytes], list[TrialRecord]] = {}
    for record in records:
        own = signals[record.plan.id]
        if own.mode in SPLITS_WITH_COINS:
            pools.setdefault((own.mode, own.corpus, own.records.tobytes()), []).append(record)
    return [pool for pool in pools.values() if len(pool) > 1]


def _judge_pool(
    folder: SweepFolder,
    pool: Sequence[TrialRecord],
    signals: dict[str, Signals],
    panels: dict[str, dict[str, Any]],
) -> None:
    trials = [signals[r.plan.id] for r in pool]
    mechanisms = [(r.privacy or {}).get("mechanism") or {} for r in pool]
    try:
        scores = attacks.sweep_scores(trials)
        figures = attacks.sweep_panel(
            trials,
            deltas=[float(m.get("delta") or 1e-5) for m in mechanisms],
            sampling=[m.get("sampling", "shuffle") for m in mechanisms],
            units=[m.get("unit", "record") for m in mechanisms],
            scores=scores,
        )
    except InvalidInput as problem:
        for record in pool:
            _note(panels[record.plan.id], problem)
        return
    for record, trial, own, found in zip(pool, trials, scores, figures, strict=True):
        best = attacks.strongest({**record.metrics, **found})
        if best is not None and best.attack not in own:
            # The trial's own panel has the estimates of the strongest attack.
            found = {n: v for n, v in found.items() if n not in _OF_THE_STRONGEST}
        panels[record.plan.id]["metrics"] |= {**found, "mia_num_references": float(len(pool) - 1)}
        place = folder.trial_folder(record.plan.id)
        try:
            evidence.write_scores(place, own)
            evidence.write_curves(place, attacks.curves(trial, own))
        except InvalidData as problem:  # of earlier scores, which are kept
            _note(panels[record.plan.id], problem)


def _note(panel: dict[str, Any], problem: InvalidInput) -> None:
    if str(problem) not in panel["notes"]:
        panel["notes"].append(str(problem))


def _correct_bounds(finished: Sequence[TrialRecord], panels: Mapping[str, dict[str, Any]]) -> None:
    """Make the certified bounds of all pools, and of trials without one, hold together."""
    known = {r.plan.id: {**r.metrics, **panels[r.plan.id]["metrics"]} for r in finished}
    known = {n: each for n, each in known.items() if each.get("epsilon_lower_bound") is not None}
    for trial_id, metrics in known.items():
        own = panels[trial_id]["metrics"]
        # Those of a pool that is the whole sweep hold together already.
        if own.get("epsilon_lower_bound_p") != one_run.ERROR / len(known):
            own |= one_run.corrected(metrics, num_trials=len(known))


def _against_baseline(
    folder: SweepFolder,
    record: TrialRecord,
    found: Sequence[select.Group],
    signals: dict[str, Signals],
    panels: Mapping[str, Mapping[str, Any]],
) -> dict[str, float]:
    """Delta SER % and Delta MIA % with intervals, by paired bootstrap over the same records, of the
    baseline with the same seed, or of its first trial.
    """
    group = select.baseline_of(record, found)
    if group is None:
        return {}
    same_seed = (r for r in group.records if r.plan.seed == record.plan.seed)
    baseline = next(same_seed, group.records[0])
    own_folder, baseline_folder = (folder.trial_folder(each.plan.id) for each in (record, baseline))
    result = evidence.mean_ser_change([own_folder], [baseline_folder]) or {}
    if record.plan.id in signals and baseline.plan.id in signals:
        result |= _leakage_change(
            (signals[record.plan.id], own_folder),
            (signals[baseline.plan.id], baseline_folder),
            baseline={**baseline.metrics, **panels[baseline.plan.id]["metrics"]},
        )
    return {name: value for name, value in result.items() if math.isfinite(value)}


def _leakage_change(
    trial: tuple[Signals, Path],
    base: tuple[Signals, Path],
    *,
    baseline: Mapping[str, float | None],
) -> dict[str, float]:
    """The change of leakage, by the strongest attack on the `baseline` that both trials have."""
    rows = [own.is_evaluated for own, _ in (trial, base)]
    if not np.array_equal(trial[0].records[rows[0]], base[0].records[rows[1]]):
        return {}
    if not all((place / evidence.SCORES).exists() for _, place in (trial, base)):
        return {}
    scores = [evidence.read_scores(place) for _, place in (trial, base)]
    both = scores[0].keys() & scores[1].keys()
    known = {f"{attacks.auc_of(name)}{end}" for name in both for end in ("", "_low", "_high")}
    best = attacks.strongest({name: value for name, value in baseline.items() if name in known})
    if best is None:
        return {}
    sign = -1.0 if best.inverted else 1.0
    sides = [
        (sign * own[best.attack][row], each.member[row])
        for own, row, (each, _) in zip(scores, rows, (trial, base), strict=True)
    ]
    return membership.auc_change(sides[0], sides[1], rng=generator(0, "bootstrap", "baseline"))
