"""Draws charts as SVG: elements of a page, or files of their own. Colours are variables
of a style sheet and change on dark screens; screen readers read points and lines, and
no axes. Pure.
"""

import math
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path

from markupsafe import Markup

from dashboards import palette
from dashboards.charts import Axis, Chart, Line, Point

WIDTH, HEIGHT = 460, 310  # of a drawing, in its own units
TALL = 410  # of the chart beside the answer
_SIZE, _SMALL, _ROW = 13.0, 12.0, 16.0  # of letters, and of a line of them
_TOP, _BOTTOM, _RIGHT = 30.0, 46.0, 12.0
_EM = 0.58  # mean width of a letter over its size, of a wide font
_LANE = 62.0  # room right of the break in an axis, for what is infinite
_LONGEST = 22  # signs of a line of a name beside a point
_SIGNS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_DASHES = ("", "7 4", "2 4", "9 3 2 3")  # of lines that have one colour
STYLE = (Path(__file__).parent / "templates" / "chart.css").read_text("utf-8")
_COLOURS = (
    ":root { --paper: #fff; --ink: #1b1f23; --muted: #555c63; --rule: #d5d9de;"
    " --grid: #e4e7eb; --accent: #0072b2; --other: #7a4a86; }\n"
    "@media (prefers-color-scheme: dark) { :root { --paper: #14171a; --ink: #e8eaed;"
    " --muted: #a9b0b7; --rule: #3a4046; --grid: #2b3136; --accent: #56b4e9;"
    " --other: #cc79a7; } }\n"
)


@dataclass(frozen=True, kw_only=True)
class Scale:
    """Places of an axis' values between `start` and `end`; an infinite value is at
    `infinity`, one beyond the ends at the nearer end.
    """

    low: float
    high: float
    start: float
    end: float
    is_log: bool = False
    infinity: float | None = None

    def at(self, value: float) -> float:
        """The place of a value."""
        if math.isinf(value) and self.infinity is not None:
            return self.infinity
        low, high, value = (
            math.log10(v) if self.is_log else v for v in (self.low, self.high, value)
        )
        share = (value - low) / (high - low)
        return self.start + min(1.0, max(0.0, share)) * (self.end - self.start)


@dataclass(frozen=True)
class _Box:
    left: float
    top: float
    right: float
    bottom: float

    def overlaps(self, other: "_Box") -> bool:
        return (
            self.left < other.right
            and other.left < self.right
            and self.top < other.bottom
            and other.top < self.bottom
        )


@dataclass
class _Drawing:
    """Room of a chart: its scales, and the boxes that words have taken."""

    x: Scale
    y: Scale
    height: float
    taken: list[_Box] = field(default_factory=list)


def svg(chart: Chart, *, height: int = HEIGHT) -> Markup:
    """The chart as an element of a page; each point and line is an image with words
    that a script finds.
    """
    name = chart.name
    return Markup(
        f'<svg id="{name}" class="chart" viewBox="0 0 {WIDTH} {height}" role="group"'
        f' aria-labelledby="{name}-title" aria-describedby="{name}-desc">'
        f'<title id="{name}-title">{escape(chart.title)}</title>'
        f'<desc id="{name}-desc">{escape(chart.description)}</desc>'
        f"{''.join(_parts(chart, height))}</svg>"
    )


def file(chart: Chart) -> str:
    """The chart as a file of its own, for slides and print, with its title."""
    height = HEIGHT + 24
    style = f"{_COLOURS}svg {{ background: var(--paper); }}{STYLE}{palette.css()}"
    title = _text(10, 20, chart.title, "strong")
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="chart" width="{WIDTH}"'
        f' height="{height}" viewBox="0 -24 {WIDTH} {height}"><style>{style}</style>'
        f'<g transform="translate(0 -24)">{title}</g>'
        f"{''.join(_parts(chart, HEIGHT))}</svg>\n"
    )


