"""The charts of a report, each defined once as data (`chart.Chart`)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from dashboards import comparison, palette, roc_charts
from dashboards.chart import Axis, Chart, Line, Point, slug
from dashboards.results import Sweep, Trial
from trainables import formats
from trainables.attacks import auc_of
from trainables.figures import LEAKAGE

STRONGEST = "strongest"
BEGINNINGS = ("frontier-", "leakage-", "times-", "epochs-", "roc-")  # of the charts' names
MOST_POINTS, MOST_LINES = 150, 60  # in a chart
EPSILONS: dict[str, Callable[[Trial], float | None]] = {
    "epsilon": lambda trial: math.inf if trial.is_open_baseline else trial.epsilon,
    "epsilon_paper": lambda trial: math.inf if trial.is_open_baseline else trial.epsilon_paper,
}
_X_LABELS = {
    "epsilon": "epsilon (a guarantee of the code that ran; log axis)",
    "epsilon_paper": "epsilon_paper (the paper's formula, no guarantee; log axis)",
}
_DASHES = {"linear": (7, 3), "exponential": (2, 3)}
_EPOCHS = (
    ("validation_ser", "validation SER", False),
    ("validation_loss", "validation loss", False),
    ("epsilon_spent", "epsilon spent (log axis)", True),
    ("noise_multiplier", "noise multiplier (log axis)", True),
)


def every(sweep: Sweep) -> list[Chart]:
    """All charts that the sweep has data for."""
    found = [frontier(sweep, kind) for kind in kinds(sweep)]
    found += [leakage(sweep, name, kind) for name in attacks(sweep) for kind in kinds(sweep)]
    return [*found, times(sweep), *epochs(sweep), *roc_charts.rocs(sweep)]


def kinds(sweep: Sweep) -> list[str]:
    """Which epsilons any trial has."""
    known = {kind: [of(trial) for trial in sweep.measured_trials] for kind, of in EPSILONS.items()}
    return [k for k, xs in known.items() if any(x is not None and math.isfinite(x) for x in xs)]


def attacks(sweep: Sweep) -> tuple[str, ...]:
    """Attacks that any trial has an AUC of, the strongest of each trial first."""
    return (STRONGEST, *sweep.attacks) if sweep.attacks else ()


def frontier(sweep: Sweep, epsilon: str = "epsilon") -> Chart:
    """Test SER with intervals over `epsilon` or `epsilon_paper`, the front as a line."""
    base = sweep.baseline
    reference = base.figure("ser") if base is not None else None
    guaranteed = epsilon == "epsilon"
    points = _points(sweep, "ser", epsilon, what="SER")
    return Chart(
        name=f"frontier-{slug(epsilon)}",
        title=f"Test SER over {epsilon}",
        description=f"{_of(points, sweep)}. Lower is better in both.{_of_prior(sweep)} The data are"
        " in the table of all trials.",
        x=Axis(label=_X_LABELS[epsilon], is_log=True),
        y=Axis(label="test SER (95 % interval)", low=0.0),
        points=points,
        front=tuple(comparison.front_steps(sweep.trials)) if guaranteed else (),
        level=(reference.value, f"{palette.name(base.engine)} baseline")
        if base is not None and reference is not None
        else None,
        shaded=sweep.choice.epsilon_max if guaranteed else None,
    )


def _of_prior(sweep: Sweep) -> str:
    """Epsilon 0 has no place on a logarithmic axis."""
    found = sweep.prior.figure("ser") if sweep.prior is not None else None
    return "" if found is None else f" At epsilon 0 (the prior alone) SER is {found.value:.3f}."


def leakage(sweep: Sweep, attack: str, epsilon: str = "epsilon") -> Chart:
    """The AUC with intervals of an attack, or of each trial's `STRONGEST`, over `epsilon` or
    `epsilon_paper`; chance at one half.
    """
    metric = LEAKAGE if attack == STRONGEST else auc_of(attack)
    points = _points(sweep, metric, epsilon, what="AUC")
    return Chart(
        name=f"leakage-{slug(attack)}-{slug(epsilon)}",
        title=f"AUC of the {attack} membership attack over {epsilon}",
        description=f"{_of(points, sweep)}; one half is chance. Curator only. The data are in the"
        " table of attacks.",
        x=Axis(label=_X_LABELS[epsilon], is_log=True),
        y=Axis(label=f"AUC of the {attack} attack (95 %)"),
        points=points,
        level=(0.5, "chance"),
    )


def epochs(sweep: Sweep) -> list[Chart]:
    """Figures by epoch, one line a trial."""
    return [
        _by_epoch(sweep, name, label, is_log=is_log)
        for name, label, is_log in _EPOCHS
        if any(name in row for trial in sweep.measured_trials for row in trial.history)
    ]


def times(sweep: Sweep) -> Chart:
    """Seconds of an epoch as a multiple of the baseline's: median and range, a row an engine."""
    points, rows = [], []
    for place, row in enumerate(r for r in comparison.times(sweep) if r.factor is not None):
        factor = row.factor or 0.0
        low, high = row.factor_low or factor, row.factor_high or factor
        name = palette.words(row.engine, row.decay)
        words = [name, row.which] if row.which else [name]
        rows.append("\n".join(words))
        points.append(
            Point(
                x=factor,
                y=place,
                low=low,
                high=high,
                words=f"{', '.join(words)}: {formats.number(factor, 3)} times the baseline"
                f" ({formats.number(low, 3)} to {formats.number(high, 3)}),"
                f" {formats.duration(row.median)} an epoch, {row.num_trials} trials",
                series=name,
                engine=row.engine,
                mark=palette.mark(row.engine, row.decay),
            )
        )
    return Chart(
        name="times-chart",
        title="Seconds of an epoch as a multiple of the baseline's",
        description=f"{len(rows)} rows: median and range over trials. The data are in the table"
        " of times.",
        x=Axis(label="seconds of an epoch, times the baseline's", low=0.0),
        y=Axis(label="engine, decay", rows=tuple(rows)),
        points=tuple(points),
        level=(1.0, "baseline"),
    )


