"""Draws charts with Matplotlib; `svg` makes them elements of a page."""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator, MaxNLocator

from dashboards import palette
from dashboards.chart import Axis, Chart, Line, Point

_WIDTH, _HEIGHT = 520, 380  # of the page's units, 72 an inch
_LEFT, _RIGHT, _TOP, _BOTTOM = 58, 14, 30, 50
_ROW, _LEFT_OF_ROWS = 34, 172
INK, MUTED, GRID = "#1b1f23", "#555c63", "#e4e7eb"
STYLE: Any = {
    "svg.fonttype": "none",
    "svg.hashsalt": "chart",  # equal charts give equal bytes
    "font.size": 9,
    "text.color": INK,
    "axes.edgecolor": MUTED,
    "axes.labelcolor": INK,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
}


def png(chart: Chart) -> bytes:
    """The chart for print and slides, with a legend."""
    with matplotlib.rc_context(STYLE):
        drawn = figure(chart)
        drawn.patch.set_visible(True)
        _legend(drawn.axes[0], chart)
        drawn.text(0.01, 0.985, chart.title, va="top", fontsize=10)
        out = io.BytesIO()
        drawn.savefig(out, format="png", dpi=160)
    return out.getvalue()


def figure(chart: Chart) -> Figure:
    """The chart as Matplotlib's figure, with a transparent background."""
    rows = len(chart.y.rows)
    height = _TOP + _ROW * max(1, rows) + _BOTTOM if chart.y.rows else _HEIGHT
    drawn = Figure(figsize=(_WIDTH / 72, height / 72))
    drawn.patch.set_visible(False)
    left = _LEFT_OF_ROWS if chart.y.rows else _LEFT
    axis = drawn.add_axes(
        (
            left / _WIDTH,
            _BOTTOM / height,
            1 - (left + _RIGHT) / _WIDTH,
            1 - (_TOP + _BOTTOM) / height,
        )
    )
    axis.patch.set_visible(False)
    axis.spines[["top", "right", "left"]].set_visible(False)
    infinity = _limits(axis, chart)
    _background(axis, chart, infinity)
    for number, point in enumerate(chart.points):
        _point(axis, point, gid=f"part-{number}", infinity=infinity, across=bool(chart.y.rows))
    for number, line in enumerate(chart.lines, len(chart.points)):
        dash = (0, line.dash) if line.dash else "-"
        style = "steps-post" if line.is_stepped else "default"
        (path,) = axis.plot(
            line.x, line.y, color=line.hex_colour, ls=dash, lw=1.4, drawstyle=style, alpha=0.85
        )
        path.set_gid(f"part-{number}-0")
    return drawn


def _limits(axis: Axes, chart: Chart) -> float:
    """Set scales, limits and ticks of both axes; returns the place of infinite x values."""
    xs = [p.x for p in chart.points] + [value for line in chart.lines for value in line.x]
    ys = [v for p in chart.points for v in (p.y, p.low, p.high) if v is not None]
    ys += [value for line in chart.lines for value in line.y]
    if chart.y.rows:
        xs += [v for p in chart.points for v in (p.low, p.high) if v is not None]
    if chart.level is not None:
        (xs if chart.y.rows else ys).append(chart.level[0])
    low, high = _range(xs, chart.x)
    right = infinity = high
    if any(math.isinf(x) for x in xs):  # infinite values are right of a break
        infinity, right = high * (high / low) ** 0.1, high * (high / low) ** 0.14
        axis.axvline(math.sqrt(high * infinity), color=MUTED, ls=(0, (3, 4)), lw=0.8)
    axis.set_xscale("log" if chart.x.is_log else "linear")
    axis.set_yscale("log" if chart.y.is_log else "linear")
    axis.set_xlim(low, right)
    places = _ticks(chart.x, low, high)
    words = [tick_label(place, chart.x.is_log) for place in places]
    if right > high:
        places, words = [*places, infinity], [*words, "∞"]
    axis.set_xticks(places, words)
    axis.set_xlabel(chart.x.label)
    if chart.y.rows:
        axis.set_ylim(len(chart.y.rows) - 0.5, -0.5)
        axis.set_yticks(range(len(chart.y.rows)), list(chart.y.rows))
    else:
        axis.set_ylim(*_range(ys, chart.y))
        places = _ticks(chart.y, *axis.get_ylim())
        axis.set_yticks(places, [tick_label(place, chart.y.is_log) for place in places])
        axis.set_title(chart.y.label, loc="left", fontsize=9, y=1.0)
    axis.minorticks_off()
    axis.grid(axis="x" if chart.y.rows else "y", color=GRID, lw=0.8)
    axis.tick_params(axis="y", length=0)
    axis.set_axisbelow(True)
    return infinity