def _parts(chart: Chart, height: float) -> Iterator[str]:
    legend = _legend(chart)
    drawing = _fit(
        chart, height - _ROW * (1 + max((row for row, *_ in legend), default=-1))
    )
    yield f'<g aria-hidden="true">{"".join(_background(chart, drawing))}'
    for row, left, sample, words in legend:
        y = drawing.height + 6 + _ROW * row
        yield f'<g transform="translate({left:.0f} {y:.0f})">{sample}'
        yield f"{_text(20, 4, words, 'small muted')}</g>"
    yield "</g>"
    dashes: dict[str, int] = {}
    for line in chart.lines:
        yield _line(line, drawing, chart, dashes)
    for point in chart.points:
        yield _point(point, drawing, is_best=point.trial == chart.chosen)
    yield f'<g aria-hidden="true">{"".join(_names(chart, drawing))}</g>'


def _fit(chart: Chart, height: float) -> _Drawing:
    """Scales that hold every figure of a chart."""
    xs = [x for x in _xs(chart) if math.isfinite(x)] or [1.0, 10.0]
    level = [] if chart.level is None else [chart.level[0]]
    ys = [*level, *(end for point in chart.points for end in point.y.ends)]
    ys += [y for line in chart.lines for _, y in line.points]
    low, high = _range(chart.y, ys or [0.0, 1.0])
    bottom = height - _BOTTOM
    y = Scale(low=low, high=high, start=bottom, end=_TOP, is_log=chart.y.is_log)
    left = 16 + max(_width(words, _SMALL) for _, words in ticks(chart.y, y))
    low, high = _range(chart.x, xs)
    has_lane = any(math.isinf(x) for x in _xs(chart))
    right = WIDTH - _RIGHT - (_LANE if has_lane else 0.0)
    x = Scale(
        low=low,
        high=high,
        start=left,
        end=right,
        is_log=chart.x.is_log,
        infinity=right + _LANE / 2 if has_lane else None,
    )
    return _Drawing(x=x, y=y, height=height)


def _xs(chart: Chart) -> list[float]:
    found = [point.x for point in chart.points]
    return found + [x for line in chart.lines for x, _ in line.points]


def _range(axis: Axis, values: Sequence[float]) -> tuple[float, float]:
    """The ends of an axis, with room around the values where none are given."""
    if axis.names:
        return -0.5, len(axis.names) - 0.5
    low, high = min(values), max(values)
    if axis.is_log:
        factor = max(1.25, (high / low) ** 0.07)
        low, high = low / factor, high * factor
    else:
        apart = 0.06 * (high - low) or 0.5 * abs(high) or 0.5
        low, high = low - apart, high + apart
    low = low if axis.low is None else axis.low
    return low, high if axis.high is None else axis.high


def ticks(axis: Axis, scale: Scale) -> list[tuple[float, str]]:
    """The places of an axis that have a number, or words, beside them.

    >>> scale = Scale(low=0.0, high=24.0, start=0.0, end=100.0)
    >>> [words for _, words in ticks(Axis(label="errors"), scale)]
    ['0', '5', '10', '15', '20']
    """
    if axis.names:
        return [(float(place), name) for place, name in enumerate(axis.names)]
    if axis.ticks:
        return [
            (at, words) for at, words in axis.ticks if scale.low <= at <= scale.high
        ]
    low, high = scale.low, scale.high
    if scale.is_log and high / low > 8:
        first, last = (
            math.ceil(math.log10(low) - 1e-9),
            math.floor(math.log10(high) + 1e-9),
        )
        step = max(1, math.ceil((last - first + 1) / 6))
        places = [10.0**power for power in range(first, last + 1, step)]
        if len(places) < 3:
            places = [
                f * 10.0**n for n in range(first - 1, last + 1) for f in (1, 2, 5)
            ]
    else:
        rough = (high - low) / 5
        unit = 10.0 ** math.floor(math.log10(rough))
        step_ = next(f * unit for f in (1, 2, 2.5, 5, 10) if f * unit >= rough)
        step_ = max(1.0, math.ceil(step_)) if axis.is_whole else step_
        first = math.ceil(low / step_ - 1e-9)
        places = [step_ * n for n in range(first, math.floor(high / step_ + 1e-9) + 1)]
    kept = (place for place in places if low <= place <= high * (1 + 1e-9))
    return [(place, tick_label(place, scale.is_log)) for place in kept]


