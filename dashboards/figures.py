"""The report's charts for print and slides: Matplotlib figures, with the same colours and marks."""

from __future__ import annotations

import math
from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dashboards import comparison, palette
from dashboards.charts import EPSILONS
from dashboards.results import Sweep, Trial

_STYLES = {"linear": "--", "exponential": ":"}
_INFINITE_DECADES = 1.1  # how far right of the last finite epsilon the infinite ones stand


def figures(sweep: Sweep) -> dict[str, Figure]:
    """Every figure that the sweep has data for, by file name without suffix."""
    made = {"frontier": frontier(sweep), "times": times(sweep)}
    if any(trial.rocs for trial in sweep.finished):
        made["roc"] = rocs(sweep)
    return made


def frontier(sweep: Sweep) -> Figure:
    """Test SER over epsilon, and below it the AUC of each attack, all with 95 % intervals."""
    attacks = [name for name in sweep.attacks if name != "blind"]  # it sees no model
    drawn = Figure(figsize=(7.2, 3.4 + 2.0 * len(attacks)), layout="constrained")
    heights = [1.7, *([1.0] * len(attacks))]
    grid = drawn.subplots(len(heights), 1, sharex=True, squeeze=False, height_ratios=heights)
    axes: list[Axes] = list(grid.flat)
    last = _infinity(sweep)
    for axis, metric in zip(axes, ["ser", *(f"mia_{a}_auc" for a in attacks)], strict=True):
        _points(axis, sweep, metric, infinity=last)
    axes[0].set_ylabel("test SER")
    axes[0].set_ylim(bottom=0)
    corners = comparison.front_steps(sweep.trials)
    if corners:
        axes[0].step(*zip(*corners, strict=True), where="post", color="#888888", lw=1, zorder=1)
    if sweep.choice.epsilon_max < last:
        axes[0].axvspan(0, sweep.choice.epsilon_max, color="#0072B2", alpha=0.06, lw=0)
    for axis, attack in zip(axes[1:], attacks, strict=True):
        axis.axhline(0.5, color="#888888", ls=":", lw=1)
        axis.set_ylabel(f"AUC\n{attack.replace('_', ' ')}")
    axes[-1].set_xscale("log")
    axes[-1].set_xlabel("epsilon, a guarantee of the code that ran (log axis; ∞: no guarantee)")
    _name_infinity(axes[-1], sweep, last)
    _legend(axes[0], sweep.finished)
    axes[0].set_title(f"{sweep.name}: {sweep.dataset}, {sweep.model} (95 % intervals)", loc="left")
    return drawn


def rocs(sweep: Sweep) -> Figure:
    """ROC curves of each attack on log-log axes."""
    attacks = sorted({c.attack for t in sweep.finished for c in t.rocs})
    columns = min(3, len(attacks))
    rows = math.ceil(len(attacks) / columns)
    drawn = Figure(figsize=(3.5 * columns, 3.4 * rows), layout="constrained")
    grid: list[Axes] = list(drawn.subplots(rows, columns, squeeze=False).flat)
    for axis, attack in zip(grid, attacks, strict=False):
        low = 1.0
        for trial in sweep.finished:
            for curve in trial.rocs:
                if curve.attack == attack:
                    low = min([low, *(x for x in curve.fpr if x > 0)])
                    colour = palette.colour(trial.engine)
                    style = _STYLES.get(trial.decay, "-")
                    axis.step(
                        curve.fpr, curve.tpr, where="post", color=colour, ls=style, lw=1, alpha=0.8
                    )
        axis.plot([low, 1], [low, 1], color="#888888", ls=":", lw=1)
        axis.set(xscale="log", yscale="log", xlim=(low, 1), ylim=(low, 1.05))
        if attack == attacks[0]:
            for engine in dict.fromkeys(trial.engine for trial in sweep.finished):
                axis.plot([], [], color=palette.colour(engine), label=palette.name(engine))
            axis.legend(fontsize=8, frameon=False, loc="upper left")
        axis.set_title(attack.replace("_", " "), loc="left", fontsize=10)
        axis.set_xlabel("false-positive rate")
        axis.set_ylabel("true-positive rate")
        _plain(axis)
    for axis in grid[len(attacks) :]:
        axis.set_visible(False)
    return drawn


