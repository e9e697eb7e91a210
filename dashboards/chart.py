"""A chart as plain frozen data: what is drawn, whoever draws it, and the same as CSV."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass

from dashboards import palette
from trainables.engines._look import Mark


@dataclass(frozen=True, kw_only=True)
class Point:
    """One measured value with its interval. `series` is its name in a legend, `words` say it to who
    does not see it.

    `x` may be infinite: it then stands right of a break in the axis.
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
    colour: str = ""  # where it is not that of an engine
    dash: tuple[int, ...] = ()
    trial: str = ""
    is_stepped: bool = False

    @property
    def shown_colour(self) -> str:
        """As #rrggbb, on light paper."""
        return self.colour or palette.colour(self.engine)


@dataclass(frozen=True, kw_only=True)
class Axis:
    """One axis. `low` and `high` bound it where the data do not; `rows` name whole numbers from 0,
    from the top down.
    """

    label: str
    is_log: bool = False
    is_whole: bool = False
    low: float | None = None
    high: float | None = None
    rows: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Chart:
    """One chart. `front` are the corners of a line of steps, `level` is a dashed reference with its
    words (across, or for `rows` upright), `chance` the diagonal of a ROC; left of `shaded` on the
    x axis is what is good enough.
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
        """Every point, and every corner of every line, with the words for it."""
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