def tick_label(value: float, is_log: bool) -> str:
    """A tick as text; powers of ten on a log axis from 10,000 on and below 0.001.

    >>> tick_label(1e6, True), tick_label(50, True), tick_label(0.25, False)
    ('10⁶', '50', '0.25')
    >>> tick_label(2.5e6, False)
    '2.5·10⁶'
    """
    if abs(value) >= 1e5 or (is_log and (value >= 1e4 or value < 1e-3)):
        power = math.floor(math.log10(abs(value)) + 1e-9)
        factor = f"{value / 10.0**power:.3g}"
        places = f"10{str(power).translate(_SIGNS)}"
        return places if factor == "1" else f"{factor}·{places}"
    return f"{value:.6g}".replace("-", "−")


def _background(chart: Chart, drawing: _Drawing) -> Iterator[str]:
    """Grid, ticks, names of axes, the area that meets the target, and the break."""
    x, y = drawing.x, drawing.y
    right = WIDTH - _RIGHT
    if chart.shaded is not None and x.low < chart.shaded[0]:
        edge = x.at(chart.shaded[0])
        area = f"M{x.start:.1f} {_TOP}H{edge:.1f}V{y.start:.1f}H{x.start:.1f}Z"
        yield f'<path class="shade" d="{area}"/>'
    for place, words in ticks(chart.y, y):
        at = y.at(place)
        yield f'<path class="grid" d="M{x.start:.1f} {at:.1f}H{right}"/>'
        yield _text(x.start - 8, at + 4, words, "small muted end")
    yield f'<path class="axis" d="M{x.start:.1f} {y.start:.1f}H{right}"/>'
    yield from _x_ticks(chart, drawing)
    yield _text(x.start, drawing.height - 8, chart.x.label, "small muted")
    yield _text(max(0.0, x.start - 30), 14, chart.y.label, "small muted")
    for line in chart.lines:
        if not line.words and line.points:
            kind = "rule" if line.is_dashed else "step"
            yield f'<path class="{kind}" fill="none" d="{_path(line, drawing)}"/>'
    if chart.level is not None:
        at = y.at(chart.level[0])
        yield f'<path class="rule" d="M{x.start:.1f} {at:.1f}H{right}"/>'
    if x.infinity is not None:
        edge = right - _LANE
        yield f'<path class="rule" d="M{edge:.1f} {_TOP}V{y.start:.1f}"/>'


def _x_ticks(chart: Chart, drawing: _Drawing) -> Iterator[str]:
    """The words below the x axis, those left out that would touch the one before."""
    x, row, beyond = drawing.x, drawing.y.start + 16, -math.inf
    found = [(x.at(place), words) for place, words in ticks(chart.x, x)]
    if x.infinity is not None:
        found.append((x.infinity, "∞"))
    is_tight = bool(chart.x.names) and any(
        _width(words, _SMALL) > (x.end - x.start) / len(found) for _, words in found
    )
    for place, (at, words) in enumerate(found):
        half = _width(words, _SMALL) / 2
        at = min(max(at, half), WIDTH - half)
        # Long names stand on two levels.
        level = 13.0 * (place % 2) if is_tight else 0.0
        if not chart.x.names and at - half < beyond:
            continue
        beyond = at + half + 6
        yield _text(at, row + level, words, "small muted mid")


def _line(line: Line, drawing: _Drawing, chart: Chart, dashes: dict[str, int]) -> str:
    if not line.words or not line.points:
        return ""
    best = " best" if line.trial and line.trial == chart.chosen else ""
    look = palette.css_class(line.look) if line.look else "plain"
    number = dashes.get(look, 0)
    dashes[look] = number + 1
    dash = _DASHES[number % len(_DASHES)] if line.look else ""
    style = f' stroke-dasharray="{dash}"' if dash else ""
    mark = ""
    if len(line.points) == 1:
        (at, value), *_ = line.points
        place = f"{drawing.x.at(at):.1f} {drawing.y.at(value):.1f}"
        mark = f'<path class="mark" transform="translate({place})" d="{palette.PATHS["circle"]}"/>'
    return (
        f'<g class="point {look}{best}" role="img" aria-label="{escape(line.words)}"'
        f' data-trial="{escape(line.trial)}"><path class="line"{style}'
        f' d="{_path(line, drawing)}"/>{mark}</g>'
    )


