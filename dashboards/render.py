"""Draws charts with Matplotlib, as PNG and as elements of a page.

In a page points and lines have their trial's id and their figures in words, and colours are those
of the page, so that they change on dark screens. Axes are hidden from screen readers, which read
the points.
"""

from __future__ import annotations

import io
import math
import re
from collections.abc import Sequence
from html import escape
from typing import Any
from xml.etree import ElementTree

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator, MaxNLocator

from dashboards import palette
from dashboards.charts import Axis, Chart, Line, Point

_LONGEST_LABEL = 24  # signs of a name beside a point
_LETTER = 4.6  # mean width of one of its signs, points
# Sides and heights of a name, points: beside its mark, then further off.
_PLACES = tuple((side, rise) for rise in (4, -12, 16, -28) for side in (1, -1))
_WIDTH, _HEIGHT = 520, 380  # of the page's units, 72 an inch
_LEFT, _RIGHT, _TOP, _BOTTOM = 58, 14, 30, 50
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

# Colours of a drawing, by their names in the page's style sheet.
_NAMES = {INK: "var(--ink)", MUTED: "var(--muted)", GRID: "var(--grid)", "#ffffff": "var(--paper)"}
_SVG = "{http://www.w3.org/2000/svg}"
_NUMBER = re.compile(r"-?\d+\.\d{2,}")
_FONT = re.compile(r"font(-size|-family)?: [^;]*;? ?")
_PART = re.compile(r"part-(\d+)-\d")
ElementTree.register_namespace("", _SVG[1:-1])


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
    drawn = Figure(figsize=(_WIDTH / 72, _HEIGHT / 72))
    drawn.patch.set_visible(False)
    size = (1 - (_LEFT + _RIGHT) / _WIDTH, 1 - (_TOP + _BOTTOM) / _HEIGHT)
    axis = drawn.add_axes((_LEFT / _WIDTH, _BOTTOM / _HEIGHT, *size))
    axis.patch.set_visible(False)
    axis.spines[["top", "right", "left"]].set_visible(False)
    infinity = _limits(axis, chart)
    _background(axis, chart)
    for number, point in enumerate(chart.points):
        _point(axis, point, gid=f"part-{number}", infinity=infinity)
    _labels(axis, chart.points, infinity)
    for number, line in enumerate(chart.lines, len(chart.points)):
        dash = (0, line.dash) if line.dash else "-"
        style = "steps-post" if line.is_stepped else "default"
        (path,) = axis.plot(
            line.x, line.y, color=_colour(line), ls=dash, lw=1.4, drawstyle=style, alpha=0.85
        )
        path.set_gid(f"part-{number}-0")
    return drawn


def _limits(axis: Axes, chart: Chart) -> float:
    """Set scales, limits and ticks of both axes; returns the place of infinite x values."""
    xs = [p.x for p in chart.points] + [value for line in chart.lines for value in line.x]
    ys = [v for p in chart.points for v in (p.y, p.low, p.high) if v is not None]
    ys += [value for line in chart.lines for value in line.y]
    ys += [] if chart.level is None else [chart.level[0]]
    low, high = (-0.5, len(chart.x.names) - 0.5) if chart.x.names else _range(xs, chart.x)
    right = infinity = high
    if any(math.isinf(x) for x in xs):  # infinite values are right of a break
        infinity, right = high * (high / low) ** 0.1, high * (high / low) ** 0.14
        axis.axvline(math.sqrt(high * infinity), color=MUTED, ls=(0, (3, 4)), lw=0.8)
    axis.set_xscale("log" if chart.x.is_log else "linear")
    axis.set_yscale("log" if chart.y.is_log else "linear")
    axis.set_xlim(low, right)
    places = [float(n) for n in range(len(chart.x.names))] or _ticks(chart.x, low, high)
    words = list(chart.x.names) or [tick_label(place, chart.x.is_log) for place in places]
    if right > high:
        places, words = [*places, infinity], [*words, "∞"]
    axis.set_xticks(places, words)
    axis.set_xlabel(chart.x.label)
    axis.set_ylim(*_range(ys, chart.y))
    places = _ticks(chart.y, *axis.get_ylim())
    axis.set_yticks(places, [tick_label(place, chart.y.is_log) for place in places])
    axis.set_title(chart.y.label, loc="left", fontsize=9, y=1.0)
    axis.minorticks_off()
    axis.grid(axis="y", color=GRID, lw=0.8)
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


