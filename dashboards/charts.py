"""The charts of a report as plain frozen data; `render` draws them."""

import math
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dashboards import palette
from dashboards.results import Curve, Estimate, Sweep, Trial
from trainables import catalogue, figures, formats
from trainables.dp.engines.configs import Mark
from trainables.figures import LEAKAGE

MOST_POINTS = 150
MOST_CURVES = 60
MOST_LABELS = 12  # points that have their trial's name beside them
_DECADE = 10.0  # a searched axis that spans more is logarithmic
_FAR = 2.5  # times the spread of the others: a figure beyond is at the chart's edge
_LEAST_RATE = 1e-3  # of the axes of a ROC
CHANCE = "chance"
SLICE = "slice-"  # how the names of the charts of axes begin
NAMES = (
    *("frontier-epsilon", "learning-curves", "roc"),
    *("leakage-epsilon", "epsilon-time", "error-time"),
)  # of the others


@dataclass(frozen=True, kw_only=True)
class Point:
    """A figure at `x`; an infinite one is drawn right of a break in the axis. `look` is
    the name of its colour (`palette.look`), `words` its text for screen readers,
    `label` is beside it, `trial` is an id.
    """

    x: float
    y: Estimate
    trial: str
    look: str
    mark: Mark
    series: str  # its name in a legend
    words: str
    label: str = ""


@dataclass(frozen=True, kw_only=True)
class Line:
    """A line through `points`; `is_step`: level up to the next of them. `label` is
    beside its end, `words` are its text for screen readers. One without `words` is
    background.
    """

    points: tuple[tuple[float, float], ...]
    look: str = ""
    trial: str = ""
    words: str = ""
    label: str = ""
    is_step: bool = False
    is_dashed: bool = False


@dataclass(frozen=True, kw_only=True)
class Axis:
    """One axis; `names` label whole numbers from 0, `ticks` are (place, words) that
    replace those of numbers, and `is_whole`: only whole numbers are on it. `low` and
    `high` are its ends where they are given.
    """

    label: str
    is_log: bool = False
    is_whole: bool = False
    names: tuple[str, ...] = ()
    ticks: tuple[tuple[float, str], ...] = ()
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, kw_only=True)
class Chart:
    """One chart. `level` is a dashed reference with its label; the area left of
    `shaded` on the x axis has a label, too. The trial `chosen` has a ring. `name` is an
    element's id and a file's name.
    """

    name: str
    title: str
    description: str
    x: Axis
    y: Axis
    points: tuple[Point, ...] = ()
    lines: tuple[Line, ...] = ()
    chosen: str | None = None
    level: tuple[float, str] | None = None
    shaded: tuple[float, str] | None = None


def every(sweep: Sweep) -> dict[str, list[Chart]]:
    """The charts that the sweep has data for, by the part of the page that shows
    them.
    """
    found = {
        "frontier": [frontier(sweep)],
        "curves": [curves(sweep)],
        "leakage": [roc(sweep), leakage(sweep)],
        "slices": slices(sweep),
        "budget": [budget(sweep)],
        "time": [seconds(sweep)],
    }
    return {
        part: [chart for chart in drawn if chart.points or chart.lines]
        for part, drawn in found.items()
    }


def scaled(name: str, found: Estimate) -> Estimate:
    """A figure as charts show it: an error rate as errors in 100."""
    if name != "ser":
        return found
    value, low, high = (
        None if end is None else 100 * end
        for end in (found.value, found.low, found.high)
    )
    assert value is not None
    return Estimate(value=value, low=low, high=high)


def unit(name: str) -> str:
    """What the numbers of `scaled` are."""
    return "errors in 100" if name == "ser" else figures.label(name)


