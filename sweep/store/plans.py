"""The planned trials of a sweep. Plain data."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, Any, Literal

from pydantic import Field, PlainSerializer, PlainValidator, TypeAdapter

from search_spaces.paths import setting
from trainables import catalogue
from trainables.config import objectives
from trainables.config.mechanism import claims_privacy
from trainables.config.trial import TrialConfig, parse
from trainables.dp.accounting.summary import plain
from trainables.errors import InvalidData
from trainables.figures import is_covered, is_public

RefusedBy = Literal["config", "constraint", "mechanism", "budget"]
CORPUS = ("name", "path")  # fields of `data` that say which corpus it is
# Figures that follow from the number of training records, as on a card
# (`trainables.cards`).
_OF_A_COUNT = {
    "delta",
    "sample_rate",
    "steps",
    "epsilon_paper",
    "epsilon_rdp",
    "epsilon_replace_one",
    "utterances_per_second",  # times the seconds of an epoch it is the number
}


def _fields_of(origin: TrialConfig | dict[str, Any]) -> dict[str, Any]:
    return origin.model_dump(mode="json") if isinstance(origin, TrialConfig) else origin


@dataclass(frozen=True, kw_only=True)
class PlannedTrial:
    """One trial of a plan: its point of the space, its config, and what pricing found.

    `origin` is the config, or its fields: those of a point that makes no config, or as
    the log has them. `id` is that of the config; of a draw, of which one config has
    several, it ends with it. `reason` says why the trial is refused; None: it will run.
    `epsilon` is the sound figure (`accountant` names whose), `epsilon_budget` the one a
    budget goes by; of all epochs.
    """

    id: str
    variant: str
    baseline: bool
    values: dict[str, Any]
    origin: Annotated[
        TrialConfig | dict[str, Any],
        PlainValidator(TypeAdapter(dict).validate_python),  # parsed where it is used
        Field(alias="config"),
        PlainSerializer(_fields_of),
    ] = field(compare=False)
    steps: int | None = None
    num_records: int | None = None
    noise_multiplier: float | None = None
    delta: float | None = None
    epsilon: float | None = None
    epsilon_paper: float | None = None
    epsilon_budget: float | None = None
    accountant: str | None = None
    warnings: tuple[str, ...] = ()
    reason: str | None = None
    refused_by: RefusedBy | None = None

    @property
    def runs(self) -> bool:
        """Whether the trial is not refused."""
        return self.reason is None

    @property
    def is_exempt(self) -> bool:
        """Whether no budget of epsilon holds for the trial: a baseline for the curator,
        which adds no noise. One of a private engine pays, and so does one whose figures
        have noise.
        """
        pays = claims_privacy(self.engine) or self.covers_all
        return self.baseline and not pays

    @property
    def is_config(self) -> bool:
        """Whether the fields make a valid config."""
        return self.refused_by != "config"

    @cached_property
    def fields(self) -> dict[str, Any]:
        """The config as plain data."""
        return _fields_of(self.origin)

    @cached_property
    def config(self) -> TrialConfig:
        """The trial's config.

        Raises: InvalidInput where the fields make none (not `is_config`); InvalidData
            where they make another than was planned, whose split and noise would
            differ.
        """
        if isinstance(self.origin, TrialConfig):
            return self.origin
        found = parse(self.fields)
        # A shorter one was given by hand and names no config.
        if len(self.id) >= len(found.id) and not self.id.endswith(found.id):
            raise InvalidData(
                f"expected the config of trial {self.id} as it was planned, got one of"
                f" id {found.id}: its plan was edited or made by another version"
            )
        return found

    @cached_property
    def name(self) -> str:
        """The variant and the values of the axes, for people."""
        return ", ".join(
            (self.variant, *(setting(p, v) for p, v in self.values.items()))
        )

    @cached_property
    def group(self) -> str:
        """Equal for trials that differ by their seed alone."""
        return group_of(self.fields)

    @cached_property
    def task(self) -> str:
        """The task of the trial, where its fields name it."""
        return str(self.fields.get("task", objectives.default_task()))

    @property
    def engine(self) -> str:
        """The engine of the trial, where its fields name it."""
        return str(self.fields.get("engine", catalogue.default("engines")))

    @property
    def seed(self) -> int:
        """The seed of the training; 0 where its engine takes no step."""
        return int(self.fields.get("training", {}).get("seed", 0))

    @property
    def epochs(self) -> int:
        """The number of epochs, or of pieces of a trial that is counted in steps."""
        return self.config.training.epochs if self.is_config else 0

    @cached_property
    def corpus(self) -> str:
        """The name of the trial's corpus, with its path where the space has one."""
        data = self.fields.get("data", {})
        return " ".join(str(data[key]) for key in CORPUS if data.get(key) is not None)

    def reveals_count(self, figure: str) -> bool:
        """Whether a figure reveals a number of private training records that is not
        declared.
        """
        alone = (
            figure.removeprefix("best_").removeprefix("log10_").removesuffix("_spent")
        )
        if alone not in _OF_A_COUNT or not self.is_config:
            return False
        data = self.config.data
        return data.num_records is None and not data.is_public

    def may_publish(self, figure: str) -> bool:
        """Whether a figure is registered as public, reveals no such number, and is one
        that the guarantee covers, where that is about every record.
        """
        if self.covers_all and not is_covered(figure):
            return False
        return is_public(figure) and not self.reveals_count(figure)

    @property
    def covers_all(self) -> bool:
        """Whether its guarantee covers validation and test records, too."""
        return bool(self.fields.get("privacy", {}).get("covers") == "all")

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON with the config's fields; infinity is the string
        "inf".
        """
        return {
            "id": self.id,
            "name": self.name,
            **plain(_TRIAL.dump_python(self, by_alias=True)),
        }


@dataclass(frozen=True, kw_only=True)
class Plan:
    """All trials of a sweep in order; `merged` counts points that were equal to an
    earlier one. An adaptive search adds its trials while it runs: `to_choose`
    configurations in all, each with `workers` processes, so that one group of processes
    serves them. `probes` are random points of its space that are planned and not run;
    no log has them. `filter_delta` is the smallest delta of a point, for the filter of
    a sweep that depends on results under a total.
    """

    name: str
    trials: tuple[PlannedTrial, ...]
    merged: int = 0
    to_choose: int = 0
    workers: int = 1
    filter_delta: float | None = None
    probes: Annotated[tuple[PlannedTrial, ...], Field(exclude=True)] = ()

    @property
    def to_run(self) -> tuple[PlannedTrial, ...]:
        """The trials that are not refused."""
        return tuple(trial for trial in self.trials if trial.runs)

    @property
    def refused(self) -> tuple[PlannedTrial, ...]:
        """The trials that are refused."""
        return tuple(trial for trial in self.trials if not trial.runs)

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON with counts for people; infinity is the string "inf"."""
        return {
            "name": self.name,
            "merged": self.merged,
            "num_trials": len(self.trials),
            "num_refused": len(self.refused),
            "to_choose": self.to_choose,
            "workers": self.workers,
            "filter_delta": self.filter_delta,
            "trials": [trial.to_dict() for trial in self.trials],
        }


