"""The report of a sweep as a self-contained HTML page, the recommendation first:
without network requests, readable without scripts, with its data as CSV.
"""

import base64
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from dashboards import charts, palette
from dashboards.render import svg
from dashboards.results import Sweep
from trainables import figures, formats
from trainables.attacks import one_run, strongest
from trainables.cards import page
from trainables.dp.accounting.rounding import format_delta, risk_sentences

_TEMPLATES = Path(__file__).parent / "templates"
# Limits that keep a page small: rows of its tables, characters of an included file.
MOST_ROWS, MOST_ATTACKED, MOST_EMBEDDED = 300, 60, 150_000


def html(sweep: Sweep) -> str:
    """The page; that of a public sweep notes that curator-only figures are left out."""
    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    template = environment.get_template("report.html.j2")
    return template.render(**_words(), **_content(sweep))


def _content(sweep: Sweep) -> dict[str, Any]:
    drawn, chosen = charts.every(sweep), sweep.chosen_trial
    pictures = {
        kind: [c for c in drawn if c.name.startswith(kind)]
        for kind in charts.BEGINNINGS
    }
    frontier, leakage, slices = pictures.values()
    files = sweep.files
    card = sweep.card
    # of each trial, and whether its claim violates it; None without a claim
    bounds = []
    for trial in sweep.measured_trials:
        if (bound := trial.metrics.get("epsilon_lower_bound")) is not None:
            claim = trial.claimed
            broken = None if claim is None else one_run.violates(bound, claim)
            bounds.append((trial, bound, broken))
    return {
        "sweep": sweep,
        "colours": Markup(palette.css()),
        "files": {n: text for n, text in files.items() if len(text) <= MOST_EMBEDDED},
        "beside": [name for name, text in files.items() if len(text) > MOST_EMBEDDED],
        "rows": sweep.subset(sweep.trials, MOST_ROWS),
        "attacked": sweep.subset(sweep.measured_trials, MOST_ATTACKED),
        "legend": _legend(frontier + leakage),
        "base": next(
            (t for t in sweep.trials if chosen and t.id == chosen.baseline_id), None
        ),
        "worst": strongest(chosen.metrics) if chosen else None,
        "total": card.sweep_total if card else None,
        # The private selection whose best trial this is.
        "selection": card.selection
        if card and card.selection and card.selection.law
        else None,
        "front": sorted(
            (t for t in sweep.measured_trials if t.on_front and t.epsilon is not None),
            key=lambda t: t.epsilon or 0.0,
        ),
        "frontier": [(chart, svg(chart)) for chart in frontier],
        "leakage": [(chart, svg(chart)) for chart in leakage],
        "slices": [svg(chart) for chart in slices],
        "bands": _legend(slices),
        "shown_axes": [
            (axis, {trial.id: trial.values.get(axis) for trial in sweep.trials})
            for axis in sweep.axes
        ],
        "bounds": bounds,
        "card": card,
        "risk_sentences": risk_sentences,
        "card_rows": page.rows(card) if card else [],
        "card_sections": page.sections(card) if card else [],
    }


def _legend(drawn: Sequence[charts.Chart]) -> list[tuple[str, str, str]]:
    """The colour's class, the mark's path and the words of each series."""
    points = {point.series: point for chart in drawn for point in chart.points}
    return [
        (palette.css_class(point.look), palette.PATHS[point.mark], series)
        for series, point in sorted(points.items())
    ]


def _words() -> dict[str, Any]:
    """The modules and functions of the template."""
    return {
        "formats": formats,
        "figures": figures,
        "palette": palette,
        "between": lambda found: (
            formats.interval(found.low, found.high) if found else ""
        ),
        "delta": format_delta,
        "exact": lambda value: "" if value is None else repr(float(value)),
        "strong": _strong,
        "base64": lambda text: base64.b64encode(text.encode()).decode(),
    }


def _strong(text: str) -> Markup:
    """A card's sentence, whose only Markdown is strong words."""
    return Markup(re.sub(r"\*\*(.+?)\*\*", r"<strong>\1</strong>", str(escape(text))))