def _path(line: Line, drawing: _Drawing) -> str:
    found, before = [], None
    for x, y in line.points:
        across, down = f"{drawing.x.at(x):.1f}", f"{drawing.y.at(y):.1f}"
        if before is None:
            found.append(f"M{across} {down}")
        elif line.is_step:
            found.append(f"H{across}V{down}")
        else:
            found.append(f"L{across} {down}")
        before = down
    return "".join(found)


def _point(point: Point, drawing: _Drawing, *, is_best: bool) -> str:
    x, y = drawing.x.at(point.x), drawing.y.at(point.y.value)
    ends = [drawing.y.at(end) for end in point.y.ends]
    drawing.taken.append(_Box(x - 8, min(*ends, y - 8), x + 8, max(*ends, y + 8)))
    bar = f'<path class="bar" d="M{x:.1f} {ends[0]:.1f}V{ends[-1]:.1f}"/>'
    is_beyond = point.y.value > drawing.y.high
    path = "M0-7L7 5H-7Z" if is_beyond else palette.PATHS[point.mark]
    scale = " scale(1.5)" if is_best else ""
    ring = f'<circle class="ring" cx="{x:.1f}" cy="{y:.1f}" r="15"/>' if is_best else ""
    look = palette.css_class(point.look)
    return (
        f'<g class="point {look}" role="img" aria-label="{escape(point.words)}"'
        f' data-trial="{escape(point.trial)}">{bar if len(ends) > 1 else ""}'
        f'<path class="mark" transform="translate({x:.1f} {y:.1f}){scale}" d="{path}"/>'
        f"{ring}</g>"
    )


def _names(chart: Chart, drawing: _Drawing) -> Iterator[str]:
    """The names of the reference, the area and the points, where they cover nothing;
    that of the answer always.
    """
    x, y = drawing.x, drawing.y
    right = WIDTH - _RIGHT - (_LANE if x.infinity is not None else 0.0)
    if chart.shaded is not None and x.low < chart.shaded[0]:
        edge = x.at(chart.shaded[0])
        width = _width(chart.shaded[1], _SMALL)
        left = max(x.start + 4, edge - width - 5)
        for top in (_TOP, y.start - _ROW - 2, (_TOP + y.start) / 2):
            box = _Box(left, top, left + width, top + _ROW)
            if not any(map(box.overlaps, drawing.taken)):
                drawing.taken.append(box)
                yield _text(left, top + 13, chart.shaded[1], "small muted")
                break
    first = (p for p in chart.points if p.trial == chart.chosen)
    for point in (*first, *(p for p in chart.points if p.trial != chart.chosen)):
        if point.label:
            is_best = point.trial == chart.chosen
            yield _name(point, drawing, right, is_best=is_best)
    if chart.level is not None:
        at, words = y.at(chart.level[0]), chart.level[1]
        width = _width(words, _SMALL)
        for left in (right - width - 6, x.start + 6, (x.start + right - width) / 2):
            for base in (at + 15, at - 6):
                box = _Box(left, base - 11, left + width, base + 3)
                if not any(map(box.overlaps, drawing.taken)):
                    drawing.taken.append(box)
                    yield _text(left, base, words, "small muted halo")
                    return