_TRIAL = TypeAdapter(PlannedTrial)


def group_of(config: Mapping[str, Any]) -> str:
    """A name shared by configs that differ by `training.seed` alone: 12 hexadecimal
    digits. `config` is a trial's config as plain data.
    """
    training = {**config.get("training", {}), "seed": 0}
    canonical = json.dumps({**config, "training": training}, sort_keys=True)
    return hashlib.sha256(canonical.encode()).hexdigest()[:12]


def flat(fields: Mapping[str, Any], prefix: str = "") -> dict[str, object]:
    """Nested fields by dotted names, in their order; a list is a value. `prefix` goes
    before every name.

    >>> flat({"a": {"b": 1, "c": None}, "d": [1, 2]})
    {'a.b': 1, 'a.c': None, 'd': [1, 2]}
    """
    found: dict[str, object] = {}
    for key, value in fields.items():
        is_nested = isinstance(value, dict)
        found |= (
            flat(value, f"{prefix}{key}.") if is_nested else {f"{prefix}{key}": value}
        )
    return found


def noise_at(plan: PlannedTrial, epochs_done: int) -> dict[str, float]:
    """The noise multiplier of the epoch that ended as number `epochs_done`, from 1, as
    a metric of that epoch: `noise_multiplier` at epoch 0 times the decay. Empty for a
    trial without noise.
    """
    if not claims_privacy(plan.engine) or plan.noise_multiplier is None:
        return {}
    decay = plan.config.privacy.noise_decay
    factor = catalogue.entry("schedules", decay.kind).factor
    noise = plan.noise_multiplier * float(factor(epochs_done - 1, tau=decay.tau))
    return {"noise_multiplier": noise}
