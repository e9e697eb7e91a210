"""The input of a report: plain frozen data about a finished sweep. Pure."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from trainables import catalogue, figures
from trainables.attacks import auc_of, oriented_attacks
from trainables.cards.card import PrivacyCard


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """A measured figure and its 95 % interval; the bounds are None where none is
    known.
    """

    value: float
    low: float | None = None
    high: float | None = None

    @property
    def ends(self) -> tuple[float, ...]:
        """Its value, and the bounds of its interval where they are known."""
        found = (self.low, self.value, self.high)
        return tuple(end for end in found if end is not None)


@dataclass(frozen=True, kw_only=True)
class Trial:
    """One row of the table of trials (`sweep.results.frame`), read by the names of its
    columns. `axes` are its values of the searched axes that vary.
    """

    id: str
    columns: Mapping[str, object]
    axes: Mapping[str, float | str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The variant and the values of the axes."""
        return self.text("name")

    @property
    def engine(self) -> str:
        """The engine of its config."""
        return self.text("engine")

    @property
    def decay(self) -> str:
        """The noise decay of a private trial."""
        return self.text("decay") or "none"

    @property
    def status(self) -> str:
        """What became of it, in a word."""
        return self.text("status")

    @property
    def reason(self) -> str:
        """Why it failed, was stopped or was refused."""
        return self.text("reason")

    @property
    def is_baseline(self) -> bool:
        """Whether the space declared it a baseline that reads private records."""
        return bool(self.columns.get("baseline")) and not self.is_prior

    @property
    def on_front(self) -> bool:
        """Whether it is Pareto-optimal."""
        return bool(self.columns.get("pareto_optimal"))

    @property
    def baseline_id(self) -> str | None:
        """The trial that it is compared with."""
        return self.text("compared_with") or None

    @property
    def epsilon(self) -> float | None:
        """The guarantee of the code that ran; infinity without one, None where
        unknown.
        """
        return self.number(figures.EPSILON)

    @property
    def is_measured(self) -> bool:
        """Whether it has ended and was measured."""
        return self.status in ("done", "stopped")

    @property
    def is_prior(self) -> bool:
        """Whether it read no private record."""
        return catalogue.kind_of("engines", self.engine) == "prior"

    @property
    def is_weak(self) -> bool:
        """Whether its epsilon guarantees little."""
        return self.epsilon is not None and self.epsilon > 10

    @property
    def attacks(self) -> tuple[str, ...]:
        """Attacks that this trial has an AUC of, sorted."""
        known = catalogue.names("attacks")
        return tuple(n for n in known if self.number(auc_of(n)) is not None)

    def text(self, column: str) -> str:
        """A column of words, empty where the trial has none."""
        found = self.columns.get(column)
        return "" if found is None else str(found)

    def number(self, column: str) -> float | None:
        """A column of numbers; None where the trial has none."""
        found = self.columns.get(column)
        is_number = isinstance(found, int | float) and not math.isnan(found)
        return float(found) if is_number else None  # type: ignore[arg-type]

    def figure(self, name: str) -> Estimate | None:
        """A figure with its interval, None where the trial lacks it. An interval has
        two ends: a change from a baseline that may make no error has one.
        """
        value = self.number(name)
        if value is None:
            return None
        ends = [self.number(f"{name}_{end}") for end in ("low", "high")]
        low, high = (None, None) if None in ends else ends
        return Estimate(value=value, low=low, high=high)

    @cached_property
    def attack_figures(self) -> Mapping[str, float | None]:
        """The figures of its membership attacks."""
        names = (name for name in self.columns if name.startswith(figures.ATTACKS))
        return {name: self.number(name) for name in names}

    def is_inverted(self, attack: str) -> bool:
        """Whether members score lower by more than chance, all attacks of the trial
        together.
        """
        found = oriented_attacks(self.attack_figures)
        return any(one.inverted for one in found if one.attack == attack)


@dataclass(frozen=True, kw_only=True)
class Answer:
    """Which trial to use, or that there is none: a `headline` of a few words, and
    sentences `below` it, such as its interval and its error beside the baselines'.
    `compared_with` are the ids of these baselines, the nearest first; `same_model`:
    that one has the answer's model. `is_useful`: it beats a model that learned nothing.
    """

    headline: str
    below: tuple[str, ...] = ()
    compared_with: tuple[str, ...] = ()
    same_model: bool = False
    is_useful: bool = True


@dataclass(frozen=True, kw_only=True)
class Curve:
    """A line of a trial, as (x, y)."""

    trial: str
    points: tuple[tuple[float, float], ...]


@dataclass(frozen=True, kw_only=True)
class Roc:
    """The ROC of the strongest attack on the answer and on its baseline, and the
    largest true-positive rates that the answer's guarantee `allows`, by false-positive
    rate. `allowed_auc` is the area below those, rounded up.
    """

    measured: tuple[Curve, ...] = ()
    attack: str = ""
    allows: tuple[tuple[float, float], ...] = ()
    allowed_auc: float | None = None


