"""A chart's SVG for a page; points and lines have their trial's id and their figures in words.

Colours are those of the page, so that they change on dark screens. Axes are hidden from screen
readers, which read the points.
"""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from html import escape
from xml.etree import ElementTree

import matplotlib

from dashboards import palette
from dashboards.chart import Chart, Line, Point
from dashboards.render import GRID, INK, MUTED, STYLE, figure

# Colours of a drawing, by their names in the page's style sheet.
_NAMES = {INK: "var(--ink)", MUTED: "var(--muted)", GRID: "var(--grid)", "#ffffff": "var(--paper)"}
_SVG = "{http://www.w3.org/2000/svg}"
_NUMBER = re.compile(r"-?\d+\.\d{2,}")
_FONT = re.compile(r"font(-size|-family)?: [^;]*;? ?")
_PART = re.compile(r"part-(\d+)-\d")
ElementTree.register_namespace("", _SVG[1:-1])


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
        colour = palette.colour(thing.engine).lower() if thing.engine else ""
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
    engine = f" {palette.css_class(thing.engine)}" if thing.engine else ""
    named = {"class": kind + engine, "role": "img", "aria-label": thing.words}
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
