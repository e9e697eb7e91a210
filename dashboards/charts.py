"""The charts of a report as plain frozen data, and their CSV; `render` draws them."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from dashboards import comparison, palette
from dashboards.results import Estimate, Roc, Sweep, Trial
from trainables import formats
from trainables.engines._look import Mark
from trainables.figures import LEAKAGE, label

BEGINNINGS = ("frontier-", "leakage-", "slice-", "epochs-", "roc-")  # of charts' names
MOST_POINTS, MOST_LINES, MOST_CURVES = 150, 60, 24
MOST_LABELS = 12  # points that have their trial's name beside them
_DECADE = 10.0  # a searched axis that spans more is logarithmic
_EPSILON_LABELS = {
    "epsilon": "epsilon (a guarantee of the code that ran; log axis)",
    "epsilon_paper": "epsilon_paper (the paper's formula, no guarantee; log axis)",
}
_DASHES = {"linear": (7, 3), "exponential": (2, 3)}
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


@dataclass(frozen=True, kw_only=True)
class Point:
    """One measured value with its interval. `series` is its name in a legend, `words` its text for
    screen readers, `look` the name of its colour (`palette.look`).

    An infinite `x` is drawn right of a break in the axis.
    """

    x: float
    y: float
    low: float | None = None
    high: float | None = None
    series: str
    words: str
    look: str
    mark: Mark
    trial: str = ""
    label: str = ""
    is_chosen: bool = False


@dataclass(frozen=True, kw_only=True)
class Line:
    """A curve through points; `is_stepped` goes right first, then up or down. `dash` as in SVG."""

    x: tuple[float, ...]
    y: tuple[float, ...]
    series: str
    words: str
    look: str = ""
    colour: str = ""  # as #rrggbb, where the line has no look
    dash: tuple[int, ...] = ()
    trial: str = ""
    is_stepped: bool = False


@dataclass(frozen=True, kw_only=True)
class Axis:
    """One axis. `low` and `high` are explicit limits; `names` label whole numbers from 0."""

    label: str
    is_log: bool = False
    is_whole: bool = False
    low: float | None = None
    high: float | None = None
    names: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Chart:
    """One chart. `front` are the corners of a step line, `level` is a dashed reference with its
    label, `chance` the diagonal of a ROC; the area left of `shaded` on the x axis meets the target.
    `name` is an element's id and a file's name.
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


def every(sweep: Sweep) -> list[Chart]:
    """All charts that the sweep has data for."""
    found = [frontier(sweep, kind) for kind in kinds(sweep)]
    found += [leakage(sweep, kind) for kind in kinds(sweep) if sweep.attacks]
    return [*found, *slices(sweep), *epochs(sweep), *rocs(sweep)]


def kinds(sweep: Sweep) -> list[str]:
    """Which epsilons any trial has."""
    known = {kind: [_epsilon(t, kind) for t in sweep.measured_trials] for kind in _EPSILON_LABELS}
    return [k for k, xs in known.items() if any(x is not None and math.isfinite(x) for x in xs)]


def frontier(sweep: Sweep, epsilon: str = "epsilon") -> Chart:
    """Test SER with intervals over `epsilon` or `epsilon_paper`, the front as a line."""
    base = sweep.baseline
    reference = base.figure("ser") if base is not None else None
    prior = sweep.prior.figure("ser") if sweep.prior is not None else None
    # Epsilon 0 has no place on a logarithmic axis.
    zero = f" At epsilon 0 (the prior alone) SER is {prior.value:.3f}." if prior else ""
    is_guarantee = epsilon == "epsilon"
    points = _over_epsilon(sweep, "ser", epsilon, what="SER")
    return Chart(
        name=f"frontier-{_slug(epsilon)}",
        title=f"Test SER over {epsilon}",
        description=f"{_of(points, sweep)}. Lower is better in both.{zero} The data are in the"
        " table of all trials.",
        x=Axis(label=_EPSILON_LABELS[epsilon], is_log=True),
        y=Axis(label="test SER (95 % interval)", low=0.0),
        points=points,
        front=tuple(comparison.front_steps(sweep.trials)) if is_guarantee else (),
        level=(reference.value, f"{palette.name(base.engine)} baseline")
        if base is not None and reference is not None
        else None,
        shaded=sweep.choice.epsilon_max if is_guarantee else None,
    )


