"""The configuration of a trial, frozen and fully typed. `TrialConfig.id` names its
outcome.

Pure data: no torch, no disk. A section is a union over the classes of a registry, of
which the component's name is the tag; for `privacy` and `training` that is the
`engine` of the config.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, Union, cast
from weakref import WeakValueDictionary

from pydantic import AfterValidator, BaseModel, Field, create_model, model_validator

from trainables import catalogue
from trainables.catalogue import NameOf
from trainables.config.sections import (
    RANDOM_SPLITS,
    EvaluationConfig,
    NoTraining,
    TotalNoise,
)
from trainables.config.sections import DataConfig as DataConfig
from trainables.config.sections import ModelConfig as ModelConfig
from trainables.config.sections import SynthesisConfig as SynthesisConfig
from trainables.config.sections import TrainingConfig as TrainingConfig
from trainables.dp.engines.configs import NoiseDecay as NoiseDecay
from trainables.dp.engines.configs import PrivacyConfig as PrivacyConfig
from trainables.dp.engines.configs import Target as Target
from trainables.dp.mechanism import COUNTED_BY_STEPS
from trainables.fields import Frozen, validated, written_fields

# Of each section with components: their registry, and the path that names one.
REGISTRIES = {
    "data": "datasets",
    "model": "models",
    "privacy": "engines",
    "training": "engines",
    "synthesis": "generation",
}
TAGS = {s: "engine" if of == "engines" else f"{s}.name" for s, of in REGISTRIES.items()}
TAGS["synthesis"] = "synthesis.method"


def class_of(section: str, entry: str) -> type[Frozen]:
    """The class of a `section` ("data", "model", "privacy", "training", "synthesis")
    with the component named `entry`: the fields that may be written there, and what the
    component can do.

    Raises: InvalidInput for an unknown name.
    """
    if section == "training":
        return (
            NoTraining
            if catalogue.kind_of("engines", entry) == "prior"
            else TrainingConfig
        )
    return cast(type[Frozen], catalogue.entry(REGISTRIES[section], entry))


def union_of(section: str, *, kind: str | None = None) -> Any:
    """The type of a section: one of the classes of its entries, of one `kind` if
    given.
    """
    names = catalogue.names(REGISTRIES[section], kind=kind)
    every = tuple(dict.fromkeys(class_of(section, name) for name in names))
    tag = "name" if section == "training" else TAGS[section].rpartition(".")[2]
    shared = AfterValidator(_share)
    return Annotated[Union[every], Field(discriminator=tag), shared]  # noqa: UP007


def _share(made: Frozen) -> Frozen:
    """Equal sections are one object: ten thousand trials of a plan differ in few of
    them.
    """
    # Their text tells 1 from 1.0 and true.
    return _shared.setdefault(
        (type(made), repr(made), frozenset(made.model_fields_set)), made
    )


_shared: WeakValueDictionary[Any, Frozen] = WeakValueDictionary()

if (
    TYPE_CHECKING
):  # code of any entry reads these, and constants where an entry has no field
    Data = DataConfig
    Model = ModelConfig
    Privacy = PrivacyConfig
    Training = TrainingConfig
    Synthesis = SynthesisConfig
else:
    Data, Model, Privacy, Training, Synthesis = map(union_of, REGISTRIES)


class TrialConfig(Frozen):
    """One trial, whole: its task, engine and sections, each of the class of the
    component that it names. Two configs with equal `id` have results of the same law,
    so a finished one is not run again. Parsing refuses what no trial could run: kinds
    that do not fit the task, undeclared sizes that would leak, fields that nothing
    reads.

    Raises: ValidationError; `parse` makes one sentence of it.
    """

    task: Annotated[str, NameOf("tasks")] = catalogue.default("tasks")
    """entry of trainables/tasks"""
    engine: Annotated[str, NameOf("engines")] = catalogue.default("engines")
    """entry of trainables/dp/engines"""
    data: Data = Field(default_factory=dict, validate_default=True)
    model: Model = Field(default_factory=dict, validate_default=True)
    privacy: Privacy = Field(default_factory=dict, validate_default=True)
    training: Training = Field(default_factory=dict, validate_default=True)
    evaluation: Annotated[EvaluationConfig, AfterValidator(_share)] = EvaluationConfig()
    # None without task=synthesis, whose code alone reads it.
    synthesis: Synthesis = Field(None, exclude_if=lambda part: part is None)  # type: ignore[assignment]

    @model_validator(mode="before")
    @classmethod
    def _name_the_entries(cls, fields: Any) -> Any:
        """Each section with the name of its entry, the default one where none is
        named.
        """
        if not isinstance(fields, dict):
            return fields
        task = catalogue.about(
            "tasks", str(fields.get("task", catalogue.default("tasks")))
        )
        generates = getattr(task, "generation", False)
        return fields | {
            section: _named(section, fields.get(section, {}), entry_of(section, fields))
            for section in REGISTRIES
            if section != "synthesis" or generates or section in fields
        }

    @model_validator(mode="after")
    def _parts_fit(self) -> TrialConfig:
        task = catalogue.about("tasks", self.task)
        for section, own in (("data", self.data.name), ("model", self.model.name)):
            able = catalogue.names(
                REGISTRIES[section], kind=getattr(task, REGISTRIES[section])
            )
            if own not in able:
                raise ValueError(
                    f"expected {section}.name to be one of {', '.join(able)} with"
                    f" task={self.task}, got {own!r}"
                )
        engines = catalogue.names("engines")
        able = tuple(
            n for n in engines if self.task in catalogue.entry("engines", n).tasks
        )
        if self.engine not in able:
            raise ValueError(
                f"expected engine {' or '.join(able)} with task={self.task}, got"
                f" {self.engine}"
            )
        data, privacy, training = self.data, self.privacy, self.training
        if training.steps is not None and privacy.sampling not in COUNTED_BY_STEPS:
            raise ValueError(
                "expected privacy.sampling poisson or full with training.steps"
                " (a shuffled epoch is spent as a whole), got"
                f" privacy.sampling={privacy.sampling} and"
                f" training.steps={training.steps}"
            )
        rate, norm = training.learning_rate, training.gradient_clip_norm
        if isinstance(rate, TotalNoise) and privacy.noise_multiplier == 0:
            raise ValueError(
                "expected training.learning_rate to be a number where no noise is"
                " added, got"
                f" total_noise={rate.total_noise:g} with engine={self.engine}"
            )
        if norm is not None and catalogue.kind_of("engines", self.engine) != "plain":
            raise ValueError(
                "expected no training.gradient_clip_norm with an engine that clips by"
                f" privacy.max_grad_norm, got {norm:g} with engine={self.engine}"
            )
        is_full = self.trains and privacy.sampling == "full"
        kind = catalogue.kind_of("optimizers", training.optimizer)
        if kind == "exact" and not (is_full and privacy.noise_multiplier == 0):
            raise ValueError(
                "expected an engine without noise and privacy.sampling=full with"
                f" training.optimizer={training.optimizer}, which needs exact gradients,"
                f" got engine={self.engine} and privacy.sampling={privacy.sampling}"
            )
        what = ""
        if privacy.unit == "group":  # which only their owner can count
            what = "the number of groups with privacy.unit=group"
        elif is_full and not data.is_public:
            what = "n with privacy.sampling=full on private data (every step would reveal a count)"
        if what and data.num_records is None:
            raise ValueError(f"expected data.num_records to declare {what}, got none")
        for attack in self.evaluation.attacks or ():
            needs = catalogue.entry("attacks", attack).NEEDS & {"coins", "references"}
            if (
                needs and data.split not in RANDOM_SPLITS
            ):  # which have one for each record
                raise ValueError(
                    f"expected data.split {' or '.join(RANDOM_SPLITS)} for"
                    f" evaluation.attacks={attack}, got data.split={data.split}"
                )
        return self

    @model_validator(mode="after")
    def _covers_what_it_can(self) -> TrialConfig:
        data = self.data
        if self.generates and data.split == "hash":
            raise ValueError(
                "expected data.split paper, official or bernoulli with task=synthesis,"
                " got hash"
            )
        if not self.covers_all:
            return self
        if self.generates:
            raise ValueError(
                "expected privacy.covers=training with task=synthesis, whose figures of"
                " generated text have no noise, got all"
            )
        if data.split != "hash":
            raise ValueError(
                "expected data.split=hash with privacy.covers=all, so that a record's"
                " part depends on that record alone, got"
                f" data.split={data.split}"
            )
        if data.max_records is not None:
            raise ValueError(
                "expected no data.max_records with privacy.covers=all (one record less"
                f" would draw others), got {data.max_records}"
            )
        if self.model.name == "module":
            raise ValueError(
                "expected a model of this product with privacy.covers=all, got module:"
                " the code of your own model could keep what it has read of a record"
            )
        if self.privacy.sampling == "shuffle":
            raise ValueError(
                "expected privacy.sampling poisson, full or random_allocation with"
                " privacy.covers=all (a shuffled record can be replaced, not added or"
                " removed, and would change two parts), got shuffle"
            )
        return self

    @model_validator(mode="after")
    def _synthesis_fits(self) -> TrialConfig:
        if not self.generates:
            if "synthesis" in self.model_fields_set:
                raise ValueError(
                    "expected fields of synthesis only with task=synthesis"
                )
            return self
        only = {
            "privacy.unit": (self.privacy.unit, "record"),
            # Epochs of a stage are counted from its start, so a decay would restart in
            # each.
            "privacy.noise_decay.kind": (self.privacy.noise_decay.kind, "none"),
            "privacy.group_scale.name": (self.privacy.group_scale.name, "none"),
            "training.steps": (self.training.steps or "none", "none"),
        }
        for field, (value, wanted) in only.items():
            if value != wanted:
                raise ValueError(
                    f"expected {field} {wanted} with task=synthesis, got {value}"
                )
        if self.data.split == "paired":
            raise ValueError(
                "expected data.split bernoulli (random membership) with task=synthesis, or paper"
                " and official for the corpus' own parts, got paired"
            )
        if self.evaluation != EvaluationConfig():
            raise ValueError(
                "expected fields of evaluation only with task=nlu (`sweep"
                " audit-release` audits generated text)"
            )
        first, epochs = self.synthesis.parse_epochs, self.training.epochs
        if first is not None and not 1 <= first <= epochs - 1:
            raise ValueError(
                "expected 1 <= synthesis.parse_epochs <= training.epochs - 1, so that"
                " both stages"
                f" are trained (T1, T2 >= 1), got T1={first} and T2={epochs - first}"
            )
        return self

    @property
    def trains(self) -> bool:
        """Whether its engine takes steps at all."""
        return catalogue.kind_of("engines", self.engine) != "prior"

    @property
    def depends_on_seed(self) -> bool:
        """Whether `training.seed` can change the result. It cannot where a model without
        random parts is trained on every record in every step, without noise.
        """
        privacy = self.privacy
        return (
            self.model.is_random
            or (privacy.sampling, privacy.unit) != ("full", "record")
            or privacy.noise_multiplier != 0
            or self.data.split in RANDOM_SPLITS
        )

    @property
    def covers_all(self) -> bool:
        """Whether its guarantee covers validation and test records, too."""
        return self.privacy.covers == "all"

    @property
    def generates(self) -> bool:
        """Whether its task generates text and uses the section `synthesis`."""
        return bool(catalogue.about("tasks", self.task).generation)

    @property
    def id(self) -> str:
        """12 hex digits over every field that is read, and so over the result's law."""
        # The size of physical batches changes memory alone: less of it is the same,
        # paid trial.
        fields = self.model_dump(
            mode="json", exclude={"training": {"physical_batch_size"}}
        )
        canonical = json.dumps(fields, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(canonical.encode()).hexdigest()[:12]


def _named(section: str, part: Any, entry: Any) -> Any:
    """A section's fields with the tag that discriminates its union."""
    if REGISTRIES[section] != "engines":
        tag = TAGS[section].rpartition(".")[2]
        return {tag: entry, **part} if isinstance(part, dict) else part
    if isinstance(part, Frozen):  # it may be another engine's
        part = part.model_dump(exclude_unset=True)
    if not isinstance(part, dict):
        return part
    tag, value = "engine", entry
    if section == "training":
        [(tag, value)] = class_of(section, str(entry)).tag().items()
    if tag in part:
        raise ValueError(
            f"expected no {section}.{tag}, which follows from other fields"
        )
    return {**part, tag: value}


def parse(fields: dict[str, Any]) -> TrialConfig:
    """The config of plain data, as a space, a saved trial or a command line has it;
    fields that are left out have their defaults, and equal sections of several configs
    are one object.

    Raises: InvalidInput, one sentence for the first problem, with the nearest name for
        an unknown one.
    """
    return validated(TrialConfig.model_validate, fields)


def entry_of(section: str, fields: Mapping[str, Any]) -> Any:
    """The name of the component that owns a `section` of a config's plain `fields`, or
    the default one where none is named. It need not exist, and may be no text: the
    caller refuses it in its own words.
    """
    found: Any = fields
    for part in TAGS[section].split("."):
        found = found.get(part) if isinstance(found, dict) else None
    return catalogue.default(REGISTRIES[section]) if found is None else found


def entry_fields(section: str, name: Any) -> tuple[str, ...] | None:
    """The names of the fields that a `section` has with the component `name`, as they
    are written and in their order; None where there is no such component. Used to sort
    a space's axes by the trials that read them.
    """
    if name not in catalogue.names(REGISTRIES[section]):
        return None
    return written_fields(class_of(section, name))


def is_field(section: str, name: str) -> bool:
    """Whether any component that can own the `section` has a field of this `name`, as
    it is written. It tells a typo from a field that belongs to another component, which
    a space may set for some of its trials alone.
    """
    every = catalogue.names(REGISTRIES[section])
    return any(name in written_fields(class_of(section, each)) for each in every)


def data_config(**fields: Any) -> DataConfig:
    """The section `data` alone from its fields, `name` among them, as a config of a
    trial would have it: a data set that can be read without a trial.

    Raises: InvalidInput for the first thing that is wrong.
    """
    return cast(DataConfig, part("data", fields))


def model_part(**fields: Any) -> ModelConfig:
    """The section `model` alone from its fields, `name` among them, as a config of a
    trial would have it: a model that can be built without a trial.

    Raises: InvalidInput for the first thing that is wrong.
    """
    return cast(ModelConfig, part("model", fields))


def part(section: str, fields: Any, *, engine: str | None = None) -> Any:
    """A section of a config alone, from its fields or another class of it; `privacy`
    and `training` are those of an engine. Raises: InvalidInput, one sentence for the
    first thing that is wrong.
    """
    named = _named(section, fields, engine or catalogue.default(REGISTRIES[section]))
    alone = _alone(section, catalogue.names(REGISTRIES[section]))
    return getattr(validated(alone.model_validate, {section: named}), section)


@cache
def _alone(section: str, names: tuple[str, ...]) -> type[BaseModel]:
    fields: Any = {section: (union_of(section), ...)}
    return cast(type[BaseModel], create_model("Alone", **fields))