def times(sweep: Sweep) -> Figure:
    """Seconds of an epoch as a multiple of the baseline's: median and range over trials."""
    rows = [row for row in comparison.times(sweep) if row.factor is not None]
    drawn = Figure(figsize=(7.2, 0.9 + 0.42 * max(1, len(rows))), layout="constrained")
    axis = drawn.subplots()
    for place, row in enumerate(rows):
        factor = row.factor or 1.0
        colour = palette.colour(row.engine)
        low, high = row.factor_low or factor, row.factor_high or factor
        marker = palette.MATPLOTLIB_MARKS[palette.mark(row.engine, row.decay)]
        axis.plot([low, high], [place, place], color=colour, lw=2, alpha=0.5)
        axis.plot([factor], [place], marker=marker, color=colour, ms=7)
    words = [
        palette.name(row.engine) + (f", {row.decay}" if palette.shows_decay(row.engine) else "")
        for row in rows
    ]
    axis.set_yticks(range(len(rows)), words)
    axis.invert_yaxis()
    axis.set_xlim(left=0)
    axis.axvline(1.0, color="#888888", ls=":", lw=1)
    axis.set_xlabel("seconds of an epoch, times the baseline's (median and range)")
    _plain(axis)
    return drawn


def _points(axis: Axes, sweep: Sweep, metric: str, *, infinity: float) -> None:
    for trial in sweep.finished:
        found, x = trial.figure(metric), EPSILONS["epsilon"](trial)
        if found is None or x is None or x <= 0:
            continue
        place = infinity if math.isinf(x) else x
        colour = palette.colour(trial.engine)
        low = found.value if found.low is None else found.low
        high = found.value if found.high is None else found.high
        axis.plot([place, place], [low, high], color=colour, lw=1.2, alpha=0.6)
        marker = palette.MATPLOTLIB_MARKS[palette.mark(trial.engine, trial.decay)]
        size = 9 if trial.id == sweep.choice.trial else 6
        axis.plot([place], [found.value], marker=marker, color=colour, ms=size, ls="")
        if trial.id == sweep.choice.trial:
            axis.plot([place], [found.value], "o", mfc="none", mec="black", ms=15, mew=1)
    _plain(axis)


def _infinity(sweep: Sweep) -> float:
    """Where infinite epsilons stand on a log axis: right of all others."""
    found = [EPSILONS["epsilon"](trial) for trial in sweep.finished]
    finite = [x for x in found if x is not None and x > 0 and math.isfinite(x)]
    return float(10 ** (math.log10(max(finite, default=1.0)) + _INFINITE_DECADES))


def _name_infinity(axis: Axes, sweep: Sweep, place: float) -> None:
    if any(math.isinf(EPSILONS["epsilon"](t) or 0.0) for t in sweep.finished):
        kept = [tick for tick in axis.get_xticks() if tick < place / 3]
        low, high = axis.get_xlim()
        powers = [f"$10^{{{round(math.log10(tick))}}}$" for tick in kept]
        axis.set_xticks([*kept, place], [*powers, "∞"])
        axis.set_xticks([], minor=True)
        axis.set_xlim(low, max(high, place * 2))


def _legend(axis: Axes, trials: Sequence[Trial]) -> None:
    seen: dict[str, Trial] = {}
    for trial in trials:
        seen.setdefault(palette.words(trial.engine, trial.decay), trial)
    for words, trial in seen.items():
        marker = palette.MATPLOTLIB_MARKS[palette.mark(trial.engine, trial.decay)]
        axis.plot([], [], marker=marker, ls="", color=palette.colour(trial.engine), label=words)
    axis.legend(fontsize=8, frameon=False, loc="best")


def _plain(axis: Axes) -> None:
    axis.grid(alpha=0.25, which="major")
    axis.spines[["top", "right"]].set_visible(False)