def _range(values: Sequence[float], axis: Axis) -> tuple[float, float]:
    """The range of an axis: its finite data with a margin, or its explicit limits."""
    values = [value for value in values if math.isfinite(value)]
    if axis.is_log:
        values = [value for value in values if value > 0] or [1.0, 10.0]
        ends = math.log10(min(values)), math.log10(max(values))
        air = max(0.06 * (ends[1] - ends[0]), 0.15)
        low, high = 10 ** (ends[0] - air), 10 ** (ends[1] + air)
    else:
        low, high = min(values, default=0.0), max(values, default=1.0)
        air = 0.06 * (high - low) or 0.1 * abs(high) or 0.5
        low, high = low - air, high + air
    return low if axis.low is None else axis.low, high if axis.high is None else axis.high


def _ticks(axis: Axis, low: float, high: float) -> list[float]:
    if axis.is_log:
        wide = math.log10(high / low) >= 2
        locator = LogLocator(subs=(1.0,) if wide else (1.0, 2.0, 5.0), numticks=7)
        places = locator.tick_values(low, high)
    else:
        places = MaxNLocator(6, integer=axis.is_whole).tick_values(low, high)
    return [float(place) for place in places if low <= place <= high]


def _background(axis: Axes, chart: Chart, infinity: float) -> None:
    """Draw references, the front and the area that meets the target."""
    low, high = axis.get_xlim()
    quiet: dict[str, Any] = {"color": MUTED, "lw": 0.9}
    beside: dict[str, Any] = {"textcoords": "offset points", "color": MUTED}
    if chart.level is not None:
        value, words = chart.level
        if chart.y.rows:
            axis.axvline(value, ls=(0, (3, 4)), **quiet)
        else:
            axis.axhline(value, ls=(0, (3, 4)), **quiet)
            where: dict[str, Any] = {"xy": (0.01, value), "xycoords": ("axes fraction", "data")}
            axis.annotate(words, xytext=(0, 4), **where, **beside)
    if chart.chance:
        axis.plot([low, high], [low, high], ls=(0, (3, 4)), **quiet)
    if chart.front:
        axis.plot(*zip(*chart.front, strict=True), drawstyle="steps-post", **quiet)
    if chart.shaded is not None and low < chart.shaded < high:
        axis.axvspan(low, chart.shaded, color=palette.ACCENT, alpha=0.08, lw=0)
        axis.axvline(chart.shaded, color=palette.ACCENT, lw=0.8)
        where = {"xy": (chart.shaded, 0.95), "xycoords": ("data", "axes fraction")}
        axis.annotate(f"ε ≤ {chart.shaded:g}", xytext=(4, 0), **where, **beside)


def _point(axis: Axes, point: Point, *, gid: str, infinity: float, across: bool) -> None:
    """Draw a mark with its interval, vertical or `across`, and a ring around the chosen one."""
    x = infinity if math.isinf(point.x) else point.x
    colour = palette.colour(point.engine)
    parts: list[tuple[Any, Any, dict[str, Any]]] = []
    if point.low is not None and point.high is not None:
        ends, still = (point.low, point.high), (point.y if across else x,) * 2
        places = (ends, still) if across else (still, ends)
        parts.append((*places, {"color": colour, "lw": 1.4, "alpha": 0.6}))
    if point.is_chosen:
        ring = {"marker": "o", "ms": 17, "mfc": "none", "mec": INK, "mew": 1.3, "ls": ""}
        parts.append(([x], [point.y], ring))
    shape = palette.MATPLOTLIB_MARKS[point.mark]
    dot = {"marker": shape, "ms": 8, "color": colour, "mec": "#ffffff", "mew": 0.8, "ls": ""}
    parts.append(([x], [point.y], dot))
    for number, (xs, ys, style) in enumerate(parts):  # `plot` would compute new limits each time
        line = axis.add_line(Line2D(xs, ys, clip_on=False, **style))
        line.set_gid(f"{gid}-{number}")


def _legend(axis: Axes, chart: Chart) -> None:
    """Draw the legend of points and lines; none for one series, or for very many."""
    seen: dict[str, Point | Line] = {}
    things: Sequence[Point | Line] = (*chart.points, *chart.lines)
    for thing in things:
        seen.setdefault(thing.series, thing)
    if chart.y.rows or not 1 < len(seen) <= 12:
        return
    for words, thing in seen.items():
        if isinstance(thing, Point):
            shape = palette.MATPLOTLIB_MARKS[thing.mark]
            axis.plot([], [], shape, color=palette.colour(thing.engine), label=words)
        else:
            dash = (0, thing.dash) if thing.dash else "-"
            axis.plot([], [], color=thing.hex_colour, ls=dash, label=words)
    axis.legend(frameon=False, fontsize=8, loc="best")


def tick_label(value: float, is_log: bool) -> str:
    """A tick as text; powers of ten on a log axis from 10,000 on and below 0.001.

    >>> tick_label(1e6, True), tick_label(50, True), tick_label(0.25, False)
    ('10⁶', '50', '0.25')
    """
    if is_log and (value >= 1e4 or value < 1e-3):
        power = round(math.log10(value))
        return "10" + str(power).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return f"{value:.6g}".replace("-", "−")