@dataclass(frozen=True, kw_only=True)
class Spending:
    """The epsilon that was spent on the data set by all sweeps, after each charge:
    (seconds since 1970, epsilon). `limit` is the largest that the sweep was started
    with, None without one: that of the data set in all sweeps (`of_data`), or else of
    the sweep. `delta` is that of the composition.
    """

    points: tuple[tuple[float, float], ...] = ()
    limit: float | None = None
    of_data: bool = False
    delta: float | None = None


@dataclass(frozen=True, kw_only=True)
class LabelErrors:
    """The errors of trials on the test records of one intent: `figures` has, by trial,
    the share of wrong intents and the slot F1 (None without slots).
    """

    label: str
    num_records: int
    figures: Mapping[str, tuple[float, float | None]]


@dataclass(frozen=True, kw_only=True)
class Sweep:
    """A sweep in a report. `answer` says which trial to use at `epsilon_max`; `chosen`
    is its id and `chosen_by` the metric that it was chosen by; `headline` is the main
    figure of the task. A `public` one has no figure for the curator. `card` has the
    fields of the chosen trial's privacy card, `delta` is of its epsilon, `config` and
    `space` are YAML, `helps` says what would bring the answer nearer to the baseline,
    `warnings` what makes its comparison with the baseline void.
    `axes` are the searched axes that vary, `mattered` their shares of importance in [0,
    1] in a model of the results that `explains` a share of them (R^2), `next_steps`
    advice on the next trials. `seconds` are those of all trials together, None where
    they are not published. `files` are the tables of trials and epochs as CSV.
    """

    name: str
    dataset: str
    model: str
    trials: tuple[Trial, ...]
    epsilon_max: float
    answer: Answer
    chosen: str | None = None
    chosen_by: str = ""
    headline: str = "ser"
    public: bool = False
    description: str = ""
    source: str = ""
    created: str = ""
    command: str = ""
    git_commit: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)
    space: str = ""
    config: str = ""
    card: PrivacyCard | None = None
    delta: float | None = None
    helps: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    axes: tuple[str, ...] = ()
    mattered: Mapping[str, float] = field(default_factory=dict)
    explains: float | None = None
    next_steps: tuple[str, ...] = ()
    files: Mapping[str, str] = field(default_factory=dict)
    seconds: float | None = 0.0
    curves: tuple[Curve, ...] = ()  # the headline figure on validation records by epoch
    roc: Roc = Roc()
    spending: Spending = Spending()
    labels: tuple[LabelErrors, ...] = ()

    @cached_property
    def by_id(self) -> Mapping[str, Trial]:
        """The trials by their ids."""
        return {trial.id: trial for trial in self.trials}

    @cached_property
    def measured_trials(self) -> tuple[Trial, ...]:
        """Trials that were measured, in the order of the plan."""
        return tuple(trial for trial in self.trials if trial.is_measured)

    @property
    def failed_trials(self) -> tuple[Trial, ...]:
        """Trials that ended with an error."""
        return tuple(trial for trial in self.trials if trial.status == "failed")

    @property
    def baseline(self) -> Trial | None:
        """The baseline that the answer is compared with, or without an answer the one
        of all trials; None where they have several.
        """
        sides = [self.chosen_trial] if self.chosen_trial else self.measured_trials
        named = {trial.baseline_id for trial in sides} - {None}
        return self.by_id.get(named.pop() or "") if len(named) == 1 else None

    def subset(self, trials: Sequence[Trial], most: int) -> tuple[Trial, ...]:
        """At most `most` of `trials`, in their order: the baseline, the chosen one and
        the front first, then an even share of the others.
        """
        if len(trials) <= most:
            return tuple(trials)
        first = [t for t in trials if t.is_baseline or t.id == self.chosen]
        first += [t for t in trials if t.on_front and t not in first]
        kept = {trial.id for trial in first[:most]}
        rest = [trial for trial in trials if trial.id not in kept]
        room = most - len(kept)
        kept |= {rest[place * len(rest) // room].id for place in range(room)}
        return tuple(trial for trial in trials if trial.id in kept)

    @property
    def prior(self) -> Trial | None:
        """What the model says without any private record: the first finished trial of
        its kind.
        """
        return next((trial for trial in self.measured_trials if trial.is_prior), None)

    @property
    def chosen_trial(self) -> Trial | None:
        """The trial of the choice."""
        return self.by_id.get(self.chosen or "")

    @cached_property
    def attacks(self) -> tuple[str, ...]:
        """Every attack that any trial has an AUC of; the paper's first."""
        found = {attack for trial in self.measured_trials for attack in trial.attacks}
        return tuple(sorted(found, key=lambda name: (name != "shadow", name)))
