"""The report's charts as inline SVG: readable as they are, and with names that a script can use.

Every point carries its trial's id (`data-trial`) and says its figures in words (`aria-label`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from dashboards import comparison, palette, scales
from dashboards.results import Estimate, Sweep, Trial
from dashboards.svg import Frame, Svg, element, group, mark, path
from trainables.attacks import auc_of
from trainables.figures import LEAKAGE
from trainables.formats import duration, interval, number, share
from trainables.formats import epsilon as guaranteed

STRONGEST = "strongest"
WIDTH, HEIGHT = 520.0, 380.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 58.0, 14.0, 30.0, 50.0
_INFINITY = 46.0  # room for trials whose epsilon is infinite
EpsilonOf = Callable[[Trial], float | None]
EPSILONS: dict[str, EpsilonOf] = {
    "epsilon": lambda trial: math.inf if trial.baseline else trial.epsilon,
    "epsilon_paper": lambda trial: math.inf if trial.baseline else trial.epsilon_paper,
}
_X_LABELS = {
    "epsilon": "epsilon (a guarantee of the code that ran; log axis)",
    "epsilon_paper": "epsilon_paper (the paper's formula, no guarantee; log axis)",
}


def frontier(sweep: Sweep, *, epsilon: str = "epsilon") -> Svg:
    """Test SER with intervals over `epsilon` or `epsilon_paper`, the front as a line."""
    points = _points(sweep, "ser", EPSILONS[epsilon])
    frame = _frame(points, floor=0.0)
    layers = []
    if epsilon == "epsilon" and math.isfinite(sweep.choice.epsilon_max):
        layers.append(_asked(frame, sweep.choice.epsilon_max))
    base = sweep.baseline
    if base is not None and (reference := base.figure("ser")) is not None:
        layers.append(_reference(frame, reference.value, f"{palette.name(base.engine)} baseline"))
    if epsilon == "epsilon":
        steps = [frame.place(*corner) for corner in comparison.front_steps(sweep.trials)]
        layers.append(element("path", d=path(steps, steps=True), class_="front"))
    return frame.svg(
        frame.axes(x_label=_X_LABELS[epsilon], y_label="test SER (95 % interval)"),
        *layers,
        _marks(frame, points, sweep, what="SER"),
        name=f"frontier-{epsilon.replace('_', '-')}",
        title=f"Test SER over {epsilon}",
        description=f"{len(points)} trials. Lower is better in both. The data are in the table of"
        " all trials.",
    )


def leakage(sweep: Sweep, attack: str, *, epsilon: str = "epsilon") -> Svg:
    """The AUC with intervals of an attack, or of each trial's `STRONGEST`, over `epsilon` or
    `epsilon_paper`; chance at one half.
    """
    metric = LEAKAGE if attack == STRONGEST else auc_of(attack)
    points = _points(sweep, metric, EPSILONS[epsilon])
    frame = _frame([*points, *((t, x, Estimate(value=0.5)) for t, x, _ in points[:1])])
    return frame.svg(
        frame.axes(x_label=_X_LABELS[epsilon], y_label=f"AUC of the {attack} attack (95 %)"),
        _reference(frame, 0.5, "chance"),
        _marks(frame, points, sweep, what="AUC"),
        name=f"leakage-{attack.replace('_', '-')}-{epsilon.replace('_', '-')}",
        title=f"AUC of the {attack} membership attack over {epsilon}",
        description=f"{len(points)} trials; one half is chance. Curator only. The data are in the"
        " table of attacks.",
    )


def roc(sweep: Sweep, attack: str, *, trials: Sequence[Trial]) -> Svg:
    """ROC curves of an attack on log-log axes, with the line of chance."""
    curves = [(t, c) for t in trials for c in t.rocs if c.attack == attack]
    low = min((x for _, c in curves for x in c.fpr if x > 0), default=1e-3)
    frame = Frame(
        width=WIDTH,
        height=HEIGHT,
        x=scales.Scale(kind="log", low=low, high=1.0, start=_LEFT, end=WIDTH - _RIGHT),
        y=scales.Scale(kind="log", low=low, high=1.0, start=HEIGHT - _BOTTOM, end=_TOP),
    )
    lines = [
        _line(frame, t, [(x, y) for x, y in zip(c.fpr, c.tpr, strict=True) if y > 0], steps=True)
        for t, c in curves
    ]
    chance = path([frame.place(low, low), frame.place(1.0, 1.0)])
    return frame.svg(
        frame.axes(x_label="false-positive rate (log axis)", y_label="true-positive rate (log)"),
        element("path", d=chance, class_="reference"),
        *lines,
        name=f"roc-{attack.replace('_', '-')}",
        title=f"ROC of the {attack} attack on log-log axes",
        description=f"{len(curves)} trials; the dashed diagonal is chance. Rates at 1 % and 0.1 %"
        " false positives are in the table of attacks. Curator only.",
    )


def epochs(sweep: Sweep, metric: str, *, label: str, log: bool = False) -> Svg:
    """A metric after each epoch, one line a trial that has it."""
    lines = []
    for trial in sweep.finished:
        found = [(row["epochs_done"], row[metric]) for row in trial.history if metric in row]
        found = [(x, y) for x, y in found if math.isfinite(y) and (y > 0 or not log)]
        if found:
            lines.append((trial, found))
    values = [y for _, line in lines for _, y in line]
    most = max((x for _, line in lines for x, _ in line), default=2.0)
    place = {"start": HEIGHT - _BOTTOM, "end": _TOP}
    y = scales.log(values, **place) if log else scales.linear(values, floor=0.0, **place)
    x = scales.Scale(
        kind="linear",
        low=min(1.0, most - 1),
        high=most,
        start=_LEFT,
        end=WIDTH - _RIGHT,
        whole=True,
    )
    frame = Frame(width=WIDTH, height=HEIGHT, x=x, y=y)
    return frame.svg(
        frame.axes(x_label="epoch", y_label=label),
        *(_line(frame, trial, line) for trial, line in lines),
        name=f"epochs-{metric.replace('_', '-')}",
        title=f"{label} by epoch",
        description=f"{len(lines)} trials. The data are in epochs.csv.",
    )


def times(sweep: Sweep) -> Svg:
    """Seconds of an epoch as a multiple of the baseline's: median and range, a row an engine."""
    rows = [row for row in comparison.times(sweep) if row.factor is not None]
    left, line = 172.0, 34.0
    height = _TOP + line * max(1, len(rows)) + _BOTTOM
    highs = [row.factor_high or 1.0 for row in rows]
    x = scales.linear([0.0, 1.0, *highs], start=left, end=WIDTH - _RIGHT - 44, floor=0.0)
    y = scales.Scale(kind="linear", low=-0.5, high=max(1, len(rows)) - 0.5, start=_TOP, end=height)
    bottom = height - _BOTTOM
    parts = [
        element("line", x1=x.place(t), x2=x.place(t), y1=_TOP, y2=bottom, class_="grid")
        for t in x.ticks()
    ]
    parts += [
        element("text", f"{t:g}×", x=x.place(t), y=bottom + 18, class_="tick middle")
        for t in x.ticks()
    ]
    one = x.place(1.0)
    parts.append(element("line", x1=one, x2=one, y1=_TOP, y2=bottom, class_="reference"))
    label = "seconds of an epoch, times the baseline's"
    parts.append(element("text", label, x=(left + x.end) / 2, y=bottom + 40, class_="label middle"))
    for place, row in enumerate(rows):
        parts.append(_time_row(row, x, _TOP + line * (place + 0.5), left))
    frame = Frame(width=WIDTH, height=height, x=x, y=y)
    return frame.svg(
        *parts,
        name="times-chart",
        title="Seconds of an epoch as a multiple of the baseline's",
        description=f"{len(rows)} rows: median and range over trials. The data are in the table"
        " of times.",
    )


