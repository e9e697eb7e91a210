"""The legend of a page: engines and decays with their marks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dashboards import palette
from dashboards.charts import Chart
from dashboards.results import Sweep
from trainables.engines._look import Mark

# Around the origin, of about equal area.
PATHS: dict[Mark, str] = {
    "circle": "M-5 0A5 5 0 1 1 5 0A5 5 0 1 1-5 0Z",
    "triangle": "M0-6.2L5.8 4H-5.8Z",
    "square": "M-4.5-4.5H4.5V4.5H-4.5Z",
    "diamond": "M0-6.5L5.5 0L0 6.5L-5.5 0Z",
    "cross": "M-5-3L-3-5L0-2L3-5L5-3L2 0L5 3L3 5L0 2L-3 5L-5 3L-2 0Z",
}


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One entry: the class of the colour, the path of the mark, the label."""

    css_class: str
    path: str
    words: str


def entries(sweep: Sweep) -> list[Entry]:
    """Entries of the engines of measured trials and, where shown separately, their decays."""
    seen = {
        (trial.engine, trial.decay if palette.shows_decay(trial.engine) else "none")
        for trial in sweep.measured_trials
    }
    return [
        Entry(
            css_class=palette.css_class(engine),
            path=PATHS[palette.mark(engine, decay)],
            words=palette.words(engine, decay),
        )
        for engine, decay in sorted(seen)
    ]


def bands(drawn: Sequence[Chart]) -> list[Entry]:
    """Entries of the bands of epsilon in these charts."""
    seen = {point.look for chart in drawn for point in chart.points}
    return [
        Entry(css_class=palette.css_class(look), path=PATHS["circle"], words=palette.name(look))
        for look in palette.BANDS
        if look in seen
    ]