def leakage(sweep: Sweep, epsilon: str = "epsilon") -> Chart:
    """The AUC with its interval of each trial's strongest attack over an epsilon; chance at 0.5."""
    points = _over_epsilon(sweep, LEAKAGE, epsilon, what="AUC")
    return Chart(
        name=f"leakage-{_slug(epsilon)}",
        title=f"AUC of the strongest membership attack over {epsilon}",
        description=f"{_of(points, sweep)}; one half is chance. Curator only. The data are in the"
        " table of attacks.",
        x=Axis(label=_EPSILON_LABELS[epsilon], is_log=True),
        y=Axis(label="AUC of the strongest attack (95 %)"),
        points=points,
        level=(0.5, "chance"),
    )


def slices(sweep: Sweep) -> list[Chart]:
    """Test SER over each searched axis with more than one value, coloured by epsilon."""
    found = []
    for axis in sweep.axes:
        trials = [t for t in sweep.measured_trials if axis in t.values and t.figure("ser")]
        values = list(dict.fromkeys(trial.values[axis] for trial in trials))
        if len(values) < 2:
            continue
        numbers = [value for value in values if isinstance(value, float)]
        names = () if len(numbers) == len(values) else tuple(map(str, values))
        is_log = not names and min(numbers) > 0 and max(numbers) / min(numbers) >= _DECADE
        points = []
        for trial in sweep.subset(trials, MOST_POINTS):
            ser, value = trial.figure("ser"), trial.values[axis]
            assert ser is not None
            x = float(values.index(value)) if names else float(value)
            shown = value if isinstance(value, str) else formats.number(value)
            words = f"{trial.name}: {axis} {shown}, SER {formats.share(ser.value)}, epsilon"
            words += f" {formats.epsilon(trial.epsilon)}"
            look = palette.band(trial.epsilon)
            points.append(_point(sweep, trial, x, ser, words=words, look=look))
        found.append(
            Chart(
                name=f"slice-{_slug(axis)}",
                title=f"Test SER over {axis}",
                description=f"{_of(points, sweep)}, coloured by epsilon. The data are in the table"
                " of all trials.",
                x=Axis(label=f"{axis} (log axis)" if is_log else axis, is_log=is_log, names=names),
                y=Axis(label="test SER (95 % interval)", low=0.0),
                points=tuple(sorted(points, key=lambda point: point.x)),
            )
        )
    return found


def epochs(sweep: Sweep) -> list[Chart]:
    """Figures by epoch, one line a trial; none of figures that are constant in every trial."""
    found = []
    for metric in ("validation_ser", "validation_loss", "epsilon_spent", "noise_multiplier"):
        is_log = metric in ("epsilon_spent", "noise_multiplier")
        lines = []
        for trial in sweep.subset(sweep.measured_trials, MOST_LINES):
            rows = [(row["epochs_done"], row[metric]) for row in trial.history if metric in row]
            rows = [(x, y) for x, y in rows if math.isfinite(y) and (y > 0 or not is_log)]
            if rows:
                x, y = zip(*rows, strict=True)
                lines.append(
                    Line(
                        x=x,
                        y=y,
                        series=palette.words(trial.engine, trial.decay),
                        words=trial.name,
                        look=trial.engine,
                        dash=_DASHES.get(trial.decay, ()),
                        trial=trial.id,
                    )
                )
        if all(len(set(line.y)) == 1 for line in lines):
            continue
        title = f"{label(metric)}{' (log axis)' if is_log else ''}"
        most = max((x for line in lines for x in line.x), default=2.0)
        found.append(
            Chart(
                name=f"epochs-{_slug(metric)}",
                title=f"{title} by epoch",
                description=f"{_of(lines, sweep)}. The data are in epochs.csv.",
                x=Axis(label="epoch", is_whole=True, low=min(1.0, most - 1), high=most),
                y=Axis(label=title, is_log=is_log, low=None if is_log else 0.0),
                lines=tuple(lines),
            )
        )
    return found


