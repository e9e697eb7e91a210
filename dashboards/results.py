"""The input of a report: plain frozen data about a finished sweep. Pure."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from trainables import catalogue
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


@dataclass(frozen=True, kw_only=True)
class Trial:
    """`epsilon` is a guarantee of the code that ran, `epsilon_paper` the paper's
    formula and none; infinity without a guarantee, None where unknown;
    `compared_epsilon` is the one that a choice goes by, its target where it was
    calibrated. `claimed` is the epsilon that a certified bound in `metrics` is about.
    `data` is equal for trials of the same data. `values` are those of the searched axes
    that this trial has. `baseline_id` is the trial that it is compared with, and
    `time_factor` its seconds of an epoch over that one's.
    """

    id: str
    name: str
    engine: str
    decay: str
    status: str
    baseline: bool
    epochs_done: int
    seconds: float | None
    epsilon: float | None = None
    compared_epsilon: float | None = None
    epsilon_paper: float | None = None
    metrics: Mapping[str, float | None] = field(default_factory=dict)
    reason: str = ""
    on_front: bool = False
    claimed: float | None = None
    data: str = ""
    baseline_id: str | None = None
    time_factor: float | None = None
    values: Mapping[str, float | str] = field(default_factory=dict)

    @property
    def is_measured(self) -> bool:
        """Whether it has ended and was measured."""
        return self.status in ("done", "stopped")

    @property
    def is_prior(self) -> bool:
        """Whether it read no private record."""
        return catalogue.kind_of("engines", self.engine) == "prior"

    def figure(self, name: str) -> Estimate | None:
        """A metric with its interval, None where the trial lacks it or it is not a
        number.
        """
        value = self.metrics.get(name)
        if value is None or math.isnan(value):
            return None
        low, high = self.metrics.get(f"{name}_low"), self.metrics.get(f"{name}_high")
        return Estimate(value=value, low=low, high=high)

    def is_inverted(self, attack: str) -> bool:
        """Whether members score lower by more than chance, all attacks of the trial
        together.
        """
        return any(
            one.inverted
            for one in oriented_attacks(self.metrics)
            if one.attack == attack
        )

    @property
    def attacks(self) -> tuple[str, ...]:
        """Attacks that this trial has an AUC of, sorted."""
        known = catalogue.names("attacks")
        return tuple(
            name for name in known if self.metrics.get(auc_of(name)) is not None
        )


@dataclass(frozen=True, kw_only=True)
class Sweep:
    """A sweep in a report. `answer` says which trial to use at `epsilon_max` and what
    it costs, or that there is none; `chosen` is its id and `chosen_by` the metric that
    it was chosen by. A `public` one has no figure for the curator. `card` has the
    fields of the chosen trial's privacy card, `delta` is of its epsilon, `config` and
    `space` are YAML, `helps` says what would bring the answer nearer to the baseline,
    `warnings` what makes its comparison with the baseline void.
    `axes` are the searched axes that vary, `mattered` their shares of importance in [0,
    1] in a model of the results that `explains` a share of them (R^2), `next_steps`
    advice on the next trials. `files` are the tables of trials and epochs as CSV.
    """

    name: str
    dataset: str
    model: str
    trials: tuple[Trial, ...]
    epsilon_max: float
    answer: tuple[str, ...]
    chosen: str | None = None
    chosen_by: str = ""
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

    @cached_property
    def measured_trials(self) -> tuple[Trial, ...]:
        """Trials that were measured, in the order of the plan."""
        return tuple(trial for trial in self.trials if trial.is_measured)

    @cached_property
    def baselines(self) -> tuple[Trial, ...]:
        """The finished baselines that read private records; the others are epsilon
        0.
        """
        return tuple(t for t in self.measured_trials if t.baseline and not t.is_prior)

    @property
    def baseline(self) -> Trial | None:
        """The first finished baseline; None where baselines are on several data sets,
        because the error of one says nothing about trials on another.
        """
        is_one = len({trial.data for trial in self.baselines}) == 1
        return self.baselines[0] if is_one else None

    def subset(self, trials: Sequence[Trial], most: int) -> tuple[Trial, ...]:
        """At most `most` of `trials`, in their order: the baseline, the chosen one and
        the front first, then an even share of the others.
        """
        if len(trials) <= most:
            return tuple(trials)
        first = [t for t in trials if t.baseline or t.id == self.chosen]
        first += [t for t in trials if t.on_front and t not in first]
        kept = {trial.id for trial in first[:most]}
        rest = [trial for trial in trials if trial.id not in kept]
        room = most - len(kept)
        kept |= (
            {rest[place * len(rest) // room].id for place in range(room)}
            if room
            else set()
        )
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
        return next((t for t in self.trials if t.id == self.chosen), None)

    @cached_property
    def attacks(self) -> tuple[str, ...]:
        """Every attack that any trial has an AUC of; the paper's first."""
        found = {attack for trial in self.measured_trials for attack in trial.attacks}
        return tuple(sorted(found, key=lambda name: (name != "shadow", name)))
