"""SVG elements as text, everything escaped, and the frame that every chart here stands in."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

from dashboards.scales import Scale, tick_label
from trainables.engines._look import Mark


class Svg(str):
    """Text that is SVG already; anything else is escaped when it is put into an element."""

    def __html__(self) -> str:
        """What templates put in as it is."""
        return self


def element(name: str, *children: str, **attributes: str | float | None) -> Svg:
    """One element. `_` in an attribute's name stands for `-`, at the end it is dropped.

    >>> element("text", "a<b", x=1.50, class_="tick")
    '<text x="1.5" class="tick">a&lt;b</text>'
    """
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{_value(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    inside = "".join(c if isinstance(c, Svg) else escape(c) for c in children)
    return Svg(f"<{name}{written}>{inside}</{name}>" if inside else f"<{name}{written}/>")


def path(points: Iterable[tuple[float, float]], *, steps: bool = False) -> str:
    """The `d` of a line through points; `steps` goes right first, then up or down.

    >>> path([(0, 0), (10, 5)]), path([(0, 0), (10, 5)], steps=True)
    ('M0 0L10 5', 'M0 0H10V5')
    """
    text = ""
    for x, y in points:
        if not text:
            text = f"M{_round(x)} {_round(y)}"
        elif steps:
            text += f"H{_round(x)}V{_round(y)}"
        else:
            text += f"L{_round(x)} {_round(y)}"
    return text


def mark(kind: Mark, size: float = 5.0) -> Svg:
    """A mark around the origin, of about equal area for every kind."""
    s = size
    shapes: dict[Mark, str] = {
        "triangle": f"M0 {-1.25 * s}L{1.15 * s} {0.8 * s}H{-1.15 * s}Z",
        "square": f"M{-0.9 * s} {-0.9 * s}H{0.9 * s}V{0.9 * s}H{-0.9 * s}Z",
        "diamond": f"M0 {-1.3 * s}L{1.1 * s} 0L0 {1.3 * s}L{-1.1 * s} 0Z",
        "cross": f"M{-s} {-s}L{s} {s}M{-s} {s}L{s} {-s}",
    }
    if kind == "circle":
        return element("circle", r=s, class_="mark")
    return element("path", d=shapes[kind], class_="mark open" if kind == "cross" else "mark")


@dataclass(frozen=True, kw_only=True)
class Frame:
    """A chart's canvas and its axes. `infinity` is where infinite x values go, None for nowhere."""

    width: float
    height: float
    x: Scale
    y: Scale
    infinity: float | None = None

    def place(self, x: float, y: float) -> tuple[float, float]:
        """Where a point of the data goes."""
        if math.isinf(x) and self.infinity is not None:
            return self.infinity, self.y.place(y)
        return self.x.place(x), self.y.place(y)

    def axes(self, *, x_label: str, y_label: str) -> Svg:
        """Grid lines, ticks and labels; hidden from screen readers, which read the points."""
        left, right = self.x.start, self.x.end if self.infinity is None else self.infinity + 14
        bottom, top = self.y.start, self.y.end
        parts: list[Svg] = []
        for tick in self.y.ticks():
            y = self.y.place(tick)
            parts.append(element("line", x1=left, x2=right, y1=y, y2=y, class_="grid"))
            label = tick_label(tick, kind=self.y.kind)
            parts.append(element("text", label, x=left - 7, y=y + 4, class_="tick end"))
        for tick in self.x.ticks():
            x = self.x.place(tick)
            parts.append(element("line", x1=x, x2=x, y1=bottom, y2=bottom + 5, class_="axis"))
            label = tick_label(tick, kind=self.x.kind)
            parts.append(element("text", label, x=x, y=bottom + 19, class_="tick middle"))
        if self.infinity is not None:
            x = self.infinity
            gap = (self.x.end + x) / 2
            parts.append(element("line", x1=gap, x2=gap, y1=top, y2=bottom, class_="break"))
            parts.append(element("text", "∞", x=x, y=bottom + 20, class_="tick middle infinity"))
        parts.append(element("line", x1=left, x2=right, y1=bottom, y2=bottom, class_="axis"))
        middle = (left + right) / 2
        parts.append(element("text", x_label, x=middle, y=bottom + 40, class_="label middle"))
        parts.append(element("text", y_label, x=4, y=14, class_="label"))
        return element("g", *parts, class_="axes", aria_hidden="true")

    def svg(self, *layers: Svg, name: str, title: str, description: str) -> Svg:
        """The chart as a figure that has a name and a description."""
        named = [
            element("title", title, id=f"{name}-title"),
            element("desc", description, id=f"{name}-desc"),
        ]
        return element(
            "svg",
            *named,
            *layers,
            id=name,
            class_="chart",
            viewBox=f"0 0 {_round(self.width)} {_round(self.height)}",
            role="group",
            aria_labelledby=f"{name}-title",
            aria_describedby=f"{name}-desc",
            xmlns="http://www.w3.org/2000/svg",
        )


def group(layers: Sequence[Svg], **attributes: str | float | None) -> Svg:
    """Some elements together."""
    return element("g", *layers, **attributes)


def _value(value: str | float) -> str:
    return escape(value) if isinstance(value, str) else _round(value)


def _round(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)
