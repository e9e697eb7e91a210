"""Draws charts with Matplotlib, as PNG and as elements of a page, whose colours change
on dark screens; screen readers read its points and no axes.
"""

import io
import math
import re
from collections.abc import Mapping
from html import escape
from typing import Any
from xml.etree import ElementTree

import matplotlib
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator, MaxNLocator
from matplotlib.transforms import Bbox

from dashboards import palette
from dashboards.charts import Chart, Point

_LONGEST_LABEL = 24  # signs of a name beside a point
# Sides and heights of a name, points: beside its mark, then further off.
_PLACES = tuple((side, rise) for rise in (4, -12, 16, -28) for side in (1, -1))
_WIDTH, _HEIGHT = 520, 380  # of the page's units, 72 an inch
_LEFT, _RIGHT, _TOP, _BOTTOM = 58, 14, 30, 50
INK, MUTED, GRID = "#1b1f23", "#555c63", "#e4e7eb"
STYLE: Any = {
    "svg.fonttype": "none",
    "font.size": 9,
    "text.color": INK,
    "axes.edgecolor": MUTED,
    "axes.labelcolor": INK,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
}
_DASHED: Any = {"color": MUTED, "lw": 0.9, "ls": (0, (3, 4))}
# Colours of a drawing, by their names in the page's style sheet.
_NAMES = {
    INK: "var(--ink)",
    MUTED: "var(--muted)",
    GRID: "var(--grid)",
    "#ffffff": "var(--paper)",
}
_SVG = "{http://www.w3.org/2000/svg}"
_PART = re.compile(r"part-(\d+)")
# What a page has no use for: names of groups, clips, fonts, name spaces, white space.
_SURPLUS = re.compile(
    r'(?<=<g) id="[^"]*"| clip-path="[^"]*"|font(-size|-family)?: [^;"]*;? ?'
    r'| xmlns(:\w+)?="[^"]*"|(?<=>)\s+(?=<)'
)
ElementTree.register_namespace("", _SVG[1:-1])


def png(chart: Chart) -> bytes:
    """The chart for print and slides, with a legend."""
    with matplotlib.rc_context(STYLE):
        drawn = figure(chart)
        drawn.patch.set_visible(True)
        if 1 < len({point.series for point in chart.points}) <= 12:
            drawn.axes[0].legend(
                frameon=False, fontsize=8, loc="best", markerscale=0.75
            )
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
    infinity = _axes(axis, chart)
    _background(axis, chart)
    series: set[str] = set()
    for number, point in enumerate(chart.points):
        parts = _parts(
            point, min(point.x, infinity), is_chosen=point.trial.id == chart.chosen
        )
        if point.series not in series:
            series.add(point.series)
            parts[-1].set_label(point.series)
        for part in parts:  # `plot` would compute new limits each time
            part.set(clip_on=False, gid=f"part-{number}")
            axis.add_line(part)
    _labels(axis, chart, infinity)
    return drawn


def _axes(axis: Axes, chart: Chart) -> float:
    """Set scales, limits and ticks of both axes; returns the place of infinite x
    values.
    """
    names, is_log = chart.x.names, chart.x.is_log
    xs = [point.x for point in chart.points if math.isfinite(point.x)] or [1.0]
    level = [] if chart.level is None else [chart.level[0]]
    ys = [*level, *(end for point in chart.points for end in point.ends)] or [1.0]
    axis.set_xscale("log" if is_log else "linear")
    axis.margins(0.06)
    apart = (
        math.sqrt(2) if is_log else 1.0
    )  # so that two near epsilons have a tick between them
    ends = (min(xs) / apart, max(xs) * apart)
    axis.update_datalim([(x, y) for x in ends for y in (min(ys), max(ys))])
    axis.autoscale_view()
    low, high = (-0.5, len(names) - 0.5) if names else axis.get_xlim()
    right = infinity = high
    if len(xs) < len(chart.points):  # infinite values are right of a break
        infinity, right = high * (high / low) ** 0.1, high * (high / low) ** 0.14
        axis.axvline(math.sqrt(high * infinity), **_DASHED)
    axis.set_xlim(low, right)
    axis.set_ylim(0.0 if chart.level is None or chart.level[1] != "chance" else None)
    subs = (1.0,) if is_log and high / low >= 100 else (1.0, 2.0, 5.0)
    locator: Any = LogLocator(subs=subs, numticks=7) if is_log else MaxNLocator(6)
    found = [float(place) for place in locator.tick_values(low, high)]
    places = [float(n) for n in range(len(names))] or [
        p for p in found if low <= p <= high
    ]
    words = list(names) or [tick_label(place, is_log) for place in places]
    if right > high:
        places, words = [*places, infinity], [*words, "∞"]
    axis.set_xticks(places, words)
    axis.set_xlabel(chart.x.label)
    axis.yaxis.set_major_locator(MaxNLocator(6))
    axis.set_title(chart.y, loc="left", fontsize=9, y=1.0)
    axis.minorticks_off()
    axis.grid(axis="y", color=GRID, lw=0.8)
    axis.tick_params(axis="y", length=0)
    axis.set_axisbelow(True)
    return infinity


