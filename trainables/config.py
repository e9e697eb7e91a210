"""The configuration of a trial, frozen and fully typed. `TrialConfig.id` names its outcome.

Pure data: no torch, no disk. Its sections are in `sections`, the entries that own them in
`entries`.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

from pydantic import (
    Field,
    SerializerFunctionWrapHandler,
    ValidationInfo,
    field_validator,
    model_serializer,
    model_validator,
)

from trainables import catalogue
from trainables.documents import quote
from trainables.entries import SHELVES as SHELVES
from trainables.entries import TAGS as TAGS
from trainables.entries import Data, Model, Privacy, Synthesis, Task
from trainables.entries import Engine as Engine
from trainables.entries import data_config as data_config
from trainables.entries import engine_config as engine_config
from trainables.entries import entry_config as entry_config
from trainables.entries import entry_fields as entry_fields
from trainables.entries import entry_of as entry_of
from trainables.entries import kind_for as kind_for
from trainables.entries import kinds_of as kinds_of
from trainables.entries import model_part as model_part
from trainables.entries import synthesis_config as synthesis_config
from trainables.frozen import Frozen, validated
from trainables.sections import COUNTED_BY_STEPS
from trainables.sections import LEAST_TARGET_EPSILON as LEAST_TARGET_EPSILON
from trainables.sections import NOISE_FIELDS as NOISE_FIELDS
from trainables.sections import SPLITS_WITH_COINS as SPLITS_WITH_COINS
from trainables.sections import DataConfig as DataConfig
from trainables.sections import EvaluationConfig as EvaluationConfig
from trainables.sections import GroupScale as GroupScale
from trainables.sections import ModelConfig as ModelConfig
from trainables.sections import NeighboringRelation as NeighboringRelation
from trainables.sections import NoiseCalibration as NoiseCalibration
from trainables.sections import NoiseDecay as NoiseDecay
from trainables.sections import PrivacyConfig as PrivacyConfig
from trainables.sections import Sampling as Sampling
from trainables.sections import SplitMode as SplitMode
from trainables.sections import TargetEpsilon as TargetEpsilon
from trainables.sections import TotalNoise as TotalNoise
from trainables.sections import TrainingConfig as TrainingConfig
from trainables.synthesis_section import SynthesisConfig as SynthesisConfig


class TrialConfig(Frozen):
    """One trial. Two configs with equal `id` have results of the same law."""

    task: Task = Field(
        default_factory=lambda: catalogue.marked_entry("tasks", "DEFAULT"),
        description="entry of trainables/tasks",
    )
    engine: Engine = Field(
        default_factory=lambda: catalogue.marked_entry("engines", "DEFAULT"),
        description="entry of trainables/engines",
    )
    data: Data = Field(default_factory=dict, validate_default=True)
    model: Model = Field(default_factory=dict, validate_default=True)
    privacy: Privacy = Field(default_factory=dict, validate_default=True)
    training: TrainingConfig = Field(TrainingConfig(), validate_default=True)
    evaluation: EvaluationConfig = EvaluationConfig()
    synthesis: Synthesis = Field(default_factory=dict, validate_default=True)

    @model_validator(mode="after")
    def _synthesis_fits(self) -> TrialConfig:
        if kind_for(self.task, "generation") is None:
            if self.synthesis != synthesis_config({}):
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
        if self.privacy.noise_decay != NoiseDecay() or self.privacy.group_scale != "none":
            # Epochs of a stage are counted from its start, so a decay would restart in each.
            raise ValueError(
                "expected privacy.noise_decay none and privacy.group_scale none with"
                f" task=synthesis, got {self.privacy.noise_decay.kind} and"
                f" {self.privacy.group_scale}"
            )
        first, epochs = self.synthesis.parse_epochs, self.training.epochs
        if first is not None and not 1 <= first <= epochs - 1:
            raise ValueError(
                "expected 1 <= synthesis.parse_epochs <= training.epochs - 1, so that both stages"
                f" are trained (T1, T2 >= 1), got T1={first} and T2={epochs - first}"
            )
        return self

    @model_validator(mode="after")
    def _engine_trains_the_task(self) -> TrialConfig:
        if self.task not in catalogue.entry("engines", self.engine).TASKS:
            names = catalogue.names("engines")
            able = [n for n in names if self.task in catalogue.entry("engines", n).TASKS]
            raise ValueError(
                f"expected engine {' or '.join(able)} with task={self.task}, got {self.engine}"
            )
        return self

    @field_validator("training")
    @classmethod
    def _engine_reads_its_training(
        cls, training: TrainingConfig, info: ValidationInfo
    ) -> TrainingConfig:
        engine = info.data.get("engine")  # a problem with its name is reported alone
        read = entry_fields("training", engine)
        if read is None or read == TrainingConfig.fields():
            return training
        usual = TrainingConfig(epochs=1, **training.model_dump(include={*read}))
        for name, value in training.model_dump(include=training.model_fields_set).items():
            if value != getattr(usual, name):  # nothing reads it: one trial has one description
                raise ValueError(
                    f"expected training.{name} to be left out with engine={engine}, which takes no"
                    f" step, got {quote(value)}"
                )
        return usual

    @model_validator(mode="after")
    def _steps_are_counted(self) -> TrialConfig:
        if self.training.steps is None:
            return self
        if self.generates:
            raise ValueError(
                "expected training.epochs with task=synthesis, whose stages count epochs, got"
                f" training.steps={self.training.steps}"
            )
        if self.privacy.sampling not in COUNTED_BY_STEPS:
            raise ValueError(
                f"expected privacy.sampling {' or '.join(COUNTED_BY_STEPS)} with training.steps"
                " (a shuffled epoch is spent as a whole), got"
                f" privacy.sampling={self.privacy.sampling} and training.steps="
                f"{self.training.steps}"
            )
        return self

    @model_validator(mode="after")
    def _rate_of_noise_has_noise(self) -> TrialConfig:
        rate = self.training.learning_rate
        if isinstance(rate, TotalNoise) and (
            catalogue.kind_of("engines", self.engine) == "plain"
            or self.privacy.noise_multiplier == 0
        ):
            raise ValueError(
                "expected training.learning_rate to be a number where no noise is added, got"
                f" total_noise={rate.total_noise:g} with engine={self.engine}"
            )
        return self

    @model_validator(mode="after")
    def _clipped_once(self) -> TrialConfig:
        norm = self.training.gradient_clip_norm
        if norm is not None and catalogue.kind_of("engines", self.engine) != "plain":
            raise ValueError(
                "expected no training.gradient_clip_norm with an engine that clips by"
                f" privacy.max_grad_norm, got {norm:g} with engine={self.engine}"
            )
        return self

    @model_validator(mode="after")
    def _full_batches_are_declared(self) -> TrialConfig:
        private = not catalogue.entry("datasets", self.data.name).PUBLIC
        full = self.privacy.sampling == "full" and self.trains
        if private and full and self.data.num_records is None:
            raise ValueError(
                "expected data.num_records to declare n with privacy.sampling=full on private"
                " data (every step divides by n, so a counted one would be revealed), got none"
            )
        return self

    @model_validator(mode="after")
    def _groups_are_counted(self) -> TrialConfig:
        # With unit "group" the mechanism's n counts groups, which only their owner can declare.
        if self.privacy.unit == "group" and self.data.num_records is None:
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

    @model_serializer(mode="wrap")
    def _of_its_task(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Dump without the fields of another task, so that stored configs do not depend on defaults
        that the task never reads and that may change.
        """
        fields: dict[str, Any] = dump(self)
        if not self.generates:
            fields.pop("synthesis", None)
        return fields

    @property
    def trains(self) -> bool:
        """Whether its engine takes steps at all."""
        return catalogue.kind_of("engines", self.engine) != "prior"

    @property
    def generates(self) -> bool:
        """Whether its task generates text and uses the section `synthesis`."""
        return kind_for(self.task, "generation") is not None

    @property
    def id(self) -> str:
        """12 hex digits over every field that is read, and so over the result's law."""
        # The size of physical batches changes memory alone: less of it is the same, paid trial.
        fields = self.model_dump(mode="json", exclude={"training": {"physical_batch_size"}})
        canonical = json.dumps(fields, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(canonical.encode()).hexdigest()[:12]


def parse(fields: dict[str, Any]) -> TrialConfig:
    """A config from plain data.

    Raises: InvalidInput, one sentence for the first problem.
    """
    return validated(TrialConfig, fields)