def legend(sweep: Sweep) -> Svg:
    """Engines and decays of the sweep with their marks, as a list for people and screen readers."""
    seen: dict[tuple[str, str], None] = {}
    for trial in sweep.finished:
        seen.setdefault(
            (trial.engine, trial.decay if palette.shows_decay(trial.engine) else "none")
        )
    items = []
    for engine, decay in seen:
        picture = element(
            "svg",
            group([mark(palette.mark(engine, decay))], class_=f"point {palette.css_class(engine)}"),
            viewBox="-8 -8 16 16",
            width=16,
            height=16,
            aria_hidden="true",
            focusable="false",
        )
        items.append(element("li", picture, element("span", palette.words(engine, decay))))
    return element("ul", *items, class_="legend")


def _time_row(row: comparison.TimeRow, x: scales.Scale, y: float, left: float) -> Svg:
    assert row.factor is not None
    low, high = row.factor_low or row.factor, row.factor_high or row.factor
    words = palette.name(row.engine)
    if palette.shows_decay(row.engine):
        words += ", no decay" if row.decay == "none" else f", {row.decay}"
    spoken = (
        f"{words}: {number(row.factor, 3)} times the baseline ({number(low, 3)} to"
        f" {number(high, 3)}), {duration(row.median)} an epoch, {row.num_trials} trials"
    )
    dot = group(
        [mark(palette.mark(row.engine, row.decay))],
        transform=f"translate({x.place(row.factor):.2f} {y:.2f})",
    )
    return group(
        [
            element("text", words, x=left - 10, y=y + 4, class_="tick end"),
            element("line", x1=x.place(low), x2=x.place(high), y1=y, y2=y, class_="whisker"),
            dot,
            element(
                "text", f"{row.factor:.2f}×", x=x.place(high) + 9, y=y + 4, class_="tick value"
            ),
        ],
        class_=f"point {palette.css_class(row.engine)}",
        role="img",
        aria_label=spoken,
        data_tip=spoken,
    )


