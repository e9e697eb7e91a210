"""Every NLU metric of one set of predictions, with intervals by bootstraps over
utterances (Efron 1979).

Metrics are functions of summed counts, so a resample only needs to know how often each
*distinct* row of counts was drawn: one multinomial draw over a few hundred rows in
place of n indices, with the same law.

A resample holds only errors that were seen: without any, every resample is perfect and
the interval is a point, and so it is where nothing is right. Where few utterances are
wrong, or few right, their number is binomial, whose interval is exact.
"""

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from trainables import catalogue, figures
from trainables.dp.seeding import generator
from trainables.errors import InvalidInput
from trainables.figures import RELEASED_VALIDATION, nlu_rate, public, public_count
from trainables.metrics import semantic_error_rate
from trainables.metrics._counts import NAMES, Counts, OfCounts, from_table, table
from trainables.metrics.membership import (
    Floats,
    clopper_pearson,
    interval,
    of_change,
    percent,
)

Integers = NDArray[np.int64]
# Percentiles covered .63 to .93 in place of .95 where fewer of 100 to 1,000 utterances
# were wrong.
_ENOUGH = 10
_ERRORS = ("intent_errors", "frame_errors", "substituted", "deleted", "inserted")
_RIGHT = np.array(
    [name not in _ERRORS for name in NAMES], dtype=np.int64
)  # with one slot


def totals_of_distinct(
    rows: Integers, times: Integers, *, samples: int, rng: np.random.Generator
) -> Integers:
    """[samples, k]: column sums of `samples` resamples, drawn with replacement, of rows
    of which `rows` [m, k] are the distinct ones and `times` [m] how often each is
    there.
    """
    drawn = rng.multinomial(times.sum(), times / times.sum(), size=samples)
    return np.asarray(drawn @ rows, dtype=np.int64)


def widen(
    percentiles: tuple[float, float],
    metric: Callable[[Counts], Floats],
    rows: Integers,
    times: Integers,
    *,
    perfect: float,
) -> tuple[float, float]:
    """`percentiles` of `metric`, and where fewer than ten utterances take it away from
    an end of its range, the Clopper-Pearson interval of their share too, cut off at the
    range. The ends are `perfect` and 0: an error rate has no largest value.

    `rows` [m, k] are the distinct counts of utterances, `times` [m] how often each is
    there. Each such utterance counts as the mean one; the first, where there is none,
    as a whole one.
    """
    found = [percentiles]
    for end in {perfect, 0.0}:
        few = _few(metric, rows, times, end=end, perfect=perfect)
        if few is not None:
            hits, num, each = few
            away = each * (1 - 2 * end)
            shares = clopper_pearson(hits, num)
            low, high = sorted(end + away * share for share in shares)
            found.append((low, high))
    lows, highs = zip(*found, strict=True)
    # The mean utterance may have more slots than others: so many of it would leave the
    # range.
    return max(0.0, min(lows)), min(max(highs), perfect or math.inf)


def _few(
    metric: Callable[[Counts], Floats],
    rows: Integers,
    times: Integers,
    *,
    end: float,
    perfect: float,
) -> tuple[int, int, float] | None:
    """The utterances that take `metric` away from `end`, where they are few: their
    number, that of the utterances that could, and how far one alone would take it. Such
    an utterance is away from the end by itself: what its absence does to the whole
    would say little where all are wrong.
    """
    total = times @ rows
    gap = abs(float(metric(from_table(total))) - end)
    alone = metric(from_table(rows))
    with np.errstate(
        invalid="ignore", divide="ignore"
    ):  # nothing is left of one utterance
        counts = np.abs(metric(from_table(total - rows)) - end) != gap
    hits = int(times[counts & (alone != end)].sum())
    if hits >= _ENOUGH or (gap > 0 and not hits):
        return None
    if hits:
        counted = counts
    elif end == perfect:
        counted = alone == perfect  # without slots no F1 is perfect
    else:
        counted = metric(from_table(rows + _RIGHT)) != perfect  # nor is it worse
    num = int(times[counted].sum())
    return (hits, num, gap * num / hits if hits else 1.0) if num else None


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
    nlu_rate(
        name=RELEASED_VALIDATION,
        label="validation errors a record (at most 3, with noise)",
        better="lower",
        per_epoch=True,
        is_listed=True,
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
    seed: int,
) -> dict[str, float]:
    """Every NLU metric of counts by utterance, shape [n], by its name; without those
    that are undefined for the kinds of `labels`.

    Metrics are fractions, `num_...` are counts. `_low` and `_high` bound 95 %, by
    percentile bootstraps over utterances, wider where few are wrong or few right
    (`widen`); they equal the estimate with `bootstrap_samples` 0.
    """
    total = counts.total()
    resampled = None
    if bootstrap_samples:
        rng = generator(seed, "bootstrap", "nlu")
        rows, times = np.unique(table(counts), axis=0, return_counts=True)
        totals = totals_of_distinct(rows, times, samples=bootstrap_samples, rng=rng)
        resampled = from_table(totals)
    found: dict[str, float] = {}
    for name, metric in of_counts(labels).items():
        found[name] = float(metric(total))
        if f"{name}_low" in figures.registry():
            low, high = (found[name],) * 2
            if resampled is not None:
                perfect = float(figures.registry()[name].better == "higher")
                low, high = widen(
                    interval(metric(resampled)), metric, rows, times, perfect=perfect
                )
            found |= {f"{name}_low": low, f"{name}_high": high}
    sizes = {
        f"num_{name}": int(getattr(total, field)) for name, field in _SIZES.items()
    }
    return found | sizes


def of_counts(labels: frozenset[str] = LABELS) -> OfCounts:
    """The main metric of each file of the registry by its name; without those of
    missing labels.
    """
    modules = (catalogue.entry("metrics", name) for name in catalogue.names("metrics"))
    return {
        name: metric
        for module in modules
        if getattr(module, "OF_LABELS", None) in (None, *labels)
        for name, metric in getattr(module, "OF_COUNTS", {}).items()
    }


def compare(counts: Counts, baseline: Counts) -> dict[str, float]:
    """Delta SER % against a baseline on the same test utterances, by paired bootstrap.

    Keys `delta_ser_percent`, `_low`, `_high` (95 %) and `delta_ser_significant` (1
    where the interval leaves 0 out). In a resample without the baseline's few errors
    the change is infinite. NaN where the baseline makes no error, and in an interval
    where a resample has no error at all.
    """

    def change(*sides: Integers) -> Floats:
        return percent(*(semantic_error_rate.value(from_table(side)) for side in sides))

    sides = table(counts), table(baseline)
    if sides[0].shape != sides[1].shape:
        raise InvalidInput(
            f"expected counts of the same utterances, got {sides[0].shape} and"
            f" {sides[1].shape}"
        )
    # Each resample draws an utterance for both at once, which cancels its difficulty.
    rng = generator(0, "bootstrap", "compare")
    rows, times = np.unique(np.concatenate(sides, axis=1), axis=0, return_counts=True)
    totals = totals_of_distinct(rows, times, samples=1_000, rng=rng)
    estimate = float(change(*(side.sum(axis=0) for side in sides)))
    return of_change("delta_ser", estimate, change(*np.split(totals, 2, axis=1)))
