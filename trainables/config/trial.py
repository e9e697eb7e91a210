"""The configuration of a trial, frozen and fully typed. `TrialConfig.id` names its
outcome.

Pure data: no torch, no disk. A section is a union over the classes of a shelf's
entries, of which the entry's name is the tag; for `privacy` and `training` that is the
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
from trainables.config.fields import Frozen, validated, written_fields
from trainables.config.sections import (
    SPLITS_WITH_COINS,
    EvaluationConfig,
    NoTraining,
    TotalNoise,
)
from trainables.config.sections import DataConfig as DataConfig
from trainables.config.sections import ModelConfig as ModelConfig
from trainables.config.sections import NoiseDecay as NoiseDecay
from trainables.config.sections import PrivacyConfig as PrivacyConfig
from trainables.config.sections import SynthesisConfig as SynthesisConfig
from trainables.config.sections import Target as Target
from trainables.config.sections import TrainingConfig as TrainingConfig
from trainables.dp.mechanism import COUNTED_BY_STEPS

# Of each section with entries: their shelf, and the path that names the entry.
SHELVES = {
    "data": "datasets",
    "model": "models",
    "privacy": "engines",
    "training": "engines",
    "synthesis": "generation",
}
TAGS = {s: "engine" if of == "engines" else f"{s}.name" for s, of in SHELVES.items()}
TAGS["synthesis"] = "synthesis.method"


def class_of(section: str, entry: str) -> type[Frozen]:
    """The class of a section with an entry."""
    if section == "training":
        return (
            NoTraining
            if catalogue.kind_of("engines", entry) == "prior"
            else TrainingConfig
        )
    return cast(type[Frozen], catalogue.entry(SHELVES[section], entry).Config)


def union_of(section: str, *, kind: str | None = None) -> Any:
    """The type of a section: one of the classes of its entries, of one `kind` if
    given.
    """
    names = catalogue.names(SHELVES[section], kind=kind)
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
    Data, Model, Privacy, Training, Synthesis = map(union_of, SHELVES)


class TrialConfig(Frozen):
    """One trial. Two configs with equal `id` have results of the same law."""

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
            for section in SHELVES
            if section != "synthesis" or generates or section in fields
        }

    @model_validator(mode="after")
    def _parts_fit(self) -> TrialConfig:
        task = catalogue.about("tasks", self.task)
        for section, own in (("data", self.data.name), ("model", self.model.name)):
            able = catalogue.names(
                SHELVES[section], kind=getattr(task, SHELVES[section])
            )
            if own not in able:
                raise ValueError(
                    f"expected {section}.name to be one of {', '.join(able)} with"
                    f" task={self.task}, got {own!r}"
                )
        engines = catalogue.names("engines")
        able = tuple(
            n for n in engines if self.task in catalogue.entry("engines", n).TASKS
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
        what = ""
        if privacy.unit == "group":  # which only their owner can count
            what = "the number of groups with privacy.unit=group"
        elif is_full and not catalogue.entry("datasets", data.name).PUBLIC:
            what = "n with privacy.sampling=full on private data (every step would reveal a count)"
        if what and data.num_records is None:
            raise ValueError(f"expected data.num_records to declare {what}, got none")
        for attack in self.evaluation.attacks or ():
            needs = catalogue.entry("attacks", attack).NEEDS & {"coins", "references"}
            if (
                needs and data.split not in SPLITS_WITH_COINS
            ):  # which have one for each record
                raise ValueError(
                    f"expected data.split {' or '.join(SPLITS_WITH_COINS)} for"
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
                "expected data.split bernoulli with task=synthesis for coins, or paper"
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
    if SHELVES[section] != "engines":
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
    """A config from plain data. Raises: InvalidInput, one sentence for the first
    problem.
    """
    return validated(TrialConfig.model_validate, fields)


def entry_of(section: str, fields: Mapping[str, Any]) -> Any:
    """The name of the entry that owns a section of a config; the entry may not
    exist.
    """
    found: Any = fields
    for part in TAGS[section].split("."):
        found = found.get(part) if isinstance(found, dict) else None
    return catalogue.default(SHELVES[section]) if found is None else found


def entry_fields(section: str, name: Any) -> tuple[str, ...] | None:
    """The fields that a section has with this entry; None where there is no such
    entry.
    """
    if name not in catalogue.names(SHELVES[section]):
        return None
    return written_fields(class_of(section, name))


def is_field(section: str, name: str) -> bool:
    """Whether any entry that can own the section has this field."""
    every = catalogue.names(SHELVES[section])
    return any(name in written_fields(class_of(section, each)) for each in every)


def data_config(**fields: Any) -> DataConfig:
    """The section `data` alone, as `part`."""
    return cast(DataConfig, part("data", fields))


def model_part(**fields: Any) -> ModelConfig:
    """The section `model` alone, as `part`."""
    return cast(ModelConfig, part("model", fields))


def part(section: str, fields: Any, *, engine: str | None = None) -> Any:
    """A section of a config alone, from its fields or another class of it; `privacy`
    and `training` are those of an engine. Raises: InvalidInput, one sentence for the
    first thing that is wrong.
    """
    named = _named(section, fields, engine or catalogue.default(SHELVES[section]))
    alone = _alone(section, catalogue.names(SHELVES[section]))
    return getattr(validated(alone.model_validate, {section: named}), section)


@cache
def _alone(section: str, names: tuple[str, ...]) -> type[BaseModel]:
    fields: Any = {section: (union_of(section), ...)}
    return cast(type[BaseModel], create_model("Alone", **fields))