def frontier(sweep: Sweep) -> Chart:
    """The test figure with intervals over epsilon, the front as a line."""
    main = sweep.headline
    base = sweep.baseline
    prior = None if sweep.prior is None else sweep.prior.figure(main)
    reference = None if base is None else base.figure(main)
    points = _over_epsilon(sweep, main, what=unit(main))
    # Epsilon 0 has no place on a logarithmic axis.
    zero = "" if prior is None else f" At epsilon 0 {written(main, prior.value)}."
    level = None
    if base and reference:
        words = "the same model without privacy"
        words = words if sweep.answer.same_model else f"{base.name} without privacy"
        shown = scaled(main, reference).value
        level = (shown, f"{words}, {formats.number(shown, 3)}")
    steps = tuple(front_steps(sweep.trials, main))
    return Chart(
        name="frontier-epsilon",
        title=f"Test {unit(main)} over epsilon",
        description=f"{_of(points, sweep)}. Lower is better in both.{zero}"
        if figures.cost(main, 1.0) > 0
        else f"{_of(points, sweep)}. Higher is better, and less epsilon.{zero}",
        x=Axis(label="guaranteed ε (log axis): smaller is more private", is_log=True),
        y=Axis(
            label=f"{unit(main)}, with 95 % interval",
            low=0.0,
            high=_edge(points, sweep.chosen),
        ),
        points=points,
        lines=(Line(points=steps, is_step=True),) if len(steps) > 1 else (),
        chosen=sweep.chosen,
        level=level,
        shaded=(sweep.epsilon_max, f"ε ≤ {formats.number(sweep.epsilon_max)}"),
    )


def curves(sweep: Sweep) -> Chart:
    """The validation figure by epoch: the answer and baselines in colour."""
    main, found = sweep.headline, []
    named = {sweep.chosen, *(t.id for t in sweep.trials if t.is_baseline)}
    kept = {trial.id for trial in sweep.subset(sweep.trials, MOST_CURVES)}
    drawn = [
        curve
        for curve in sweep.curves
        if curve.trial in kept and not sweep.by_id[curve.trial].is_prior
    ]
    for curve in sorted(drawn, key=lambda one: (one.trial in named, one.trial)):
        trial, shown = sweep.by_id[curve.trial], _scaled_curve(main, curve)
        end = formats.number(shown[-1][1], 3)
        is_named = curve.trial in named
        found.append(
            Line(
                points=shown,
                look=trial.engine if is_named else "",
                trial=trial.id,
                label=trial.name if is_named else "",
                words=f"{trial.name}: {formats.count(len(shown), 'epoch')},"
                f" {unit(main)} {end} after the last",
            )
        )
    return Chart(
        name="learning-curves",
        title=f"Validation {unit(main)} by epoch",
        description=f"{len(found)} trials; the answer and baselines are in colour. The"
        " data are in epochs.csv.",
        x=Axis(label="finished epochs", is_whole=True),
        y=Axis(label=f"validation {unit(main)}", low=0.0),
        lines=tuple(found),
        chosen=sweep.chosen,
    )


def roc(sweep: Sweep) -> Chart:
    """One ROC of answer and baseline, chance, and what the guarantee allows."""
    found, roc = [], sweep.roc
    for curve in (one for one in roc.measured if one.trial in sweep.by_id):
        trial = sweep.by_id[curve.trial]
        words = f"{trial.name}: ROC of {roc.attack}"
        found.append(
            Line(
                points=_visible(curve.points),
                look=trial.engine,
                trial=trial.id,
                label=trial.name,
                words=words,
            )
        )
    ends = ((_LEAST_RATE, _LEAST_RATE), (1.0, 1.0))
    if found:
        found.append(Line(points=ends, label=CHANCE, is_dashed=True))
    if found and roc.allows:
        words = "the most that the answer's guarantee allows"
        found.append(
            Line(points=roc.allows, look="limit", label="allowed by ε", words=words)
        )
    return Chart(
        name="roc",
        title=f"ROC of the strongest attack, {roc.attack}, on log axes",
        description="At few false alarms, on the left, an attack hurts most. Curator"
        " only.",
        x=Axis(label="false alarms (log axis)", is_log=True, low=_LEAST_RATE, high=1.0),
        y=Axis(
            label="members found (log axis)", is_log=True, low=_LEAST_RATE, high=1.0
        ),
        lines=tuple(found),
        chosen=sweep.chosen,
    )


def leakage(sweep: Sweep) -> Chart:
    """The AUC with its interval of each trial's strongest attack over epsilon; chance
    at 0.5.
    """
    points = _over_epsilon(sweep, LEAKAGE, what="AUC")
    return Chart(
        name="leakage-epsilon",
        title="AUC of the strongest membership attack over epsilon",
        description=f"{_of(points, sweep)}; one half is chance. Curator only. The data"
        " are in the table of attacks.",
        x=Axis(label="guaranteed ε (log axis)", is_log=True),
        y=Axis(label="AUC of the strongest attack, with 95 % interval"),
        points=points,
        chosen=sweep.chosen,
        level=(0.5, CHANCE) if points else None,
    )


