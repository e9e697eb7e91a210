"""ROC charts of a sweep and of one trial, on log-log axes that show low false-positive rates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dashboards import palette
from dashboards.chart import Axis, Chart, Line, slug
from dashboards.results import Roc, Sweep, Trial

MOST_CURVES = 24  # lines that a chart can carry
# Colours (Okabe & Ito 2008) and dashes of attacks, which have no engine.
_ATTACKS: tuple[tuple[str, tuple[int, ...]], ...] = (
    ("#0072b2", ()),
    ("#b84f00", ()),
    ("#009e73", ()),
    ("#7a4a86", (5, 2)),
    ("#56b4e9", (5, 2)),
    ("#e69f00", (5, 2)),
    ("#595959", (7, 2, 1, 2)),
    ("#000000", (1, 2)),
)


def rocs(sweep: Sweep) -> list[Chart]:
    """ROC curves of each attack on the most important trials."""
    found: dict[str, list[Line]] = {}
    for trial in with_curves(sweep):
        for curve in trial.rocs:
            series = palette.words(trial.engine, trial.decay)
            line = _roc_line(curve, trial.name, series=series, engine=trial.engine, trial=trial.id)
            found.setdefault(curve.attack, []).append(line)
    return [
        _roc(
            lines,
            name=f"roc-{slug(attack)}",
            title=f"ROC of the {attack} attack on log-log axes",
            description=f"{len(lines)} trials; the dashed diagonal is chance. Rates at 1 % and"
            " 0.1 % false positives are in the table of attacks. Curator only.",
        )
        for attack, lines in sorted(found.items())
    ]


def with_curves(sweep: Sweep) -> tuple[Trial, ...]:
    """Trials whose curves are drawn."""
    return sweep.subset([trial for trial in sweep.measured_trials if trial.rocs], MOST_CURVES)


def roc_of_trial(curves: Mapping[str, Mapping[str, Sequence[float]]], *, title: str) -> Chart:
    """The attacks on one trial; `curves` have `fpr` and `tpr` each. The control `blind`, without
    access to the model, is grey and last.
    """
    lines = []
    for place, name in enumerate(sorted(curves, key=lambda name: (name == "blind", name))):
        colour, dash = ("#999999", ()) if name == "blind" else _ATTACKS[place % len(_ATTACKS)]
        curve = Roc(attack=name, **{key: tuple(curves[name][key]) for key in ("fpr", "tpr")})
        words = name.replace("_", " ")
        lines.append(_roc_line(curve, words, series=words, colour=colour, dash=dash))
    return _roc(lines, name="roc", title=title, description="ROC of each attack. Curator only.")


def _roc_line(
    curve: Roc,
    words: str,
    *,
    series: str,
    engine: str = "",
    trial: str = "",
    colour: str = "",
    dash: tuple[int, ...] = (),
) -> Line:
    kept = [(x, y) for x, y in zip(curve.fpr, curve.tpr, strict=True) if x > 0 and y > 0]
    x, y = zip(*kept, strict=True) if kept else ((), ())
    return Line(
        x=x,
        y=y,
        words=words,
        series=series,
        engine=engine,
        trial=trial,
        colour=colour,
        dash=dash,
        is_stepped=True,
    )


def _roc(lines: Sequence[Line], *, name: str, title: str, description: str) -> Chart:
    low = min((value for line in lines for value in (*line.x, *line.y)), default=1e-3)
    low = min(low, 0.5)  # for very few records an axis still needs a length
    return Chart(
        name=name,
        title=title,
        description=description,
        x=Axis(label="false-positive rate (log axis)", is_log=True, low=low, high=1.0),
        y=Axis(label="true-positive rate (log axis)", is_log=True, low=low, high=1.05),
        lines=tuple(lines),
        chance=True,
    )