def _background(axis: Axes, chart: Chart) -> None:
    """Draw references, the front and the area that meets the target."""
    low, high = axis.get_xlim()
    quiet: dict[str, Any] = {"color": MUTED, "lw": 0.9}
    beside: dict[str, Any] = {"textcoords": "offset points", "color": MUTED}
    if chart.level is not None:
        value, words = chart.level
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


def _point(axis: Axes, point: Point, *, gid: str, infinity: float) -> None:
    """Draw a mark with its interval, and a ring around the chosen one."""
    x = infinity if math.isinf(point.x) else point.x
    colour = _colour(point)
    parts: list[tuple[Any, Any, dict[str, Any]]] = []
    if point.low is not None and point.high is not None:
        bar = {"color": colour, "lw": 1.4, "alpha": 0.6}
        parts.append(([x, x], [point.low, point.high], bar))
    if point.is_chosen:
        ring = {"marker": "o", "ms": 17, "mfc": "none", "mec": INK, "mew": 1.3, "ls": ""}
        parts.append(([x], [point.y], ring))
    shape = palette.MATPLOTLIB_MARKS[point.mark]
    dot = {"marker": shape, "ms": 8, "color": colour, "mec": "#ffffff", "mew": 0.8, "ls": ""}
    parts.append(([x], [point.y], dot))
    for number, (xs, ys, style) in enumerate(parts):  # `plot` would compute new limits each time
        line = axis.add_line(Line2D(xs, ys, clip_on=False, **style))
        line.set_gid(f"{gid}-{number}")


def _labels(axis: Axes, points: Sequence[Point], infinity: float) -> None:
    """Write the names of points beside them; one that would cover another, a mark or an interval is
    left out.
    """
    scale = axis.figure.dpi / 72
    right = axis.get_window_extent().x1
    taken: list[tuple[float, float, float, float]] = []
    places = []
    for point in points:
        x = infinity if math.isinf(point.x) else point.x
        across, up = axis.transData.transform((x, point.y))
        places.append((point, x, across, up))
        ends = [axis.transData.transform((x, end))[1] for end in (point.low, point.high) if end]
        low, high = min([up - 5 * scale, *ends]), max([up + 5 * scale, *ends])
        taken.append((across - 5 * scale, low, across + 5 * scale, high))
    for point, x, across, up in sorted(places, key=lambda place: not place[0].is_chosen):
        words = point.label[:_LONGEST_LABEL]
        wide, high = _LETTER * len(words) * scale, 2 * _LETTER * scale
        for side, rise in _PLACES:
            low = across + 9 * scale if side > 0 else across - 9 * scale - wide
            box = (low, up + rise * scale, low + wide, up + rise * scale + high)
            is_free = all(
                box[2] < other[0] or other[2] < box[0] or box[3] < other[1] or other[3] < box[1]
                for other in taken
            )
            if words and is_free and box[2] < right + 20 * scale:
                taken.append(box)
                align = "left" if side > 0 else "right"
                axis.annotate(
                    words,
                    (x, point.y),
                    xytext=(9 * side, rise),
                    textcoords="offset points",
                    ha=align,
                    fontsize=8,
                    color=MUTED,
                )
                break


def _colour(thing: Point | Line) -> str:
    own = thing.colour if isinstance(thing, Line) else ""
    return own or palette.colour(thing.look)


def _legend(axis: Axes, chart: Chart) -> None:
    """Draw the legend of points and lines; none for one series, or for very many."""
    seen: dict[str, Point | Line] = {}
    things: Sequence[Point | Line] = (*chart.points, *chart.lines)
    for thing in things:
        seen.setdefault(thing.series, thing)
    if not 1 < len(seen) <= 12:
        return
    for words, thing in seen.items():
        if isinstance(thing, Point):
            shape = palette.MATPLOTLIB_MARKS[thing.mark]
            axis.plot([], [], shape, color=_colour(thing), label=words)
        else:
            dash = (0, thing.dash) if thing.dash else "-"
            axis.plot([], [], color=_colour(thing), ls=dash, label=words)
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


