"""Every NLU metric of one set of predictions, with intervals."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from trainables import catalogue, figures
from trainables.figures import public, public_count
from trainables.metrics import semantic_error_rate
from trainables.metrics._bootstrap import (
    distinct,
    interval,
    paired_difference,
    totals_of_distinct,
    widen,
)
from trainables.metrics._counts import Counts, OfCounts, from_table, table
from trainables.seeding import generator

LABELS = frozenset({"intents", "slots"})
# Sizes that are reported beside the metrics, by the field of `Counts`.
_SIZES = {
    "utterances": "utterances",
    "reference_slots": "reference_slots",
    "hypothesis_slots": "hypothesis_slots",
    "intent_errors": "intent_errors",
    "slots_correct": "correct",
    "slots_substituted": "substituted",
    "slots_deleted": "deleted",
    "slots_inserted": "inserted",
}
FIGURES = (
    *(
        public_count(
            name=f"num_{name}",
            label=f"{name.replace('_', ' ')} of the test records",
            task="nlu",
        )
        for name in _SIZES
    ),
    # `compare`: against the baseline on the same test records.
    public(
        name="delta_ser_percent",
        label="change of SER from the baseline's",
        better="lower",
        task="nlu",
        unit="%",
        has_bounds=True,
    ),
    public(
        name="delta_ser_significant",
        label="whether the change of SER leaves 0 out of its 95 % interval",
        task="nlu",
    ),
)


def summarize(
    counts: Counts,
    *,
    labels: frozenset[str] = LABELS,
    bootstrap_samples: int = 1_000,
    seed: int = 0,
) -> dict[str, float]:
    """Every NLU metric of counts by utterance, shape [n], by its name; without those that are
    undefined for the kinds of `labels`.

    Metrics are fractions, `num_...` are counts. `_low` and `_high` bound 95 %, by percentile
    bootstraps over utterances, wider where few are wrong or few right (`_bootstrap`); they equal
    the estimate with `bootstrap_samples` 0.
    """
    total = counts.total()
    resampled = None
    if bootstrap_samples:
        rng = generator(seed, "bootstrap", "nlu")
        rows, times = distinct(table(counts))
        totals = totals_of_distinct(rows, times, samples=bootstrap_samples, rng=rng)
        resampled = from_table(totals)
    found: dict[str, float] = {}
    for name, metric in of_counts(labels).items():
        found[name] = float(metric(total))
        if f"{name}_low" in figures.registry():
            low, high = (found[name],) * 2
            if resampled is not None:
                perfect = float(figures.registry()[name].better == "higher")
                low, high = widen(interval(metric(resampled)), metric, rows, times, perfect=perfect)
            found |= {f"{name}_low": low, f"{name}_high": high}
    sizes = {f"num_{name}": int(getattr(total, field)) for name, field in _SIZES.items()}
    return found | sizes


def of_counts(labels: frozenset[str] = LABELS) -> OfCounts:
    """The main metric of each file of the shelf by its name; without those of missing labels."""
    modules = (catalogue.entry("metrics", name) for name in catalogue.names("metrics"))
    return {
        name: metric
        for module in modules
        if getattr(module, "OF_LABELS", None) in (None, *labels)
        for name, metric in getattr(module, "OF_COUNTS", {}).items()
    }


def compare(
    counts: Counts, baseline: Counts, *, bootstrap_samples: int = 1_000, seed: int = 0
) -> dict[str, float]:
    """Delta SER % against a baseline on the same test utterances, by paired bootstrap.

    Keys `delta_ser_percent`, `_low`, `_high` (95 %) and `delta_ser_significant` (1 where the
    interval leaves 0 out). In a resample without the baseline's few errors the change is infinite.
    NaN where the baseline makes no error, and in an interval where a resample has no error at all.
    """

    def change(first: NDArray[np.int64], second: NDArray[np.int64]) -> NDArray[np.float64]:
        ser = semantic_error_rate.value(from_table(first))
        base = semantic_error_rate.value(from_table(second))
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(100.0 * (ser - base) / base)

    estimate, low, high = paired_difference(
        table(counts),
        table(baseline),
        statistic=change,
        samples=bootstrap_samples,
        rng=generator(seed, "bootstrap", "compare"),
    )
    if not math.isfinite(estimate):
        estimate = low = high = math.nan
    return {
        "delta_ser_percent": estimate,
        "delta_ser_percent_low": low,
        "delta_ser_percent_high": high,
        "delta_ser_significant": float(low > 0 or high < 0),
    }
