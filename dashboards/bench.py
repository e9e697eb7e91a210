"""The chart of a benchmark: each engine's time relative to plain SGD, and its peak memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dashboards import palette

LABELS = {
    "stock": "stock Adam (padded)",
    "naive": "loop over records",
}


@dataclass(frozen=True, kw_only=True)
class Bar:
    """One engine: time over SGD's (median, quartiles) and peak memory in MiB, where known."""

    engine: str
    factor: float
    low: float
    high: float
    peak_mib: float | None


def label(engine: str) -> str:
    """The label of an engine's bar.

    >>> label("naive")
    'loop over records'
    """
    return LABELS.get(engine) or palette.name(engine)


def figure(bars: Sequence[Bar], *, title: str) -> Figure:
    """Factors on a log axis (left), memory (right); one bar an engine, its number beside it."""
    with_memory = [bar for bar in bars if bar.peak_mib is not None]
    drawn = Figure(figsize=(9, 0.42 * len(bars) + 1.5), layout="constrained")
    axes = drawn.subplots(1, 2 if with_memory else 1, sharey=True, squeeze=False)[0]
    places = range(len(bars))
    colours = [palette.colour(bar.engine) for bar in bars]
    time = axes[0]
    time.barh(
        places,
        [bar.factor for bar in bars],
        color=colours,
        xerr=(
            [bar.factor - bar.low for bar in bars],
            [bar.high - bar.factor for bar in bars],
        ),
        error_kw={"capsize": 3, "ecolor": "#222222"},
    )
    time.set_xscale("log")
    low, high = min(bar.low for bar in bars), max(bar.high for bar in bars)
    time.set_xlim(0.7 * min(low, 1), 2.2 * high)
    ticks = [t for t in (0.5, 1, 2, 5, 10, 20, 50, 100, 200) if 0.7 * min(low, 1) <= t <= 2 * high]
    time.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    time.minorticks_off()
    time.axvline(1.0, color="#222222", linewidth=0.8)
    time.set_xlabel("processor time per step, relative to SGD's (log axis; quartiles)")
    for place, bar in zip(places, bars, strict=True):
        _write(time, bar.high, place, f"{bar.factor:.2f}")
    time.set_yticks(places, [label(bar.engine) for bar in bars])
    time.invert_yaxis()
    if with_memory:
        memory = axes[1]
        memory.barh(places, [bar.peak_mib or 0.0 for bar in bars], color=colours)
        for place, bar in zip(places, bars, strict=True):
            if bar.peak_mib is not None:
                _write(memory, bar.peak_mib, place, f"{bar.peak_mib:,.0f}")
        memory.set_xlim(0, 1.2 * max(bar.peak_mib or 0.0 for bar in bars))
        memory.set_xlabel("peak memory of a process, MiB")
    for axis in axes:
        axis.grid(axis="x", alpha=0.3)
        axis.spines[["top", "right"]].set_visible(False)
    drawn.suptitle(title)
    return drawn


def _write(axis: Axes, x: float, y: float, text: str) -> None:
    axis.annotate(text, (x, y), xytext=(5, 0), textcoords="offset points", va="center")
