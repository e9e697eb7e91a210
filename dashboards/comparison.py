"""Trials compared with the baseline as in Dupuy et al. 2021 (Tables 1 and 2). Pure.

A trial's paired comparison with the baseline is used where there is one. Otherwise a change counts
as significant where it exceeds 1.96 standard errors of the difference of independent measurements.
They share their test records, so the true error of the difference is smaller and this test is
conservative.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from dashboards import palette
from dashboards.results import Estimate, Sweep, Trial
from trainables import catalogue
from trainables.attacks import auc_of
from trainables.figures import LEAKAGE

_PAPERS = "shadow"
PAPERS_AUC = auc_of(_PAPERS)
_MOST_EPSILONS = 5  # as the page says


@dataclass(frozen=True, kw_only=True)
class Change:
    """A relative change, (value - baseline) / baseline; `significant` None where unknown. The
    bounds are of a paired comparison, None without one.
    """

    relative: float
    significant: bool | None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, kw_only=True)
class DecayRow:
    """The best trial of one engine and decay, by its rank in the sweep.

    `leakage_change` is of the strongest attacks, `auc_change` of the paper's attack.
    """

    engine: str
    decay: str
    num_trials: int
    trial: Trial
    ser_change: Change | None
    leakage_change: Change | None
    auc_change: Change | None  # None where that attack is inverted: it is no change of leakage


@dataclass(frozen=True, kw_only=True)
class TimeRow:
    """Seconds of an epoch of one engine with one kind of model: median and range over its trials,
    and times those of each trial's baseline of the same data and model (median of the ratios).
    `which` names the model where the sweep has several.
    """

    engine: str
    decay: str
    which: str
    num_trials: int
    median: float
    low: float
    high: float
    factor: float | None


def change(mine: Estimate | None, reference: Estimate | None) -> Change | None:
    """The relative change from `reference` to `mine`; None without both, or for a reference of 0.

    >>> change(Estimate(value=5.49), Estimate(value=6.3)).relative.__round__(3)
    -0.129
    """
    if mine is None or reference is None or reference.value == 0:
        return None
    relative = (mine.value - reference.value) / reference.value
    errors = mine.standard_error, reference.standard_error
    significant = None
    if errors[0] is not None and errors[1] is not None:
        together = math.hypot(errors[0], errors[1])
        significant = abs(mine.value - reference.value) > 1.959964 * together
    return Change(relative=relative, significant=significant)


def against(trial: Trial, base: Trial | None, metric: str) -> Change | None:
    """A trial's change: by the paired comparison of the very records where the trial has one
    (`delta_ser_percent` and kin), as `change` otherwise; None for the baseline itself.
    """
    if base is None or trial.id == base.id:
        return None
    name = {"ser": "delta_ser", LEAKAGE: "delta_mia"}.get(metric)
    paired = trial.figure(f"{name}_percent") if name else None
    if paired is not None and paired.low is not None and paired.high is not None:
        return Change(
            relative=paired.value / 100,
            significant=bool(trial.metrics.get(f"{name}_significant")),
            low=paired.low / 100,
            high=paired.high / 100,
        )
    return change(trial.figure(metric), base.figure(metric))


def decays(sweep: Sweep) -> list[DecayRow]:
    """The private trials: one row for each decay of an engine with separate decays, for any other
    engine one for each decay and epsilon.
    """
    rows = []
    known_decays = palette.decays()
    private = [e for e in palette.engines() if catalogue.kind_of("engines", e) == "private"]
    for engine in private:
        mine = [t for t in sweep.measured_trials if t.engine == engine and not t.baseline]
        known = [t for t in mine if t.figure("ser") is not None]
        others = sorted({t.decay for t in known} - set(known_decays))
        for decay in (*known_decays, *others):
            same = [t for t in known if t.decay == decay]
            for found in [same] if palette.shows_decay(engine) else _at_one_epsilon(same):
                if found:
                    rows.append(_row(found, sweep))
    return rows


def _row(trials: Sequence[Trial], sweep: Sweep) -> DecayRow:
    best = min(trials, key=lambda trial: math.inf if trial.rank is None else trial.rank)
    base = sweep.baseline_of(best)
    is_inverted = any(side.is_inverted(_PAPERS) for side in (best, base) if side is not None)
    return DecayRow(
        engine=best.engine,
        decay=best.decay,
        num_trials=len(trials),
        trial=best,
        ser_change=against(best, base, "ser"),
        leakage_change=against(best, base, LEAKAGE),
        auc_change=None if is_inverted else against(best, base, PAPERS_AUC),
    )


def _at_one_epsilon(trials: Sequence[Trial]) -> list[list[Trial]]:
    """Trials of about the same epsilon together, the smallest first; a few groups at most."""
    groups: dict[str, list[Trial]] = {}
    for trial in sorted(trials, key=lambda t: math.inf if t.epsilon is None else t.epsilon):
        key = "" if trial.epsilon is None else f"{trial.epsilon:.2g}"
        groups.setdefault(key, []).append(trial)
    return list(groups.values())[:_MOST_EPSILONS]


def times(sweep: Sweep) -> list[TimeRow]:
    """Seconds of an epoch for each engine, decay and model, the baseline's first."""
    keys: dict[tuple[str, str, str], list[Trial]] = {}
    for trial in sorted(sweep.measured_trials, key=_order):
        if _epoch_seconds(trial) is not None and not trial.is_prior:
            keys.setdefault((trial.engine, trial.decay, trial.model_name), []).append(trial)
    several = len({model for _, _, model in keys}) > 1
    rows = []
    for (engine, decay, model), trials in keys.items():
        seconds = [each for trial in trials if (each := _epoch_seconds(trial)) is not None]
        factors = [each for trial in trials if (each := sweep.time_factor(trial)) is not None]
        rows.append(
            TimeRow(
                engine=engine,
                decay=decay,
                which=model if several else "",
                num_trials=len(trials),
                median=statistics.median(seconds),
                low=min(seconds),
                high=max(seconds),
                factor=statistics.median(factors) if factors else None,
            )
        )
    return rows


def front_steps(trials: Sequence[Trial]) -> list[tuple[float, float]]:
    """Corners (epsilon, SER) of the front of finite epsilon, from the smallest epsilon on."""
    known = [
        (trial.compared_epsilon or 0.0, found.value)
        for trial in trials
        if trial.on_front and not trial.baseline and (found := trial.figure("ser"))
    ]
    return sorted(point for point in known if 0 < point[0] < math.inf)


def _epoch_seconds(trial: Trial) -> float | None:
    """The median over its epochs, as the trial measured it."""
    found = trial.figure("seconds_epoch")
    return found.value if found is not None and found.value > 0 else None


def _order(trial: Trial) -> tuple[bool, int, int]:
    engines, decays_known = palette.engines(), palette.decays()
    engine = engines.index(trial.engine) if trial.engine in engines else len(engines)
    decay = decays_known.index(trial.decay) if trial.decay in decays_known else len(decays_known)
    return not trial.baseline, engine, decay
