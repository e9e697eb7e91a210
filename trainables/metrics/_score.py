"""Every NLU metric of one set of predictions, with intervals."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray

from trainables.data.bio import slots_strict
from trainables.data.records import Frame
from trainables.metrics import (
    frame_accuracy,
    intent_accuracy,
    semantic_error_rate,
    slot_f1,
    slot_f1_strict,
)
from trainables.metrics._bootstrap import interval, paired_difference, resampled_totals
from trainables.metrics._counts import Align, Counts, Match, count, from_table, table
from trainables.seeding import generator

Metric = Callable[[Counts], NDArray[np.float64]]


@dataclass(frozen=True, kw_only=True)
class NluScores:
    """Metrics of one set of utterances, as fractions; `_low` and `_high` bound 95 %.

    Intervals are percentile bootstraps over utterances, and equal the estimate where no resample
    was asked for.
    """

    ser: float
    ser_low: float
    ser_high: float
    f_ser: float
    icer: float
    irer: float
    intent_accuracy: float
    intent_accuracy_low: float
    intent_accuracy_high: float
    frame_accuracy: float
    frame_accuracy_low: float
    frame_accuracy_high: float
    slot_f1: float
    slot_f1_low: float
    slot_f1_high: float
    slot_f1_strict: float
    slot_precision: float
    slot_recall: float
    num_utterances: int
    num_reference_slots: int
    num_hypothesis_slots: int
    num_intent_errors: int
    num_slots_correct: int
    num_slots_substituted: int
    num_slots_deleted: int
    num_slots_inserted: int

    def as_dict(self) -> dict[str, float]:
        """All figures by name, ready for JSON or a tracker."""
        return asdict(self)


def score(
    references: Sequence[Frame],
    hypotheses: Sequence[Frame],
    *,
    align: Align = "name",
    match: Match = "span",
    tokens: Sequence[Sequence[str]] | None = None,
    hypothesis_tokens: Sequence[Sequence[str]] | None = None,
    reference_tags: Sequence[Sequence[str]] | None = None,
    hypothesis_tags: Sequence[Sequence[str]] | None = None,
    bootstrap_samples: int = 1_000,
    seed: int = 0,
) -> NluScores:
    """Every NLU metric of `hypotheses` against `references`, in the same order.

    `tokens` are the references' and, unless given apart, the hypotheses' tokens; only match="value"
    reads them. With the BIO tags of both sides `slot_f1_strict` reads them strictly; frames alone
    hold no malformed tags, so then it equals `slot_f1` of spans. Labels never seen are labels.

    Raises: InvalidInput for lists that differ in length or are empty.
    """
    counts = count_frames(
        references,
        hypotheses,
        align=align,
        match=match,
        tokens=tokens,
        hypothesis_tokens=hypothesis_tokens,
        reference_tags=reference_tags,
        hypothesis_tags=hypothesis_tags,
    )
    return summarize(counts, bootstrap_samples=bootstrap_samples, seed=seed)


def count_frames(
    references: Sequence[Frame],
    hypotheses: Sequence[Frame],
    *,
    align: Align = "name",
    match: Match = "span",
    tokens: Sequence[Sequence[str]] | None = None,
    hypothesis_tokens: Sequence[Sequence[str]] | None = None,
    reference_tags: Sequence[Sequence[str]] | None = None,
    hypothesis_tags: Sequence[Sequence[str]] | None = None,
) -> Counts:
    """The counts of `score`, by utterance; `_counts.table` of them is what a trial may keep for a
    paired comparison later. Counts add up, so an evaluation may run in pieces.
    """
    strict = None
    if reference_tags is not None and hypothesis_tags is not None:
        strict = (
            [slots_strict(tags) for tags in reference_tags],
            [slots_strict(tags) for tags in hypothesis_tags],
        )
    return count(
        references,
        hypotheses,
        align=align,
        match=match,
        reference_tokens=tokens,
        hypothesis_tokens=hypothesis_tokens,
        strict=strict,
    )


def summarize(counts: Counts, *, bootstrap_samples: int = 1_000, seed: int = 0) -> NluScores:
    """The metrics of counts by utterance, shape [n]."""
    total = counts.total()
    resampled = None
    if bootstrap_samples:
        rng = generator(seed, "bootstrap", "nlu")
        resampled = from_table(resampled_totals(table(counts), samples=bootstrap_samples, rng=rng))

    def bounds(metric: Metric) -> tuple[float, float, float]:
        estimate = float(metric(total))
        low, high = (estimate, estimate) if resampled is None else interval(metric(resampled))
        return estimate, low, high

    ser = bounds(semantic_error_rate.value)
    intent = bounds(intent_accuracy.value)
    frame = bounds(frame_accuracy.value)
    f1 = bounds(slot_f1.value)
    return NluScores(
        ser=ser[0],
        ser_low=ser[1],
        ser_high=ser[2],
        f_ser=float(semantic_error_rate.symmetric(total)),
        icer=int(total.intent_errors) / int(total.utterances),
        irer=int(total.frame_errors) / int(total.utterances),
        intent_accuracy=intent[0],
        intent_accuracy_low=intent[1],
        intent_accuracy_high=intent[2],
        frame_accuracy=frame[0],
        frame_accuracy_low=frame[1],
        frame_accuracy_high=frame[2],
        slot_f1=f1[0],
        slot_f1_low=f1[1],
        slot_f1_high=f1[2],
        slot_f1_strict=float(slot_f1_strict.value(total)),
        slot_precision=float(slot_f1.precision(total)),
        slot_recall=float(slot_f1.recall(total)),
        num_utterances=int(total.utterances),
        num_reference_slots=int(total.reference_slots),
        num_hypothesis_slots=int(total.hypothesis_slots),
        num_intent_errors=int(total.intent_errors),
        num_slots_correct=int(total.correct),
        num_slots_substituted=int(total.substituted),
        num_slots_deleted=int(total.deleted),
        num_slots_inserted=int(total.inserted),
    )


def relative_change(value: float, baseline: float) -> float:
    """100 (value - baseline) / baseline: Delta SER % and Delta MIA % of Dupuy et al. 2021, Table 1.

    NaN where the baseline is 0.

    >>> round(relative_change(5.4873, 6.3), 1)
    -12.9
    """
    return 100.0 * (value - baseline) / baseline if baseline else math.nan


def compare(
    counts: Counts, baseline: Counts, *, bootstrap_samples: int = 1_000, seed: int = 0
) -> dict[str, float]:
    """Delta SER % against a baseline on the same test utterances, by paired bootstrap.

    Keys `delta_ser_percent`, `_low`, `_high` (95 %) and `delta_ser_significant` (1 where the
    interval leaves 0 out). NaN where the baseline makes no error.
    """

    def change(first: NDArray[np.int64], second: NDArray[np.int64]) -> NDArray[np.float64]:
        ser = semantic_error_rate.value(from_table(first))
        base = semantic_error_rate.value(from_table(second))
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(base > 0, 100.0 * (ser - base) / base, np.nan)

    estimate, low, high = paired_difference(
        table(counts),
        table(baseline),
        statistic=change,
        samples=bootstrap_samples,
        rng=generator(seed, "bootstrap", "compare"),
    )
    return {
        "delta_ser_percent": estimate,
        "delta_ser_percent_low": low,
        "delta_ser_percent_high": high,
        "delta_ser_significant": float(low > 0 or high < 0),
    }
