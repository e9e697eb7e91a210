"""Difficulty calibration: how much surer than other models, on this record (Watson et al. 2022).

The simplest use of a sweep as reference models: no masks, no variances, and steady with few models.
"""

from __future__ import annotations

from collections.abc import Sequence

from trainables.attacks._knowledge import Knowledge, require
from trainables.attacks._references import Moments, aligned, moments_of, standardized_psi
from trainables.attacks._signals import Floats, Signals

NEEDS = frozenset({"references"})


def scores(target: Signals, knowledge: Knowledge, *, seed: int = 0) -> Floats:
    """psi of the target minus the mean psi of the references, [n]; higher says member."""
    require("calibrated", NEEDS, knowledge)
    references = aligned(target, knowledge.references)
    values = [standardized_psi(reference) for reference in references]
    members = [reference.member for reference in references]
    return _score(standardized_psi(target), moments_of(values, members, num_records=len(target)))


def all_scores(trials: Sequence[Signals]) -> list[Floats]:
    """Scores of every trial against all the others, which lie on the same records."""
    trials = aligned(trials[0], trials)
    values = [standardized_psi(trial) for trial in trials]
    members = [trial.member for trial in trials]
    total = moments_of(values, members, num_records=len(trials[0]))
    return [
        _score(value, total.plus(value, member, sign=-1))
        for value, member in zip(values, members, strict=True)
    ]


def _score(value: Floats, references: Moments) -> Floats:
    return value - references.overall_mean
