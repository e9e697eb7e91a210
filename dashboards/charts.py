"""The charts of a report: each is defined here, once, as data (`chart.Chart`)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from dashboards import comparison, palette
from dashboards.chart import Axis, Chart, Line, Point
from dashboards.results import Roc, Sweep, Trial
from trainables import formats
from trainables.attacks import auc_of
from trainables.figures import LEAKAGE

STRONGEST = "strongest"
MOST_CURVES = 24  # lines that an ROC chart can carry
EPSILONS: dict[str, Callable[[Trial], float | None]] = {
    "epsilon": lambda trial: math.inf if trial.baseline else trial.epsilon,
    "epsilon_paper": lambda trial: math.inf if trial.baseline else trial.epsilon_paper,
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
# Of attacks, which have no engine: Okabe & Ito (2008), and a dash each.
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


def every(sweep: Sweep) -> list[Chart]:
    """All charts that the sweep has data for."""
    found = [frontier(sweep, kind) for kind in kinds(sweep)]
    found += [leakage(sweep, name, kind) for name in attacks(sweep) for kind in kinds(sweep)]
    return [*found, times(sweep), *epochs(sweep), *rocs(sweep)]


def kinds(sweep: Sweep) -> list[str]:
    """Which epsilons any trial has."""
    known = {kind: [of(trial) for trial in sweep.finished] for kind, of in EPSILONS.items()}
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
        name=f"frontier-{_slug(epsilon)}",
        title=f"Test SER over {epsilon}",
        description=f"{len(points)} trials. Lower is better in both. The data are in the table of"
        " all trials.",
        x=Axis(label=_X_LABELS[epsilon], is_log=True),
        y=Axis(label="test SER (95 % interval)", low=0.0),
        points=points,
        front=tuple(comparison.front_steps(sweep.trials)) if guaranteed else (),
        level=(reference.value, f"{palette.name(base.engine)} baseline")
        if base is not None and reference is not None
        else None,
        shaded=sweep.choice.epsilon_max if guaranteed else None,
    )


def leakage(sweep: Sweep, attack: str, epsilon: str = "epsilon") -> Chart:
    """The AUC with intervals of an attack, or of each trial's `STRONGEST`, over `epsilon` or
    `epsilon_paper`; chance at one half.
    """
    metric = LEAKAGE if attack == STRONGEST else auc_of(attack)
    points = _points(sweep, metric, epsilon, what="AUC")
    return Chart(
        name=f"leakage-{_slug(attack)}-{_slug(epsilon)}",
        title=f"AUC of the {attack} membership attack over {epsilon}",
        description=f"{len(points)} trials; one half is chance. Curator only. The data are in the"
        " table of attacks.",
        x=Axis(label=_X_LABELS[epsilon], is_log=True),
        y=Axis(label=f"AUC of the {attack} attack (95 %)"),
        points=points,
        level=(0.5, "chance"),
    )


def rocs(sweep: Sweep) -> list[Chart]:
    """ROC curves of each attack, of the trials that matter most."""
    found: dict[str, list[Line]] = {}
    for trial in with_curves(sweep):
        for curve in trial.rocs:
            series = palette.words(trial.engine, trial.decay)
            line = _roc_line(curve, trial.name, series=series, engine=trial.engine, trial=trial.id)
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


def with_curves(sweep: Sweep) -> list[Trial]:
    """Trials whose curves are drawn: all, or where that is too many the ones that matter most."""
    have = [trial for trial in sweep.finished if trial.rocs]

    def matters(trial: Trial) -> tuple[bool, bool, bool]:
        return not trial.baseline, trial.id != sweep.choice.trial, not trial.on_front

    kept = {trial.id for trial in sorted(have, key=matters)[:MOST_CURVES]}
    return [trial for trial in have if trial.id in kept]


def roc_of_trial(curves: Mapping[str, Mapping[str, Sequence[float]]], *, title: str) -> Chart:
    """One trial's attacks against each other; `curves` hold `fpr` and `tpr` each. The control
    `blind`, which sees no model, is grey and last.
    """
    lines = []
    for place, name in enumerate(sorted(curves, key=lambda name: (name == "blind", name))):
        colour, dash = ("#999999", ()) if name == "blind" else _ATTACKS[place % len(_ATTACKS)]
        curve = Roc(attack=name, **{key: tuple(curves[name][key]) for key in ("fpr", "tpr")})
        words = name.replace("_", " ")
        lines.append(_roc_line(curve, words, series=words, colour=colour, dash=dash))
    return _roc(lines, name="roc", title=title, description="ROC of each attack. Curator only.")


def epochs(sweep: Sweep) -> list[Chart]:
    """What changes with an epoch, one line a trial that has it."""
    return [
        _by_epoch(sweep, name, label, is_log=is_log)
        for name, label, is_log in _EPOCHS
        if any(name in row for trial in sweep.finished for row in trial.history)
    ]


def times(sweep: Sweep) -> Chart:
    """Seconds of an epoch as a multiple of the baseline's: median and range, a row an engine."""
    points, rows = [], []
    for place, row in enumerate(r for r in comparison.times(sweep) if r.factor is not None):
        factor = row.factor or 0.0
        low, high = row.factor_low or factor, row.factor_high or factor
        rows.append(palette.words(row.engine, row.decay))
        points.append(
            Point(
                x=factor,
                y=place,
                low=low,
                high=high,
                words=f"{rows[-1]}: {formats.number(factor, 3)} times the baseline"
                f" ({formats.number(low, 3)} to {formats.number(high, 3)}),"
                f" {formats.duration(row.median)} an epoch, {row.num_trials} trials",
                series=rows[-1],
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
    for trial in sweep.finished:
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


def _by_epoch(sweep: Sweep, metric: str, label: str, *, is_log: bool) -> Chart:
    lines = []
    for trial in sweep.finished:
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
        name=f"epochs-{_slug(metric)}",
        title=f"{label} by epoch",
        description=f"{len(lines)} trials. The data are in epochs.csv.",
        x=Axis(label="epoch", is_whole=True, low=min(1.0, most - 1), high=most),
        y=Axis(label=label, is_log=is_log, low=None if is_log else 0.0),
        lines=tuple(lines),
    )


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
    low = min(low, 0.5)  # a few records: an axis needs a length
    return Chart(
        name=name,
        title=title,
        description=description,
        x=Axis(label="false-positive rate (log axis)", is_log=True, low=low, high=1.0),
        y=Axis(label="true-positive rate (log axis)", is_log=True, low=low, high=1.05),
        lines=tuple(lines),
        chance=True,
    )


def _slug(name: str) -> str:
    return name.replace("_", "-")