class Svg(str):
    """SVG text that templates insert without escaping."""

    def __html__(self) -> str:
        """Itself."""
        return self


def svg(chart: Chart) -> Svg:
    """The chart as an element of a page."""
    with matplotlib.rc_context(STYLE):
        out = io.StringIO()
        figure(chart).savefig(out, format="svg", metadata={"Date": None, "Creator": None})
    text = re.sub(r"<(\?|!DOCTYPE)[^>]*>", "", out.getvalue())
    root = ElementTree.fromstring(text)
    things: Sequence[Point | Line] = (*chart.points, *chart.lines)
    groups = [_group(thing) for thing in things]
    for parent in list(root.iter()):
        for child in list(parent):
            place = _PART.fullmatch(child.get("id", ""))
            if place is not None:
                parent.remove(child)
                groups[int(place[1])].append(child)
            # A style of all elements would change the page, not only this chart.
            elif child.tag in (f"{_SVG}metadata", f"{_SVG}style", f"{_SVG}clipPath"):
                parent.remove(child)
    behind = ElementTree.Element(f"{_SVG}g")
    behind.extend(list(root))
    for thing, group in zip(things, groups, strict=True):
        colour = palette.colour(thing.look).lower() if thing.look else ""
        for part in group.iter():
            if part is not group:
                _for_page(part, chart.name)
                if colour and "style" in part.attrib:
                    part.set("style", part.attrib["style"].replace(colour, "currentColor"))
    for part in behind.iter():
        _for_page(part, chart.name)
    behind.set("aria-hidden", "true")
    parts = "".join(map(_text, (behind, *groups)))
    box = root.get("viewBox", "")
    return Svg(
        f'<svg id="{chart.name}" class="chart" viewBox="{box}" role="group"'
        f' aria-labelledby="{chart.name}-title" aria-describedby="{chart.name}-desc"'
        f' xmlns="{_SVG[1:-1]}"><title id="{chart.name}-title">{escape(chart.title)}</title>'
        f'<desc id="{chart.name}-desc">{escape(chart.description)}</desc>{parts}</svg>'
    )


def _group(thing: Point | Line) -> ElementTree.Element:
    """A point or line in a page: an image with words that a script can find."""
    kind = "point" if isinstance(thing, Point) else "line"
    look = f" {palette.css_class(thing.look)}" if thing.look else ""
    named = {"class": kind + look, "role": "img", "aria-label": thing.words}
    named |= {"data-tip": thing.words} | ({"data-trial": thing.trial} if thing.trial else {})
    return ElementTree.Element(f"{_SVG}g", named)


def _for_page(part: ElementTree.Element, name: str) -> None:
    """An element with ids unique to this chart, the page's colours and fonts, and short numbers."""
    kept = dict(part.attrib)
    part.attrib.clear()
    for key, value in kept.items():
        key = key.rpartition("}")[2]
        if key in ("d", "x", "y", "width", "height"):
            value = _NUMBER.sub(lambda found: f"{float(found[0]):.1f}", " ".join(value.split()))
        elif key == "id":
            if part.tag == f"{_SVG}g":
                continue
            value = f"{name}-{value}"
        elif key == "clip-path" or (
            key == "transform" and value.startswith(("rotate(-0 ", "rotate(0 "))
        ):
            continue
        elif key == "style":
            value = _FONT.sub("", value)
            for colour, variable in _NAMES.items():
                value = value.replace(colour, variable)
        elif key == "href":
            value = value.replace("#", f"#{name}-")
        part.set(key, value)


def _text(part: ElementTree.Element) -> str:
    text = ElementTree.tostring(part, "unicode")
    return re.sub(r' xmlns(:\w+)?="[^"]*"|(?<=>)\s+(?=<)', "", text)