def rocs(sweep: Sweep) -> list[Chart]:
    """ROC curves of each attack on the most important trials, on log-log axes that show low
    false-positive rates. The control `blind` sees no model and has no chart.
    """
    found: dict[str, list[Line]] = {}
    for trial in sweep.subset([t for t in sweep.measured_trials if t.rocs], MOST_CURVES):
        for curve in trial.rocs:
            if curve.attack != "blind":
                series = palette.words(trial.engine, trial.decay)
                line = _roc_line(curve, trial.name, series=series, look=trial.engine)
                found.setdefault(curve.attack, []).append(line)
    return [
        _roc(
            lines,
            name=f"roc-{_slug(attack)}",
            title=f"ROC of the {attack} attack on log-log axes",
            description=f"{len(lines)} trials; the dashed diagonal is chance. Rates at 1 % and"
            " 0.1 % false positives are in the table of attacks. Curator only.",
        )
        for attack, lines in sorted(found.items())
    ]


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
    look: str = "",
    colour: str = "",
    dash: tuple[int, ...] = (),
) -> Line:
    kept = [(x, y) for x, y in zip(curve.fpr, curve.tpr, strict=True) if x > 0 and y > 0]
    x, y = zip(*kept, strict=True) if kept else ((), ())
    return Line(
        x=x, y=y, words=words, series=series, look=look, colour=colour, dash=dash, is_stepped=True
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


def _over_epsilon(sweep: Sweep, metric: str, epsilon: str, *, what: str) -> tuple[Point, ...]:
    found = []
    for trial in sweep.subset(sweep.measured_trials, MOST_POINTS):
        x, y = _epsilon(trial, epsilon), trial.figure(metric)
        if x is None or x <= 0 or y is None:
            continue
        between = formats.interval(y.low, y.high)
        words = f"{trial.name}: {what} {formats.share(y.value)}"
        words += f" ({between})" if between else ""
        words += f", epsilon {formats.epsilon(trial.epsilon)}"
        words += f", epsilon_paper {formats.epsilon(trial.epsilon_paper)}"
        point = _point(sweep, trial, x, y, words=words, look=trial.engine)
        is_named = len(sweep.measured_trials) <= MOST_LABELS
        found.append(replace(point, label=trial.name) if is_named else point)
    return tuple(sorted(found, key=lambda point: point.x))


def _point(sweep: Sweep, trial: Trial, x: float, y: Estimate, *, words: str, look: str) -> Point:
    """A figure of a trial with its interval, in the mark of its engine or decay."""
    return Point(
        x=x,
        y=y.value,
        low=y.low,
        high=y.high,
        words=words,
        series=palette.words(look, trial.decay),
        look=look,
        mark=palette.mark(trial.engine, trial.decay),
        trial=trial.id,
        is_chosen=trial.id == sweep.choice.trial,
    )


def _epsilon(trial: Trial, kind: str) -> float | None:
    if trial.is_open_baseline:
        return math.inf
    return trial.epsilon if kind == "epsilon" else trial.epsilon_paper


def _of(drawn: Sequence[Point | Line], sweep: Sweep) -> str:
    total = len(sweep.measured_trials)
    return f"{len(drawn)} trials" + (f" of {total}" if total > MOST_LINES else "")


def _slug(name: str) -> str:
    return "".join(sign if sign.isalnum() else "-" for sign in name.lower()).strip("-")
