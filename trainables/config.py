"""The configuration of a trial, frozen and fully typed. `TrialConfig.id` names its outcome.

Pure data: no torch, no disk. A section is a union over the classes of a shelf's entries, of which
the entry's name is the tag; for `privacy` and `training` that is the `engine` of the config.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, Union

from pydantic import Field, TypeAdapter, ValidationError, model_validator

from trainables import catalogue
from trainables.catalogue import NameOf
from trainables.errors import InvalidInput
from trainables.frozen import Frozen, first_problem, validated, written_fields
from trainables.sections import (
    COUNTED_BY_STEPS,
    SPLITS_WITH_COINS,
    EvaluationConfig,
    NoTraining,
    TotalNoise,
    TrainingBySteps,
)
from trainables.sections import LEAST_TARGET_EPSILON as LEAST_TARGET_EPSILON
from trainables.sections import DataConfig as DataConfig
from trainables.sections import ModelConfig as ModelConfig
from trainables.sections import NoiseDecay as NoiseDecay
from trainables.sections import PrivacyConfig as PrivacyConfig
from trainables.sections import SplitMode as SplitMode
from trainables.sections import SynthesisConfig as SynthesisConfig
from trainables.sections import TargetEpsilon as TargetEpsilon
from trainables.sections import TrainingConfig as TrainingConfig

# Of each section with entries: their shelf, and the path that names the entry.
SHELVES = {
    "data": "datasets",
    "model": "models",
    "privacy": "engines",
    "training": "engines",
    "synthesis": "generation",
}
TAGS = {
    "data": "data.name",
    "model": "model.name",
    "privacy": "engine",
    "training": "engine",
    "synthesis": "synthesis.method",
}


def classes_of(section: str, entry: str) -> tuple[type[Frozen], ...]:
    """The classes that a section may have with an entry: two for a training, by epochs or steps."""
    if section != "training":
        own: type[Frozen] = catalogue.entry(SHELVES[section], entry).Config
        return (own,)
    if catalogue.kind_of("engines", entry) == "prior":
        return (NoTraining,)
    return TrainingConfig, TrainingBySteps


def union_of(section: str, *, kind: str | None = None) -> Any:
    """The type of a section: one of the classes of its entries, of one `kind` if given."""
    names = catalogue.names(SHELVES[section], kind=kind)
    every = [each for name in names for each in classes_of(section, name)]
    return Union[tuple(dict.fromkeys(every))]  # noqa: UP007


Engine = Annotated[str, NameOf("engines")]
if TYPE_CHECKING:  # code of any entry reads these, and constants where an entry has no field
    Data = DataConfig
    Model = ModelConfig
    Privacy = PrivacyConfig
    Training = TrainingConfig
    Synthesis = SynthesisConfig
else:
    Data = Annotated[union_of("data"), Field(discriminator="name")]
    Model = Annotated[union_of("model"), Field(discriminator="name")]
    Privacy = Annotated[union_of("privacy"), Field(discriminator="engine")]
    Training = Annotated[union_of("training"), Field(discriminator="counted")]
    Synthesis = Annotated[union_of("synthesis"), Field(discriminator="method")]


class TrialConfig(Frozen):
    """One trial. Two configs with equal `id` have results of the same law."""

    task: Annotated[str, NameOf("tasks")] = Field(
        catalogue.default("tasks"), description="entry of trainables/tasks"
    )
    engine: Engine = Field(catalogue.default("engines"), description="entry of trainables/engines")
    data: Data = Field(default_factory=dict, validate_default=True)
    model: Model = Field(default_factory=dict, validate_default=True)
    privacy: Privacy = Field(default_factory=dict, validate_default=True)
    training: Training = Field(default_factory=dict, validate_default=True)
    evaluation: EvaluationConfig = EvaluationConfig()
    # None without task=synthesis, whose code alone reads it.
    synthesis: Synthesis = Field(None, exclude_if=lambda part: part is None)  # type: ignore[assignment]

    @model_validator(mode="before")
    @classmethod
    def _name_the_entries(cls, fields: Any) -> Any:
        """Each section with the name of its entry, the default one where none is named."""
        if not isinstance(fields, dict):
            return fields
        found = dict(fields)
        task = fields.get("task", catalogue.default("tasks"))
        known = catalogue.about("tasks", task) if isinstance(task, str) else None
        generates = known is not None and known.generation
        for section in SHELVES:
            part = fields.get(section, {})
            if section in ("privacy", "training"):
                found[section] = _of_engine(section, part, entry_of(section, fields))
            elif isinstance(part, dict) and (
                section != "synthesis" or section in fields or generates
            ):
                tag = TAGS[section].rpartition(".")[2]
                found[section] = {tag: catalogue.default(SHELVES[section]), **part}
        return found

    @model_validator(mode="after")
    def _entries_fit_the_task(self) -> TrialConfig:
        for section, own in (("data", self.data.name), ("model", self.model.name)):
            shelf = SHELVES[section]
            able = catalogue.names(shelf, kind=kind_for(self.task, shelf))
            if own not in able:
                raise ValueError(
                    f"expected {section}.name to be one of {', '.join(able)} with"
                    f" task={self.task}, got {own!r}"
                )
        trains = {n: catalogue.entry("engines", n).TASKS for n in catalogue.names("engines")}
        if self.task not in trains[self.engine]:
            able = tuple(name for name, tasks in trains.items() if self.task in tasks)
            raise ValueError(
                f"expected engine {' or '.join(able)} with task={self.task}, got {self.engine}"
            )
        return self

    @model_validator(mode="after")
    def _synthesis_fits(self) -> TrialConfig:
        if not self.generates:
            if "synthesis" in self.model_fields_set:
                raise ValueError("expected fields of synthesis only with task=synthesis")
            return self
        if self.privacy.unit == "group":
            raise ValueError("expected privacy.unit=record with task=synthesis, got group")
        if self.data.split == "paired":
            raise ValueError(
                "expected data.split bernoulli with task=synthesis for coins, or paper and official"
                " for the corpus' own parts, got paired"
            )
        if self.evaluation != EvaluationConfig():
            raise ValueError(
                "expected fields of evaluation only with task=nlu (`sweep audit-release` audits"
                " generated text)"
            )
        if self.privacy.noise_decay != NoiseDecay() or self.privacy.group_scale.name != "none":
            # Epochs of a stage are counted from its start, so a decay would restart in each.
            raise ValueError(
                "expected privacy.noise_decay none and privacy.group_scale none with"
                f" task=synthesis, got {self.privacy.noise_decay.kind} and"
                f" {self.privacy.group_scale.name}"
            )
        if self.training.steps is not None:
            raise ValueError(
                "expected training.epochs with task=synthesis, whose stages count epochs, got"
                f" training.steps={self.training.steps}"
            )
        first, epochs = self.synthesis.parse_epochs, self.training.epochs
        if first is not None and not 1 <= first <= epochs - 1:
            raise ValueError(
                "expected 1 <= synthesis.parse_epochs <= training.epochs - 1, so that both stages"
                f" are trained (T1, T2 >= 1), got T1={first} and T2={epochs - first}"
            )
        return self

    @model_validator(mode="after")
    def _steps_and_noise_fit(self) -> TrialConfig:
        privacy, training = self.privacy, self.training
        if training.steps is not None and privacy.sampling not in COUNTED_BY_STEPS:
            raise ValueError(
                "expected privacy.sampling poisson or full with training.steps"
                " (a shuffled epoch is spent as a whole), got"
                f" privacy.sampling={privacy.sampling} and training.steps={training.steps}"
            )
        rate, norm = training.learning_rate, training.gradient_clip_norm
        if isinstance(rate, TotalNoise) and privacy.noise_multiplier == 0:
            raise ValueError(
                "expected training.learning_rate to be a number where no noise is added, got"
                f" total_noise={rate.total_noise:g} with engine={self.engine}"
            )
        if norm is not None and catalogue.kind_of("engines", self.engine) != "plain":
            raise ValueError(
                "expected no training.gradient_clip_norm with an engine that clips by"
                f" privacy.max_grad_norm, got {norm:g} with engine={self.engine}"
            )
        return self

    @model_validator(mode="after")
    def _sizes_are_declared(self) -> TrialConfig:
        if self.data.num_records is not None:
            return self
        private = not catalogue.entry("datasets", self.data.name).PUBLIC
        if private and self.privacy.sampling == "full" and self.trains:
            raise ValueError(
                "expected data.num_records to declare n with privacy.sampling=full on private"
                " data (every step divides by n, so a counted one would be revealed), got none"
            )
        # With unit "group" the mechanism's n counts groups, which only their owner can declare.
        if self.privacy.unit == "group":
            raise ValueError(
                "expected data.num_records to declare the number of groups with"
                " privacy.unit=group, got none"
            )
        return self

    @model_validator(mode="after")
    def _attacks_exist(self) -> TrialConfig:
        for attack in self.evaluation.attacks or ():
            if attack not in catalogue.names("attacks"):
                allowed = ", ".join(catalogue.names("attacks"))
                raise ValueError(f"expected evaluation.attacks from {allowed}, got {attack!r}")
            # Each entry lists its needs; a fixed split has no coin for each record.
            coins = self.data.split in SPLITS_WITH_COINS
            if not coins and catalogue.entry("attacks", attack).NEEDS & {"coins", "references"}:
                raise ValueError(
                    f"expected data.split {' or '.join(SPLITS_WITH_COINS)} for"
                    f" evaluation.attacks={attack}, got data.split={self.data.split}"
                )
        return self

    @property
    def trains(self) -> bool:
        """Whether its engine takes steps at all."""
        return catalogue.kind_of("engines", self.engine) != "prior"

    @property
    def generates(self) -> bool:
        """Whether its task generates text and uses the section `synthesis`."""
        return bool(catalogue.about("tasks", self.task).generation)

    @property
    def id(self) -> str:
        """12 hex digits over every field that is read, and so over the result's law."""
        # The size of physical batches changes memory alone: less of it is the same, paid trial.
        fields = self.model_dump(mode="json", exclude={"training": {"physical_batch_size"}})
        canonical = json.dumps(fields, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(canonical.encode()).hexdigest()[:12]


def _of_engine(section: str, part: Any, engine: Any) -> Any:
    """A section of an engine with the tag that discriminates its union."""
    if isinstance(part, Frozen):
        part = part.model_dump(exclude_unset=True)
    if not isinstance(part, dict):
        return part
    tag, value = "engine", engine
    if section == "training":
        steps = "steps" if part.get("steps") is not None else "epochs"
        prior = isinstance(engine, str) and catalogue.kind_of("engines", engine) == "prior"
        tag, value = "counted", "nothing" if prior else steps
    if tag in part:
        raise ValueError(f"expected no {section}.{tag}, which follows from other fields")
    return {**part, tag: value}


def parse(fields: dict[str, Any]) -> TrialConfig:
    """A config from plain data.

    Raises: InvalidInput, one sentence for the first problem.
    """
    return validated(TrialConfig, fields)


def entry_of(section: str, fields: Mapping[str, Any]) -> Any:
    """The name of the entry that owns a section of a config; the entry may not exist."""
    found: Any = fields
    for part in TAGS[section].split("."):
        found = found.get(part) if isinstance(found, dict) else None
    return catalogue.default(SHELVES[section]) if found is None else found


def entry_fields(section: str, name: Any) -> tuple[str, ...] | None:
    """The fields that a section has with this entry; None where there is no such entry."""
    if name not in catalogue.names(SHELVES[section]):
        return None
    every = [field for each in classes_of(section, name) for field in written_fields(each)]
    return tuple(dict.fromkeys(every))


def kind_for(task: str, shelf: str) -> str:
    """The kind of the entries of datasets or of models that a task uses.

    >>> kind_for("nlu", "models")
    'frames'
    """
    return str(getattr(catalogue.about("tasks", task), shelf))


def data_config(**fields: Any) -> DataConfig:
    """The data part of a config alone, of any kind of corpus.

    Raises: InvalidInput, one sentence for the first thing that is wrong.
    """
    found: DataConfig = part("data", fields)
    return found


def model_part(**fields: Any) -> ModelConfig:
    """The model part of a config alone, of any kind of model.

    Raises: InvalidInput, one sentence for the first thing that is wrong.
    """
    found: ModelConfig = part("model", fields)
    return found


def part(section: str, fields: Any, *, engine: str | None = None) -> Any:
    """A section of a config alone, from its fields or another class of it; `privacy` and `training`
    are those of an engine.

    Raises: InvalidInput, one sentence for the first thing that is wrong.
    """
    if engine is not None:
        fields = _of_engine(section, fields, engine)
    tag = TAGS[section].rpartition(".")[2]
    if isinstance(fields, dict) and section != "training":
        fields = {tag: catalogue.default(SHELVES[section]), **fields}
    try:
        return _adapter(section, catalogue.names(SHELVES[section])).validate_python(fields)
    except ValidationError as error:
        raise InvalidInput(first_problem(error, union_of(section), section=section)) from None


@cache
def _adapter(section: str, names: tuple[str, ...]) -> TypeAdapter[Any]:
    tag = "counted" if section == "training" else TAGS[section].rpartition(".")[2]
    union: Any = Annotated[union_of(section), Field(discriminator=tag)]
    return TypeAdapter(union)