def _points(sweep: Sweep, metric: str, epsilon: EpsilonOf) -> list[tuple[Trial, float, Estimate]]:
    found = []
    for trial in sweep.finished:
        x, y = epsilon(trial), trial.figure(metric)
        if x is not None and x > 0 and y is not None:
            found.append((trial, x, y))
    return sorted(found, key=lambda point: point[1])


def _frame(points: Sequence[tuple[Trial, float, Estimate]], *, floor: float | None = None) -> Frame:
    has_infinity = any(math.isinf(x) for _, x, _ in points)
    right = WIDTH - _RIGHT - (_INFINITY if has_infinity else 0.0)
    values = [v for _, _, e in points for v in (e.value, e.low, e.high) if v is not None]
    return Frame(
        width=WIDTH,
        height=HEIGHT,
        x=scales.log([x for _, x, _ in points], start=_LEFT, end=right),
        y=scales.linear(values, start=HEIGHT - _BOTTOM, end=_TOP, floor=floor),
        infinity=WIDTH - _RIGHT - _INFINITY / 3 if has_infinity else None,
    )


def _marks(
    frame: Frame, points: Sequence[tuple[Trial, float, Estimate]], sweep: Sweep, *, what: str
) -> Svg:
    drawn = []
    for trial, x, estimate in points:
        across, up = frame.place(x, estimate.value)
        between = interval(estimate.low, estimate.high)
        spoken = f"{trial.name}: {what} {share(estimate.value)}"
        spoken += f" ({between})" if between else ""
        spoken += f", epsilon {guaranteed(trial.epsilon)}"
        spoken += f", epsilon_paper {guaranteed(trial.epsilon_paper)}"
        parts = []
        if estimate.low is not None and estimate.high is not None:
            low, high = frame.y.place(estimate.low) - up, frame.y.place(estimate.high) - up
            parts.append(element("line", x1=0, x2=0, y1=low, y2=high, class_="whisker"))
        if trial.id == sweep.choice.trial:
            parts.append(element("circle", r=10, class_="chosen"))
        parts.append(mark(palette.mark(trial.engine, trial.decay)))
        drawn.append(
            group(
                parts,
                class_=f"point {palette.css_class(trial.engine)}",
                transform=f"translate({across:.2f} {up:.2f})",
                role="img",
                aria_label=spoken,
                data_trial=trial.id,
                data_tip=spoken,
            )
        )
    return group(drawn, class_="points")


def _line(
    frame: Frame, trial: Trial, points: Sequence[tuple[float, float]], *, steps: bool = False
) -> Svg:
    placed = [frame.place(x, y) for x, y in points]
    dash = {"linear": "7 3", "exponential": "2 3"}.get(trial.decay)
    return element(
        "path",
        d=path(placed, steps=steps),
        class_=f"line {palette.css_class(trial.engine)}",
        stroke_dasharray=dash,
        role="img",
        aria_label=trial.name,
        data_trial=trial.id,
        data_tip=trial.name,
    )


def _asked(frame: Frame, epsilon: float) -> Svg:
    """The part of the chart whose trials are good enough."""
    if epsilon <= frame.x.low:
        return Svg("")
    right = frame.x.place(epsilon)
    top, bottom = frame.y.end, frame.y.start
    box = {"x": frame.x.start, "y": top, "width": right - frame.x.start, "height": bottom - top}
    return group(
        [
            element("rect", class_="asked", **box),
            element("line", x1=right, x2=right, y1=top, y2=bottom, class_="asked-edge"),
            element("text", f"ε ≤ {epsilon:g}", x=right + 4, y=top + 10, class_="note"),
        ],
        aria_hidden="true",
    )


def _reference(frame: Frame, value: float, words: str) -> Svg:
    y = frame.y.place(value)
    right = frame.x.end if frame.infinity is None else frame.infinity + 14
    left = frame.x.start
    return group(
        [
            element("line", x1=left, x2=right, y1=y, y2=y, class_="reference"),
            element("text", words, x=left + 4, y=y - 5, class_="note"),
        ],
        aria_hidden="true",
    )