def _points(sweep: Sweep, metric: str, epsilon: str, *, what: str) -> tuple[Point, ...]:
    found = []
    for trial in sweep.subset(sweep.measured_trials, MOST_POINTS):
        x, y = EPSILONS[epsilon](trial), trial.figure(metric)
        if x is None or x <= 0 or y is None:
            continue
        between = formats.interval(y.low, y.high)
        words = f"{trial.name}: {what} {formats.share(y.value)}"
        words += f" ({between})" if between else ""
        words += f", epsilon {formats.epsilon(trial.epsilon)}"
        words += f", epsilon_paper {formats.epsilon(trial.epsilon_paper)}"
        found.append(
            Point(
                x=x,
                y=y.value,
                low=y.low,
                high=y.high,
                words=words,
                series=palette.words(trial.engine, trial.decay),
                engine=trial.engine,
                mark=palette.mark(trial.engine, trial.decay),
                trial=trial.id,
                is_chosen=trial.id == sweep.choice.trial,
            )
        )
    return tuple(sorted(found, key=lambda point: point.x))


def _of(drawn: Sequence[Point | Line], sweep: Sweep) -> str:
    total = len(sweep.measured_trials)
    return f"{len(drawn)} trials" + (f" of {total}" if total > MOST_LINES else "")


def _by_epoch(sweep: Sweep, metric: str, label: str, *, is_log: bool) -> Chart:
    lines = []
    for trial in sweep.subset(sweep.measured_trials, MOST_LINES):
        found = [(row["epochs_done"], row[metric]) for row in trial.history if metric in row]
        found = [(x, y) for x, y in found if math.isfinite(y) and (y > 0 or not is_log)]
        if found:
            x, y = zip(*found, strict=True)
            lines.append(
                Line(
                    x=x,
                    y=y,
                    series=palette.words(trial.engine, trial.decay),
                    words=trial.name,
                    engine=trial.engine,
                    dash=_DASHES.get(trial.decay, ()),
                    trial=trial.id,
                )
            )
    most = max((x for line in lines for x in line.x), default=2.0)
    return Chart(
        name=f"epochs-{slug(metric)}",
        title=f"{label} by epoch",
        description=f"{_of(lines, sweep)}. The data are in epochs.csv.",
        x=Axis(label="epoch", is_whole=True, low=min(1.0, most - 1), high=most),
        y=Axis(label=label, is_log=is_log, low=None if is_log else 0.0),
        lines=tuple(lines),
    )
