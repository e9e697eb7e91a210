"""The report of a sweep as a self-contained HTML page, the recommendation first:
without network requests, readable without scripts, with its data as CSV.
"""

import base64
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from dashboards import charts, palette, render
from dashboards.results import Sweep, Trial
from trainables import figures, formats
from trainables.attacks import Strongest, one_run, strongest
from trainables.cards import page
from trainables.dp.accounting.rounding import (
    format_delta,
    format_epsilon,
    percent,
    risk_sentences,
)

_TEMPLATES = Path(__file__).parent / "templates"
# Limits that keep a page small: rows of its tables, characters of an included file.
MOST_ROWS, MOST_ATTACKED, MOST_EMBEDDED = 300, 60, 150_000
MOST_SLICES, MOST_LABELS = 4, 12  # of charts and of rows that are not folded
_CHANCE = 0.5
# Parts of a trial's time, as columns, and their words.
_TIMES = {
    "training": ("seconds_train",),
    "encoding and evaluation": (
        "seconds_prepare",
        "seconds_between_epochs",
        "seconds_generate",
        "seconds_evaluate",
    ),
    "attacks": ("seconds_attacks",),
}


@dataclass(frozen=True, kw_only=True)
class LeakBar:
    """Places on a bar from chance, 0 %, to an AUC of 1, 100 %."""

    measured: float
    low: float
    high: float
    allowed: float | None


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
    drawn, chosen, card = charts.every(sweep), sweep.chosen_trial, sweep.card
    worst = strongest(chosen.attack_figures) if chosen else None
    # of each trial, and whether its claim violates it; None without a claim
    bounds = []
    for trial in sweep.measured_trials:
        if (bound := trial.number("epsilon_lower_bound")) is not None:
            claim = trial.number("epsilon_claimed")
            broken = None if claim is None else one_run.violates(bound, claim)
            bounds.append((trial, bound, broken))
    heights = {"frontier": render.TALL}
    parts = {
        part: [
            (chart, render.svg(chart, height=heights.get(part, render.HEIGHT)))
            for chart in found
        ]
        for part, found in drawn.items()
    }
    slices = [drawing for _, drawing in parts["slices"]]
    return {
        "sweep": sweep,
        "styles": Markup(f"{render.STYLE}{palette.css()}"),
        "files": {
            n: text for n, text in sweep.files.items() if len(text) <= MOST_EMBEDDED
        },
        "beside": [n for n, text in sweep.files.items() if len(text) > MOST_EMBEDDED],
        "rows": best_first(sweep, sweep.subset(sweep.trials, MOST_ROWS)),
        "attacked": sweep.subset(sweep.measured_trials, MOST_ATTACKED),
        "parts": parts,
        "slices": (slices[:MOST_SLICES], slices[MOST_SLICES:]),
        "labels": (sweep.labels[:MOST_LABELS], sweep.labels[MOST_LABELS:]),
        "base": sweep.baseline,
        "worst": worst,
        "bar": worst and _bar(worst, sweep.roc.allowed_auc),
        "times": times(chosen) if chosen else [],
        "total": card.sweep_total if card else None,
        # The private selection whose best trial this is.
        "selection": card.selection
        if card and card.selection and card.selection.law
        else None,
        "front": sorted(
            (t for t in sweep.measured_trials if t.on_front and t.epsilon is not None),
            key=lambda t: t.epsilon or 0.0,
        ),
        "bounds": bounds,
        "card": card,
        "card_rows": page.rows(card) if card else [],
        "card_sections": page.sections(card) if card else [],
        "next_steps": next_steps(sweep),
    }


def best_first(sweep: Sweep, trials: Sequence[Trial]) -> list[Trial]:
    """Trials by the headline figure, those without one last, in their order."""

    def place(trial: Trial) -> float:
        value = trial.number(sweep.headline) if trial.is_measured else None
        return math.inf if value is None else figures.cost(sweep.headline, value)

    return sorted(trials, key=place)


def next_steps(sweep: Sweep) -> list[str]:
    """What to do after the answer: what would bring it nearer to the baseline, which
    axes to search further, and which of them matters.
    """
    found = [f"{words[0].upper()}{words[1:]}" for words in sweep.helps]
    found += sweep.next_steps  # which begin with the name of an axis
    near = [
        trial
        for trial in sweep.measured_trials
        if not (trial.is_baseline or trial.is_prior)
        and (trial.epsilon is not None and trial.epsilon <= sweep.epsilon_max)
    ]
    if len(near) == 1 and len(sweep.measured_trials) > 1:
        limit = formats.number(sweep.epsilon_max)
        found.append(
            f"It is the only trial with ε ≤ {limit}: search its clipping norm, rate and"
            " steps before it is trusted as the best"
        )
    if sweep.mattered:
        axis, share = next(iter(sweep.mattered.items()))
        found.append(
            f"{axis} mattered most ({100 * share:.0f} % of what the axes moved)"
        )
    return found


def times(trial: Trial) -> list[tuple[str, float]]:
    """The parts of a trial's time in words, and their seconds."""
    found = {
        words: [value for name in names if (value := trial.number(name)) is not None]
        for words, names in _TIMES.items()
    }
    return [(words, sum(values)) for words, values in found.items() if values]


def _bar(worst: Strongest, allowed: float | None) -> LeakBar:
    def at(auc: float) -> float:
        return 100 * min(1.0, max(0.0, (auc - _CHANCE) / (1 - _CHANCE)))

    return LeakBar(
        measured=at(worst.value),
        low=at(worst.low),
        high=at(worst.high),
        allowed=None if allowed is None else at(allowed),
    )


def _words() -> dict[str, Any]:
    """The modules and functions of the template."""
    return {
        "formats": formats,
        "figures": figures,
        "between": lambda found: (
            formats.interval(found.low, found.high) if found else ""
        ),
        "delta": format_delta,
        "auc": lambda value: format_epsilon(value, digits=3),
        "percent": percent,
        "risk_sentences": risk_sentences,
        "exact": lambda value: "" if value is None else repr(float(value)),
        "strong": _strong,
        "written": charts.written,
        "base64": lambda text: base64.b64encode(text.encode()).decode(),
    }


def _strong(text: str) -> Markup:
    """A card's sentence, whose only Markdown is strong words."""
    return Markup(re.sub(r"\*\*(.+?)\*\*", r"<strong>\1</strong>", str(escape(text))))
