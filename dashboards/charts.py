"""The charts of a report as plain frozen data; `render` draws them."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from dashboards import palette
from dashboards.results import Estimate, Sweep, Trial
from trainables import catalogue, formats
from trainables.dp.engines.configs import Mark
from trainables.figures import LEAKAGE

BEGINNINGS = ("frontier-", "leakage-", "slice-")  # of charts' names
MOST_POINTS = 150
MOST_LABELS = 12  # points that have their trial's name beside them
_DECADE = 10.0  # a searched axis that spans more is logarithmic


@dataclass(frozen=True, kw_only=True)
class Point:
    """A trial's figure at `x`; an infinite one is drawn right of a break in the axis.
    `look` is the name of its colour (`palette.look`), `words` its text for screen
    readers, `label` is beside it.
    """

    x: float
    y: Estimate
    trial: Trial
    look: str
    words: str
    label: str = ""

    @property
    def series(self) -> str:
        """Its name in a legend."""
        return palette.words(self.look, self.trial.decay)

    @property
    def mark(self) -> Mark:
        """The shape of its mark."""
        return palette.mark(self.look, self.trial.decay)

    @property
    def ends(self) -> tuple[float, ...]:
        """Its value, and the bounds of its interval where they are known."""
        found = (self.y.low, self.y.value, self.y.high)
        return tuple(end for end in found if end is not None)


@dataclass(frozen=True, kw_only=True)
class Axis:
    """One axis; `names` label whole numbers from 0."""

    label: str
    is_log: bool = False
    names: tuple[str, ...] = ()


_EPSILON = Axis(
    label="epsilon (a guarantee of the code that ran; log axis)", is_log=True
)


@dataclass(frozen=True, kw_only=True)
class Chart:
    """One chart. `front` are the corners of a step line, `level` is a dashed reference
    with its label; the area left of `shaded` on the x axis meets the target. The trial
    `chosen` has a ring. `name` is an element's id and a file's name.
    """

    name: str
    title: str
    description: str
    x: Axis
    y: str
    points: tuple[Point, ...]
    chosen: str | None
    front: tuple[tuple[float, float], ...] = ()
    level: tuple[float, str] | None = None
    shaded: float | None = None


def every(sweep: Sweep) -> list[Chart]:
    """All charts that the sweep has data for."""
    has_epsilon = any(
        math.isfinite(_epsilon(t) or math.inf) for t in sweep.measured_trials
    )
    found = [frontier(sweep)] if has_epsilon else []
    found += [leakage(sweep)] if has_epsilon and sweep.attacks else []
    return [*found, *slices(sweep)]


def frontier(sweep: Sweep) -> Chart:
    """Test SER with intervals over epsilon, the front as a line."""
    base, prior = sweep.baseline, sweep.prior and sweep.prior.figure("ser")
    reference = base and base.figure("ser")
    # Epsilon 0 has no place on a logarithmic axis.
    zero = f" At epsilon 0 (the prior alone) SER is {prior.value:.3f}." if prior else ""
    points = _over_epsilon(sweep, "ser", what="SER")
    return Chart(
        name="frontier-epsilon",
        title="Test SER over epsilon",
        description=f"{_of(points, sweep)}. Lower is better in both.{zero} The data are"
        " in the table of all trials.",
        x=_EPSILON,
        y="test SER (95 % interval)",
        points=points,
        chosen=sweep.chosen,
        front=tuple(front_steps(sweep.trials)),
        level=(reference.value, f"{palette.name(base.engine)} baseline")
        if base and reference
        else None,
        shaded=sweep.epsilon_max,
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
        x=_EPSILON,
        y="AUC of the strongest attack (95 %)",
        points=points,
        chosen=sweep.chosen,
        level=(0.5, "chance"),
    )


def slices(sweep: Sweep) -> list[Chart]:
    """Test SER over each searched axis with more than one value, coloured by epsilon.
    Seeds repeat a trial and are no setting.
    """
    found = []
    for axis in (name for name in sweep.axes if name != "seed"):
        trials = [
            t for t in sweep.measured_trials if axis in t.values and t.figure("ser")
        ]
        values = list(dict.fromkeys(trial.values[axis] for trial in trials))
        if len(values) < 2:
            continue
        numbers = [value for value in values if isinstance(value, float)]
        names = () if len(numbers) == len(values) else tuple(map(str, values))
        is_log = (
            not names and min(numbers) > 0 and max(numbers) / min(numbers) >= _DECADE
        )
        points = []
        for trial in sweep.subset(trials, MOST_POINTS):
            ser, value = trial.figure("ser"), trial.values[axis]
            assert ser is not None
            x = float(values.index(value)) if names else float(value)
            shown = value if isinstance(value, str) else formats.number(value)
            words = (
                f"{trial.name}: {axis} {shown}, SER {formats.share(ser.value)}, epsilon"
            )
            words += f" {formats.epsilon(trial.epsilon)}"
            look = palette.band(trial.epsilon)
            points.append(Point(x=x, y=ser, trial=trial, look=look, words=words))
        found.append(
            Chart(
                name="slice-" + re.sub(r"[\W_]+", "-", axis.lower()).strip("-"),
                title=f"Test SER over {axis}",
                description=f"{_of(points, sweep)}, coloured by epsilon. The data are"
                " in the table of all trials.",
                x=Axis(
                    label=f"{axis} (log axis)" if is_log else axis,
                    is_log=is_log,
                    names=names,
                ),
                y="test SER (95 % interval)",
                points=tuple(sorted(points, key=lambda point: point.x)),
                chosen=sweep.chosen,
            )
        )
    return found


def front_steps(trials: Sequence[Trial]) -> list[tuple[float, float]]:
    """Corners (epsilon, SER) of the front of finite epsilon, from the smallest epsilon
    on.
    """
    known = [
        (trial.compared_epsilon or 0.0, found.value)
        for trial in trials
        if trial.on_front and not trial.baseline and (found := trial.figure("ser"))
    ]
    return sorted(point for point in known if 0 < point[0] < math.inf)


def _over_epsilon(sweep: Sweep, metric: str, *, what: str) -> tuple[Point, ...]:
    found = []
    are_named = len(sweep.measured_trials) <= MOST_LABELS
    for trial in sweep.subset(sweep.measured_trials, MOST_POINTS):
        x, y = _epsilon(trial), trial.figure(metric)
        if x is None or x <= 0 or y is None:
            continue
        between = formats.interval(y.low, y.high)
        words = f"{trial.name}: {what} {formats.share(y.value)}"
        words += f" ({between})" if between else ""
        words += f", epsilon {formats.epsilon(trial.epsilon)}"
        words += f", epsilon_paper {formats.epsilon(trial.epsilon_paper)}"
        label = trial.name if are_named else ""
        found.append(
            Point(x=x, y=y, trial=trial, look=trial.engine, words=words, label=label)
        )
    return tuple(sorted(found, key=lambda point: point.x))


def _epsilon(trial: Trial) -> float | None:
    is_open = trial.baseline and catalogue.kind_of("engines", trial.engine) != "private"
    return math.inf if is_open else trial.epsilon


def _of(drawn: Sequence[Point], sweep: Sweep) -> str:
    total = len(sweep.measured_trials)
    return f"{len(drawn)} trials" + (f" of {total}" if total > len(drawn) else "")