def slices(sweep: Sweep) -> list[Chart]:
    """The test figure over each searched axis with more than one value, coloured by
    epsilon. Seeds repeat a trial and are no setting.
    """
    main, found = sweep.headline, []
    for axis in (name for name in sweep.axes if name != "seed"):
        trials = [t for t in sweep.measured_trials if axis in t.axes and t.figure(main)]
        values = list(dict.fromkeys(trial.axes[axis] for trial in trials))
        if len(values) < 2:
            continue
        numbers = [value for value in values if isinstance(value, float)]
        names = () if len(numbers) == len(values) else tuple(map(str, values))
        is_log = (
            not names and min(numbers) > 0 and max(numbers) / min(numbers) >= _DECADE
        )

        def at(
            trial: Trial,
            axis: str = axis,
            values: Sequence[float | str] = values,
            names: Sequence[str] = names,
        ) -> float:
            value = trial.axes[axis]
            return float(values.index(value)) if names else float(value)

        def said(trial: Trial, axis: str = axis) -> str:
            value = trial.axes[axis]
            return (
                f"{axis} {value if isinstance(value, str) else formats.number(value)}"
            )

        points = _points(sweep, trials, main, at, said, by_epsilon=True)
        found.append(
            Chart(
                name=SLICE + re.sub(r"[\W_]+", "-", axis.lower()).strip("-"),
                title=f"Test {unit(main)} over {axis}",
                description=f"{_of(points, sweep)}, coloured by epsilon. The data are"
                " in the table of all trials.",
                x=Axis(
                    label=f"{axis} (log axis)" if is_log else axis,
                    is_log=is_log,
                    names=names,
                ),
                y=Axis(label=unit(main), low=0.0, high=_edge(points, sweep.chosen)),
                points=points,
                chosen=sweep.chosen,
            )
        )
    return found


def seconds(sweep: Sweep) -> Chart:
    """The test figure over the time of training and measuring."""
    main = sweep.headline
    trials = [
        trial
        for trial in sweep.measured_trials
        if 0 < (trial.number("seconds") or 0.0) < math.inf
    ]
    points = _points(
        sweep,
        trials,
        main,
        lambda trial: trial.number("seconds") or 0.0,
        lambda trial: formats.duration(trial.number("seconds")),
    )
    return Chart(
        name="error-time",
        title=f"Test {unit(main)} over time",
        description=f"{_of(points, sweep)}: seconds of preparing, training and"
        " measuring a trial. The data are in the table of all trials.",
        x=Axis(
            label="time of the trial (log axis)",
            is_log=True,
            ticks=_TIMES,
        ),
        y=Axis(label=unit(main), low=0.0, high=_edge(points, sweep.chosen)),
        points=points,
        chosen=sweep.chosen,
    )


_TIMES = tuple(
    (number * seconds, f"{number} {name}")
    for seconds, name, numbers in (
        (1, "s", (1, 2, 5, 10, 20, 30)),
        (60, "min", (1, 2, 5, 10, 30)),
        (3600, "h", (1, 3, 10, 30, 100)),
    )
    for number in numbers
)


def budget(sweep: Sweep) -> Chart:
    """The epsilon spent on the data set over time, with the line of its limit."""
    found = sweep.spending
    known = [(when, at) for when, at in found.points if 0 < at < math.inf]
    begin = known[0][0] if known else 0.0
    ticks, axis = _dates(begin, known[-1][0]) if known else ((), "")
    values = [at for _, at in known] + ([found.limit] if found.limit else [])
    lines: tuple[Line, ...] = ()
    if known:
        words = f"epsilon {formats.epsilon(known[-1][1])} after the last charge"
        lines = (Line(points=tuple(known), look="accent", words=words, is_step=True),)
    return Chart(
        name="epsilon-time",
        title="Epsilon spent on this data over time",
        description="The composition of every release about these records, in all"
        " sweeps of this home, by the ledger.",
        x=Axis(label=axis, ticks=ticks),
        y=Axis(
            label="ε spent together",
            is_log=bool(values) and max(values) / min(values) > 100,
        ),
        lines=lines,
        level=(found.limit, f"limit {formats.number(found.limit)}")
        if known and found.limit
        else None,
    )


