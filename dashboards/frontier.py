"""The trade-off between DP-SGD and eDP-SGD: error and time by the size of a micro-batch.

Of a finished sweep:

    sweep run microbatch_frontier --name frontier
    sweep show frontier --json > frontier.json
    python -m dashboards.frontier frontier.json docs/images/microbatch_frontier.svg
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

_COLOUR = "#0072B2"  # of the colour-blind safe palette of Okabe & Ito (2008)


@dataclass(frozen=True)
class Point:
    """One trial: `ser` with its 95 % bounds, and seconds of training per epoch."""

    microbatch_size: int
    ser: float
    ser_low: float
    ser_high: float
    seconds: float


def figure(points: Sequence[Point], *, epsilon: float) -> Figure:
    """SER with intervals (left), seconds an epoch (right), over the micro-batch size (log axis)."""
    ordered = sorted(points, key=lambda point: point.microbatch_size)
    sizes = [point.microbatch_size for point in ordered]
    drawn = Figure(figsize=(8, 3.2), layout="constrained")
    error, time = drawn.subplots(1, 2)
    error.errorbar(
        sizes,
        [point.ser for point in ordered],
        yerr=[
            [point.ser - point.ser_low for point in ordered],
            [point.ser_high - point.ser for point in ordered],
        ],
        color=_COLOUR,
        marker="o",
        capsize=3,
    )
    error.set_ylabel("test SER (95 % interval)")
    time.plot(sizes, [point.seconds for point in ordered], color=_COLOUR, marker="o")
    time.set_ylabel("seconds of training per epoch")
    time.set_ylim(bottom=0)
    for axis in (error, time):
        axis.set_xscale("log", base=2)
        axis.set_xticks(sizes, [str(size) for size in sizes])
        axis.set_xlabel("records in a micro-batch")
        axis.grid(alpha=0.3)
        axis.spines[["top", "right"]].set_visible(False)
    drawn.suptitle(
        f"From DP-SGD (1) to eDP-SGD (the whole batch), every point at epsilon {epsilon:g}"
    )
    return drawn


def of_sweep(shown: dict[str, Any]) -> Figure:
    """The figure of a sweep's measured trials from the output of `sweep show --json`."""
    trials = [trial for trial in shown["trials"] if trial["metrics"].get("ser") is not None]
    points = [
        Point(
            microbatch_size=trial["config"]["privacy"]["microbatch_size"],
            ser=trial["metrics"]["ser"],
            ser_low=trial["metrics"]["ser_low"],
            ser_high=trial["metrics"]["ser_high"],
            seconds=trial["metrics"]["seconds_epoch"],
        )
        for trial in trials
    ]
    return figure(points, epsilon=round(max(t["metrics"]["epsilon"] for t in trials), 2))


if __name__ == "__main__":
    source, target = map(Path, sys.argv[1:])
    of_sweep(json.loads(source.read_text())).savefig(target)
