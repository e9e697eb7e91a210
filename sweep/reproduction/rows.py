"""The rows of a table as frozen data."""

from __future__ import annotations

from dataclasses import dataclass

from sweep.reproduction.description import Point
from sweep.reproduction.statistics import Estimate


@dataclass(frozen=True, kw_only=True)
class Row:
    """One method of a pair of corpus and model, over its seeds.

    `ser` and the AUCs are shares, means over the `seeds` whose SER is finite; changes are in
    percent of the baseline's of the same seeds. `mia` is the paper's attack, `leakage` the
    strongest that the split allows (`attack`, with "inverted" where members score lower);
    `mia_change` is None where that attack is inverted, `leakage_change` of the attack that is
    strongest on the baseline.
    `epsilon` is sound, `epsilon_paper` the paper's figure, both at `delta`; the largest over the
    seeds. `epochs_done` is the most that a trial ran; `seconds` are of all trials together.
    """

    corpus: str
    model: str
    part: str
    method: str
    label: str
    point: Point | None
    seeds: int
    epochs: int
    epochs_done: int
    seconds: float
    ser: Estimate | None
    mia: Estimate | None
    leakage: Estimate | None
    attack: str | None
    ser_change: Estimate | None
    mia_change: Estimate | None
    leakage_change: Estimate | None
    delta: float | None
    epsilon: float | None
    epsilon_paper: float | None


@dataclass(frozen=True, kw_only=True)
class CoarseRow:
    """One point of the coarse pass: the validation SER that the choice goes by, and the seconds of
    its trial.
    """

    corpus: str
    model: str
    decay: str
    point: Point
    status: str
    epochs_done: int
    seconds: float
    validation_ser: float | None
    is_best: bool