def _dates(begin: float, end: float) -> tuple[tuple[tuple[float, str], ...], str]:
    """Ticks of a span of time, and what its axis is."""
    is_short = end - begin < 2 * 86_400
    form = "%H:%M" if is_short else "%d %b"
    if end - begin < 300:
        form = "%H:%M:%S"
    places = [begin + (end - begin) * share / 3 for share in range(4)]
    places = places if end > begin else [begin]
    day = time.strftime(" on %d %b %Y", time.gmtime(begin)) if is_short else ""
    ticks = tuple((at, time.strftime(form, time.gmtime(at))) for at in places)
    return ticks, f"time (UTC){day}"


def front_steps(trials: Sequence[Trial], main: str) -> list[tuple[float, float]]:
    """Corners (epsilon, figure) of the front of finite epsilon, from the smallest
    epsilon on.
    """
    known = [
        (trial.number("epsilon_compared") or 0.0, scaled(main, found).value)
        for trial in trials
        if trial.on_front and not trial.is_baseline and (found := trial.figure(main))
    ]
    return sorted(point for point in known if 0 < point[0] < math.inf)


def _over_epsilon(sweep: Sweep, metric: str, *, what: str) -> tuple[Point, ...]:
    trials = [t for t in sweep.measured_trials if (_epsilon(t) or 0) > 0]
    if not any(math.isfinite(_epsilon(trial) or math.inf) for trial in trials):
        return ()
    return _points(
        sweep,
        trials,
        metric,
        lambda trial: _epsilon(trial) or math.inf,
        lambda trial: "",
        are_named=len(trials) <= MOST_LABELS,
    )


def _points(
    sweep: Sweep,
    trials: Sequence[Trial],
    metric: str,
    at: Callable[[Trial], float],
    said: Callable[[Trial], str],
    *,
    by_epsilon: bool = False,
    are_named: bool | None = None,
) -> tuple[Point, ...]:
    """A point for each trial that has the figure, in the order of x."""
    named = len(trials) <= MOST_LABELS if are_named is None else are_named
    found = []
    for trial in sweep.subset(trials, MOST_POINTS):
        y = trial.figure(metric)
        if y is None or not math.isfinite(y.value):
            continue
        place = said(trial)
        words = f"{trial.name}: {place and place + ', '}{written(metric, y.value)}"
        between = formats.interval(y.low, y.high)
        words += f" ({between})" if between and metric != "ser" else ""
        if metric == "ser" and y.low is not None and y.high is not None:
            words += f" ({100 * y.low:.1f} to {100 * y.high:.1f})"
        words += f", epsilon {formats.epsilon(trial.epsilon)}"
        look = palette.band(trial.epsilon) if by_epsilon else trial.engine
        found.append(
            Point(
                x=at(trial),
                y=scaled(metric, y),
                trial=trial.id,
                look=look,
                mark=palette.mark(look, trial.decay),
                series=palette.words(look, trial.decay),
                words=words,
                label=trial.name if named and not by_epsilon else "",
            )
        )
    return tuple(sorted(found, key=lambda point: point.x))


def written(metric: str, value: float) -> str:
    """A figure in words, in the unit of `scaled`."""
    if metric == "ser":
        return f"{100 * value:.1f} errors in 100"
    return f"{figures.label(metric)} {formats.figure(metric, value)}"


def _edge(points: Sequence[Point], chosen: str | None) -> float | None:
    """The end of an axis that one far figure would stretch, with the answer before it;
    None where none does.
    """
    tops = sorted(max(point.y.ends) for point in points)
    if len(tops) < 3:
        return None
    of_answer = (max(p.y.ends) for p in points if p.trial == chosen)
    limit = max(_FAR * tops[len(tops) // 2], *of_answer, 0.0)
    return 1.08 * max(t for t in tops if t <= limit) if tops[-1] > limit else None


def _scaled_curve(main: str, curve: Curve) -> tuple[tuple[float, float], ...]:
    factor = 100.0 if main == "ser" else 1.0
    return tuple((x, factor * y) for x, y in curve.points)


def _visible(points: Sequence[tuple[float, float]]) -> tuple[tuple[float, float], ...]:
    """The part of a ROC that log axes show."""
    return tuple((max(x, _LEAST_RATE), max(y, _LEAST_RATE)) for x, y in points)


def _epsilon(trial: Trial) -> float | None:
    kind = catalogue.kind_of("engines", trial.engine)
    return math.inf if trial.is_baseline and kind != "private" else trial.epsilon


def _of(drawn: Sequence[Point], sweep: Sweep) -> str:
    total = len(sweep.measured_trials)
    return f"{len(drawn)} trials" + (f" of {total}" if total > len(drawn) else "")