def _name(point: Point, drawing: _Drawing, right: float, *, is_best: bool) -> str:
    lines = wrapped(point.label, _LONGEST)
    if is_best or point.y.value > drawing.y.high:
        lines = [*lines, tick_label(float(f"{point.y.value:.3g}"), False)]
    width = max(_width(line, _SIZE) * (1.07 if is_best else 1.0) for line in lines)
    tall = _ROW * len(lines)
    x, y = drawing.x.at(point.x), drawing.y.at(point.y.value)
    gap = 19 if is_best else 12
    edge = WIDTH - 2 if math.isinf(point.x) else right
    places = [
        (left, top)
        for off in (0, -14, 14, -30, 30, -48, 48)
        for left, top in (
            (x + gap, y - tall / 2 + off),
            (x - gap - width, y - tall / 2 + off),
        )
    ]
    places += [
        (min(max(x - width / 2, drawing.x.start + 2), edge - width), top)
        for top in (y - gap - tall - 4, y + gap, y - gap - tall - 22, y + gap + 18)
    ]
    for left, top in places:
        box = _Box(left, top, left + width, top + tall)
        is_inside = (
            box.left >= drawing.x.start
            and box.right <= edge
            and box.top >= _TOP - 6
            and box.bottom <= drawing.y.start
        )
        if is_inside and not any(map(box.overlaps, drawing.taken)):
            drawing.taken.append(box)
            break
    else:
        if not is_best:
            return ""
        left, top = places[0] if places[0][0] + width < WIDTH else places[1]
    kind = "halo strong" if is_best else "halo small"
    leader = _leader(_Box(left, top, left + width, top + tall), x, y)
    return leader + "".join(
        _text(left, top + 12 + _ROW * n, words, "halo" if is_best and n else kind)
        for n, words in enumerate(lines)
    )


def _leader(box: _Box, x: float, y: float) -> str:
    """A line from a name to a mark at (x, y) that is not right beside it."""
    across = min(max(x, box.left), box.right)
    down = min(max(y, box.top + 3), box.bottom - 3)
    if math.hypot(across - x, down - y) < 20:
        return ""
    return f'<path class="leader" d="M{across:.1f} {down:.1f}L{x:.1f} {y:.1f}"/>'


def _legend(chart: Chart) -> list[tuple[int, float, str, str]]:
    """(row, left edge, sample, words) of each series that is drawn."""
    found: dict[str, str] = {}
    scale = list(palette.BANDS)
    for point in sorted(
        chart.points, key=lambda p: scale.index(p.look) if p.look in scale else -1
    ):
        mark = f'<path class="mark" transform="translate(8 0)" d="{palette.PATHS[point.mark]}"/>'
        found[point.series] = (
            f'<g class="point {palette.css_class(point.look)}">{mark}</g>'
        )
    dashes: dict[str, int] = {}
    for line in chart.lines:
        if not line.label:
            continue
        look = palette.css_class(line.look) if line.look else "plain"
        number = dashes.get(look, 0)
        dashes[look] = number + 1
        dash = _DASHES[number % len(_DASHES)] if line.look else ""
        best = " best" if line.trial and line.trial == chart.chosen else ""
        kind = (
            f'class="line" stroke-dasharray="{dash}"' if line.words else 'class="rule"'
        )
        found[line.label] = (
            f'<g class="point {look}{best}"><path {kind} d="M0 0H16"/></g>'
        )
    if len(found) < 2:
        return []
    placed, row, left = [], 0, 10.0
    for words, sample in found.items():
        needed = 34 + _width(words, _SMALL)
        if left > 10 and left + needed > WIDTH:
            row, left = row + 1, 10.0
        placed.append((row, left, sample, words))
        left += needed
    return placed


def wrapped(text: str, most: int) -> list[str]:
    """A text as lines of at most about `most` signs, broken after commas and blanks,
    and within a word where it is longer than a line.

    >>> wrapped("edp-linear, C 0.5, tau 0.1, z0 0.01", 20)
    ['edp-linear, C 0.5,', 'tau 0.1, z0 0.01']
    """
    lines = [""]
    for word in text.split():
        while len(word) > most:
            lines += [word[:most], ""]
            word = word[most:]
        if lines[-1] and len(lines[-1]) + 1 + len(word) > most:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return [line for line in lines if line] or [""]


def _width(text: str, size: float) -> float:
    """About the width of a text; signs of East Asian width and pictures take two."""
    return size * sum(
        1.2 if unicodedata.east_asian_width(sign) in "WF" else _EM for sign in text
    )


def _text(x: float, y: float, words: str, kind: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" class="{kind}">{escape(words)}</text>'
