"""A chart as plain frozen data, independent of the renderer, and its CSV."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass

from dashboards import palette
from trainables.engines._look import Mark


@dataclass(frozen=True, kw_only=True)
class Point:
    """One measured value with its interval. `series` is its name in a legend, `words` its text for
    screen readers.

    An infinite `x` is drawn right of a break in the axis.
    """

    x: float
    y: float
    low: float | None = None
    high: float | None = None
    series: str
    words: str
    engine: str
    mark: Mark
    trial: str = ""
    is_chosen: bool = False


@dataclass(frozen=True, kw_only=True)
class Line:
    """A curve through points; `is_stepped` goes right first, then up or down. `dash` as in SVG."""

    x: tuple[float, ...]
    y: tuple[float, ...]
    series: str
    words: str
    engine: str = ""
    colour: str = ""  # where the line is not of an engine
    dash: tuple[int, ...] = ()
    trial: str = ""
    is_stepped: bool = False

    @property
    def hex_colour(self) -> str:
        """The colour as #rrggbb, on a light background."""
        return self.colour or palette.colour(self.engine)


@dataclass(frozen=True, kw_only=True)
class Axis:
    """One axis. `low` and `high` are explicit limits; `rows` label whole numbers from 0, from the
    top down.
    """

    label: str
    is_log: bool = False
    is_whole: bool = False
    low: float | None = None
    high: float | None = None
    rows: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Chart:
    """One chart. `front` are the corners of a step line, `level` is a dashed reference with its
    label (horizontal, or vertical with `rows`), `chance` the diagonal of a ROC; the area left of
    `shaded` on the x axis meets the target.
    """

    name: str
    title: str
    description: str
    x: Axis
    y: Axis
    points: tuple[Point, ...] = ()
    lines: tuple[Line, ...] = ()
    front: tuple[tuple[float, float], ...] = ()
    level: tuple[float, str] | None = None
    chance: bool = False
    shaded: float | None = None

    def csv(self) -> str:
        """Every point, and every corner of every line, with its words."""
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(("trial", "series", self.x.label, self.y.label, "low", "high"))
        for point in self.points:
            place = (repr(point.x), repr(point.y), point.low, point.high)
            writer.writerow((point.trial, point.series, *place))
        for line in self.lines:
            for x, y in zip(line.x, line.y, strict=True):
                writer.writerow((line.trial, line.series, repr(x), repr(y), "", ""))
        return out.getvalue()


def slug(name: str) -> str:
    """A name as part of a chart's name, which is an element's id and a file's name.

    >>> slug("epsilon_paper")
    'epsilon-paper'
    """
    return name.replace("_", "-")