def _background(axis: Axes, chart: Chart) -> None:
    """Draw the reference, the front and the area that meets the target."""
    low, high = axis.get_xlim()
    beside: dict[str, Any] = {"textcoords": "offset points", "color": MUTED}
    if chart.level is not None:
        value, words = chart.level
        axis.axhline(value, **_DASHED)
        where: dict[str, Any] = {
            "xy": (0.3, value),
            "xycoords": ("axes fraction", "data"),
        }
        axis.annotate(words, xytext=(0, 4), **where, **beside)
    if chart.front:
        axis.plot(
            *zip(*chart.front, strict=True), drawstyle="steps-post", color=MUTED, lw=0.9
        )
    if chart.shaded is not None and low < chart.shaded < high:
        axis.axvspan(low, chart.shaded, color=palette.ACCENT, alpha=0.08, lw=0)
        axis.axvline(chart.shaded, color=palette.ACCENT, lw=0.8)
        where = {"xy": (chart.shaded, 0.95), "xycoords": ("data", "axes fraction")}
        axis.annotate(f"ε ≤ {chart.shaded:g}", xytext=(4, 0), **where, **beside)


def _parts(point: Point, x: float, *, is_chosen: bool) -> list[Line2D]:
    """The interval, a ring around the chosen one, and last the mark."""
    colour, y = palette.colour(point.look), point.y.value
    marker = palette.MATPLOTLIB_MARKS[point.mark]
    bar = Line2D([x] * len(point.ends), point.ends, color=colour, lw=1.4, alpha=0.6)
    ring = Line2D([x], [y], marker="o", ms=17, mfc="none", mec=INK, mew=1.3, ls="")
    mark = Line2D(
        [x], [y], marker=marker, ms=8, color=colour, ls="", mec="#ffffff", mew=0.8
    )
    return [bar, ring, mark] if is_chosen else [bar, mark]


def _labels(axis: Axes, chart: Chart, infinity: float) -> None:
    """Write the names of points beside them; one that would cover another, a mark or an
    interval is left out.
    """
    scale, right = axis.figure.dpi / 72, axis.get_window_extent().x1
    taken = []
    for point in chart.points:
        ends = [(min(point.x, infinity), end) for end in point.ends]
        corners = axis.transData.transform(ends)
        taken.append(Bbox([corners.min(0), corners.max(0)]).padded(5 * scale))
    for point in sorted(chart.points, key=lambda point: point.trial.id != chart.chosen):
        for side, rise in _PLACES if point.label else ():
            words = axis.annotate(
                point.label[:_LONGEST_LABEL],
                (min(point.x, infinity), point.y.value),
                xytext=(9 * side, rise),
                textcoords="offset points",
                ha="left" if side > 0 else "right",
                fontsize=8,
                color=MUTED,
            )
            box = words.get_window_extent()
            if box.x1 < right + _RIGHT * scale and not any(map(box.overlaps, taken)):
                taken.append(box)
                break
            words.remove()


def tick_label(value: float, is_log: bool) -> str:
    """A tick as text; powers of ten on a log axis from 10,000 on and below 0.001.

    >>> tick_label(1e6, True), tick_label(50, True), tick_label(0.25, False)
    ('10⁶', '50', '0.25')
    """
    if is_log and (value >= 1e4 or value < 1e-3):
        power = round(math.log10(value))
        return "10" + str(power).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return f"{value:.6g}".replace("-", "−")


def svg(chart: Chart) -> Markup:
    """The chart as an element of a page; each point is an image with words that a
    script finds.
    """
    out = io.StringIO()
    with matplotlib.rc_context(
        {**STYLE, "svg.hashsalt": chart.name}
    ):  # equal bytes, own ids
        facts = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        figure(chart).savefig(out, format="svg", metadata=facts)
    root = ElementTree.fromstring(out.getvalue())
    groups = []
    for point in chart.points:
        named = {"class": f"point {palette.css_class(point.look)}", "role": "img"}
        named |= {"aria-label": point.words, "data-tip": point.words}
        named["data-trial"] = point.trial.id
        groups.append(ElementTree.Element(f"{_SVG}g", named))
    behind = ElementTree.Element(f"{_SVG}g", {"aria-hidden": "true"})
    for part in root.iterfind(f"{_SVG}g/{_SVG}g/*"):
        place = _PART.fullmatch(part.get("id", ""))
        (groups[int(place[1])] if place else behind).append(part)
    parts = [_text(behind, _NAMES)]
    for point, group in zip(chart.points, groups, strict=True):
        colour = palette.colour(point.look).lower()
        parts.append(_text(group, _NAMES | {colour: "currentColor"}))
    return Markup(
        f'<svg id="{chart.name}" class="chart" viewBox="{root.get("viewBox")}"'
        f' role="group" aria-labelledby="{chart.name}-title"'
        f' aria-describedby="{chart.name}-desc" xmlns="{_SVG[1:-1]}"><title'
        f' id="{chart.name}-title">{escape(chart.title)}</title><desc'
        f' id="{chart.name}-desc">{escape(chart.description)}</desc>{"".join(parts)}</svg>'
    )


def _text(part: ElementTree.Element, colours: Mapping[str, str]) -> str:
    """An element with the page's colours and fonts."""
    for each in part.iter():
        for key in [key for key in each.attrib if key.startswith("{")]:  # of XLink
            each.set(key.rpartition("}")[2], each.attrib.pop(key))
    text = _SURPLUS.sub("", ElementTree.tostring(part, "unicode"))
    for colour, name in colours.items():
        text = text.replace(colour, name)
    return text
