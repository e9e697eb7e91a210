"""What a trial is: one frozen, fully typed configuration. `TrialConfig.id` names its outcome.

Pure data: no torch, no disk. Field names are the glossary's; the paper's letter stands in each
description (Dupuy et al. 2021, "P1").
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    PrivateAttr,
    SerializeAsAny,
    SerializerFunctionWrapHandler,
    ValidationError,
    ValidationInfo,
    model_serializer,
    model_validator,
)

from trainables import catalogue
from trainables.errors import InvalidInput
from trainables.frozen import Frozen, PositiveFloat, first_problem

Sampling = Literal["shuffle", "poisson", "random_allocation", "full"]
NoiseCalibration = Literal["paper", "central"]
GroupScale = Literal["none", "public", "first_step_noised", "first_step"]
NeighboringRelation = Literal["add_or_remove_one", "replace_one"]
SplitMode = Literal["paper", "official", "bernoulli", "paired"]
# Which entries of a shelf a task can use: those with this module constant `KIND`.
KINDS = {
    ("nlu", "datasets"): "frames",
    ("nlu", "models"): "frames",
    ("synthesis", "datasets"): "pairs",
    ("synthesis", "models"): "text",
}
# Fields of training that were added later: no part of an id where they are at their default.
_LATER = ("precision", "optimizer", "learning_rate_decay", "steps_per_epoch")
# Where the entries that own a section stand.
SHELVES = {"data": "datasets", "model": "models", "privacy": "engines"}
# The path that names a section's entry.
TAGS = {"data": "data.name", "model": "model.name", "privacy": "engine"}
SPLITS_WITH_COINS: tuple[SplitMode, ...] = ("bernoulli", "paired")  # one for each record or pair


class DataConfig(Frozen):
    """Which records a trial trains, validates and tests on. An entry of datasets adds its own."""

    section = "data"
    name: str = Field(description="entry of trainables/datasets")
    split: SplitMode = Field("paper", description="paper = 45:5:50 over the pooled files (P1 4.1)")
    split_seed: int = Field(0, ge=0)
    max_records: int | None = Field(
        None, ge=20, description="use only this many records of the pool, drawn by split_seed"
    )
    num_records: int | None = Field(
        None,
        ge=1,
        description="declared, public size n of the training part (its groups, with"
        " privacy.unit=group); private data without it: an unaccounted release",
    )


class ModelConfig(Frozen):
    """Which model. An entry of models adds what it is made of."""

    section = "model"
    name: str = Field(description="entry of trainables/models")


class NoiseDecay(Frozen):
    """d(t), the factor on the noise multiplier at epoch t."""

    kind: str = Field("none", description="entry of trainables/schedules")
    tau: float = Field(0.0, ge=0, description="decay rate per epoch")

    @model_validator(mode="after")
    def _known(self) -> NoiseDecay:
        if self.kind not in catalogue.names("schedules"):
            allowed = ", ".join(catalogue.names("schedules"))
            raise ValueError(f"expected kind to be one of {allowed}, got {self.kind!r}")
        if self.kind == "none" and self.tau != 0:
            raise ValueError(f"expected tau=0 with kind=none, got tau={self.tau}")
        return self


class TargetEpsilon(Frozen):
    """In place of a noise multiplier: the smallest z0 whose epsilon is at most this."""

    target_epsilon: PositiveFloat


class PrivacyConfig(Frozen):
    """The mechanism, in the words of privacy accounting. None means: the engine's default.

    An entry of engines has the defaults, and says which fields it lacks.
    """

    section = "privacy"
    engine: ClassVar[str] = ""
    max_grad_norm: PositiveFloat = Field(1.0, description="clip norm C")
    noise_multiplier: float | TargetEpsilon = Field(1.0, description="z0, at epoch 0")
    noise_decay: NoiseDecay = NoiseDecay()
    group_scale: GroupScale = Field("none", description="where alpha_k comes from")
    max_group_scale: float = Field(1.0, gt=0, le=1, description="public bound on max alpha_k")
    noise_calibration: NoiseCalibration | None = None
    sampling: Sampling | None = Field(
        None, description="full: every record in every step; training.expected_batch_size is n then"
    )
    neighboring_relation: NeighboringRelation | None = None
    microbatch_size: int | None = Field(
        None,
        ge=1,
        description="records whose mean gradient is clipped as one; default: the engine's, 1 or a"
        " worker's whole batch",
    )
    delta: float | None = Field(
        None, gt=0, lt=1, description="default: 1e-5, or 1 / (10 n) where that is smaller"
    )
    unit: Literal["record", "group"] = Field("record", description="what one neighbour adds")
    max_records_per_group: int = Field(1, ge=1, description="bound on a group's contribution")
    secure_noise: bool = Field(False, description="draw noise from AES-256-CTR")
    reproducible_noise: bool = Field(
        False, description="for tests: noise from the public seed, so epsilon is infinite"
    )
    accountant: str | None = Field(
        None, description="entry of trainables/accountants; default: the tightest sound one"
    )

    @classmethod
    def title(cls) -> str:
        """The engine that the fields belong to."""
        return f"engine {cls.engine}" if cls.engine else ""

    def unread(self) -> frozenset[str]:
        """Bounds on what is not there: groups of records, alpha_k from public records."""
        found = {"max_records_per_group"} if self.unit == "record" else set()
        return frozenset(found | ({"max_group_scale"} if self.group_scale != "public" else set()))

    @model_validator(mode="before")
    @classmethod
    def _none_is_the_default(cls, fields: Any) -> Any:
        if not isinstance(fields, dict):
            return fields
        return {name: value for name, value in fields.items() if value is not None}

    @model_validator(mode="after")
    def _ranges(self) -> PrivacyConfig:
        z = self.noise_multiplier
        if not isinstance(z, TargetEpsilon) and z < 0:
            raise ValueError(f"expected noise_multiplier >= 0, got {z}")
        return self


class TrainingConfig(Frozen):
    """The optimiser's side of a trial."""

    epochs: int = Field(30, ge=1, description="E")
    expected_batch_size: int = Field(64, ge=1, description="B, over all workers together")
    physical_batch_size: int | None = Field(
        None, ge=1, description="records a worker holds at once; bounds memory, not the result"
    )
    num_workers: int = Field(1, ge=1, description="N of Algorithm 1; logical where fewer run")
    learning_rate: PositiveFloat = 1e-3
    optimizer: str = Field("adam", description="entry of trainables/optimizers")
    learning_rate_decay: str = Field(
        "constant", description="entry of trainables/learning_rates: its course over the trial"
    )
    steps_per_epoch: int = Field(
        1, ge=1, description="with sampling=full: steps between validations, saved and paid for"
    )
    precision: Literal["fp32", "bf16"] = Field(
        "fp32",
        description="of products in training passes; norms, clipped sums, noise, weights and Adam"
        " are fp32 with both",
    )
    seed: int = Field(0, ge=0, description="initialisation and dropout; never noise")

    @model_validator(mode="after")
    def _known(self) -> TrainingConfig:
        for field, shelf in (
            ("optimizer", "optimizers"),
            ("learning_rate_decay", "learning_rates"),
        ):
            allowed = catalogue.names(shelf)
            if getattr(self, field) not in allowed:
                raise ValueError(
                    f"expected {field} to be one of {', '.join(allowed)},"
                    f" got {getattr(self, field)!r}"
                )
        return self


class EvaluationConfig(Frozen):
    """What is measured after training."""

    attacks: tuple[str, ...] | None = Field(
        None, description="entries of attacks; default: all that the split allows"
    )
    shadow_corpus: str | None = Field(
        None, description="entry of datasets; default: a public corpus that is not the target"
    )
    ser_align: Literal["name", "edit"] = "name"
    ser_match: Literal["span", "value"] = "span"
    bootstrap_samples: int = Field(1_000, ge=0)


class SynthesisConfig(Frozen):
    """How utterances are generated, with task=synthesis (Mireshghallah et al. 2022, "P2")."""

    method: str = Field("one_stage", description="entry of trainables/generation")
    parse_epochs: int | None = Field(
        None, description="T1, epochs of the parse model (two_stage); T2 is training.epochs - T1"
    )
    only: Literal["parses", "utterances"] | None = Field(
        None,
        description="two_stage: train this stage alone, for training.epochs; another trial trains"
        " the other one beside it",
    )
    other_epochs: int | None = Field(
        None, ge=1, description="with only: the other stage's epochs, which the noise pays for too"
    )
    prompt: Literal["domain", "function_types"] = Field(
        "domain", description="one_and_a_half_stage: what an utterance is generated from"
    )
    histogram: Literal["dp", "public", "true"] = Field(
        "dp",
        description="one_and_a_half_stage: where the prompts' frequencies come from; true: the"
        " private records without noise (P2's way, no finite epsilon)",
    )
    histogram_noise_multiplier: PositiveFloat = Field(
        20.0, description="std of the noise on the counts of the dp histogram"
    )
    parses: Literal["parser", "gold"] = Field(
        "parser",
        description="private programs: by a parser trained on the public part, or the corpus' own",
    )
    parser_epochs: int = Field(
        64, ge=1, description="of the low-resource parser: few pairs want many epochs"
    )
    measuring_parser_epochs: int = Field(
        8,
        ge=0,
        description="of the parser that measures generated text, trained on held-out human text;"
        " 0: no figures of functions",
    )
    public_fraction: float = Field(
        0.1, gt=0, lt=1, description="share of the training part that is declared public"
    )
    remove_function: str | None = Field(
        None, description="function that the public part must not use (Name, or Name* for a prefix)"
    )
    only_function: str | None = Field(
        None, description="keep private records that use it alone (few modes)"
    )
    shuffle_pairs: bool = Field(
        False, description="exchange the programs of couples of records; a couple is then the unit"
    )
    vocabulary_size: int = Field(2_048, ge=300, description="of the public BPE")
    max_tokens: int = Field(128, ge=16, description="of a record, prompt included")
    pretrain_epochs: int = Field(3, ge=0, description="over public text, before any private record")
    pretrain_learning_rate: PositiveFloat = 1e-3
    lora_rank: int | None = Field(None, ge=1, description="train adapters of this rank alone")
    lora_alpha: PositiveFloat = 32.0
    num_generated: int = Field(2_000, ge=1, description="utterances made and measured")
    num_beams: int = Field(5, ge=1, description="width for utterances behind a prompt; else 1")
    top_k: int = Field(50, ge=1, description="of the scores that a token is drawn from")
    temperature: PositiveFloat = 1.0

    @model_validator(mode="after")
    def _known(self) -> SynthesisConfig:
        methods = catalogue.names("generation", kind="method")
        if self.method not in methods:
            raise ValueError(f"expected method to be one of {', '.join(methods)}")
        if self.method != "two_stage":
            for name in ("parse_epochs", "only", "other_epochs"):
                if getattr(self, name) is not None:
                    raise ValueError(f"expected {name} with method=two_stage alone")
            if self.shuffle_pairs:
                raise ValueError("expected shuffle_pairs with method=two_stage alone")
        elif self.only is not None:
            if self.parse_epochs is not None or self.other_epochs is None:
                raise ValueError(
                    "expected with only the epochs of the other stage in other_epochs, and no"
                    " parse_epochs"
                )
        elif self.parse_epochs is None:
            raise ValueError("expected parse_epochs (T1) with method=two_stage, got none")
        return self


# Fields of `privacy` that only a mechanism with noise has.
NOISE_FIELDS = frozenset(PrivacyConfig.model_fields) - {
    *("sampling", "delta", "unit", "max_records_per_group", "reproducible_noise")
}


def default_entry(section: str) -> str:
    """The entry of a section where none is named."""
    return catalogue.marked(SHELVES[section], "DEFAULT")


def entry_of(section: str, fields: Mapping[str, Any]) -> Any:
    """The entry that owns a section of a config, as it is named there; it may not exist."""
    found: Any = fields
    for part in TAGS[section].split("."):
        found = found.get(part) if isinstance(found, dict) else None
    return default_entry(section) if found is None else found


def entry_config(section: str, fields: dict[str, Any], *, kind: str | None = None) -> Any:
    """The part of a config that an entry owns, of the class of the entry that `name` names.

    Raises: ValueError for a name that the shelf lacks; ValidationError, one of its kinds, for
        fields that the entry does not have or values that they cannot have.
    """
    shelf = SHELVES[section]
    name = fields.get("name", default_entry(section))
    entries = _entries(shelf) if kind is None else catalogue.names(shelf, kind=kind)
    if name not in entries:
        raise ValueError(f"expected {section}.name to be one of {', '.join(entries)}, got {name!r}")
    return catalogue.entry(shelf, name).Config.model_validate(fields)


def entry_fields(section: str, name: Any) -> tuple[str, ...] | None:
    """The fields that a section has with this entry; None where there is no such entry."""
    shelf = SHELVES[section]
    if name not in _entries(shelf):
        return None
    own: type[Frozen] = catalogue.entry(shelf, name).Config
    return own.fields()


def _entries(shelf: str) -> tuple[str, ...]:
    """Those that some task can use."""
    kinds = {kind for (_, of), kind in KINDS.items() if of == shelf}
    if not kinds:
        return catalogue.names(shelf)
    return tuple(name for name in catalogue.names(shelf) if catalogue.kind_of(shelf, name) in kinds)


def _of_entry(section: str) -> BeforeValidator:
    shelf = SHELVES[section]

    def read(fields: Any, info: ValidationInfo) -> Any:
        task = info.data.get("task", "nlu")
        kind = KINDS[task, shelf]
        if isinstance(fields, DataConfig | ModelConfig):
            if catalogue.kind_of(shelf, fields.name) == kind:
                return fields
            fields = fields.model_dump()
        if not isinstance(fields, dict):
            raise ValueError(f"expected a mapping of fields, got {type(fields).__name__}")
        try:
            return entry_config(section, fields, kind=kind)
        except ValidationError:
            raise
        except ValueError as problem:
            raise ValueError(str(problem).replace(", got", f" with task={task}, got")) from None

    return BeforeValidator(read)


def _known_engine(name: str) -> str:
    names = catalogue.names("engines")
    if name not in names:
        raise ValueError(f"expected engine to be one of {', '.join(names)}, got {name!r}")
    return name


Engine = Annotated[str, AfterValidator(_known_engine)]
Data = Annotated[SerializeAsAny[DataConfig], _of_entry("data")]
Model = Annotated[SerializeAsAny[ModelConfig], _of_entry("model")]


def engine_config(engine: str, fields: Any) -> PrivacyConfig:
    """The privacy part of a config as its engine has it: from plain data, or from a part of no
    engine or another one, of which it takes what was given and it has.

    Raises: ValidationError for fields that the engine lacks or values that they cannot have.
    """
    own: type[PrivacyConfig] = catalogue.entry("engines", engine).Config
    if isinstance(fields, PrivacyConfig):
        if type(fields) is own:
            return fields
        given = fields.model_dump(exclude_unset=True)
        fields = {name: value for name, value in given.items() if name in own.fields()}
    return own.model_validate(fields)


def _of_engine(fields: Any, info: ValidationInfo) -> Any:
    # A problem of the engine's name is told first, and alone.
    return engine_config(info.data["engine"], fields) if "engine" in info.data else PrivacyConfig()


Privacy = Annotated[SerializeAsAny[PrivacyConfig], BeforeValidator(_of_engine)]


class TrialConfig(Frozen):
    """One trial. Two configs with equal `id` have results of the same law."""

    task: Literal["nlu", "synthesis"] = "nlu"
    engine: Engine = Field(default_factory=lambda: catalogue.marked("engines", "DEFAULT"))
    data: Data = Field(default_factory=dict, validate_default=True)
    model: Model = Field(default_factory=dict, validate_default=True)
    privacy: Privacy = Field(default_factory=dict, validate_default=True)
    training: TrainingConfig = TrainingConfig()
    evaluation: EvaluationConfig = EvaluationConfig()
    synthesis: SynthesisConfig = SynthesisConfig()

    @model_validator(mode="after")
    def _synthesis_fits(self) -> TrialConfig:
        if self.task == "nlu":
            if self.synthesis != SynthesisConfig():
                raise ValueError("expected fields of synthesis with task=synthesis alone")
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
                "expected fields of evaluation with task=nlu alone (generated text is audited by"
                " `sweep audit-release`)"
            )
        if self.privacy.noise_decay != NoiseDecay() or self.privacy.group_scale != "none":
            # A stage starts at its own first epoch: a decay would begin anew in each.
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

    @model_validator(mode="after")
    def _steps_are_counted(self) -> TrialConfig:
        if self.training.steps_per_epoch != 1 and self.privacy.sampling != "full":
            raise ValueError(
                "expected training.steps_per_epoch with privacy.sampling=full alone (otherwise an"
                f" epoch has n / B steps), got {self.training.steps_per_epoch}"
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
            # Each entry says what it needs; a fixed split has no coin for each record.
            coins = self.data.split in SPLITS_WITH_COINS
            if not coins and catalogue.entry("attacks", attack).NEEDS & {"coins", "references"}:
                raise ValueError(
                    f"expected data.split {' or '.join(SPLITS_WITH_COINS)} for"
                    f" evaluation.attacks={attack}, got data.split={self.data.split}"
                )
        return self

    @model_serializer(mode="wrap")
    def _of_its_task(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Without the fields of another task: what is kept of a trial does not go by defaults that
        it never reads, and that may be others tomorrow.
        """
        fields: dict[str, Any] = dump(self)
        if self.task == "nlu":
            fields.pop("synthesis", None)
        return fields

    # The digest of its fields, and the id that a trial of an earlier version has on disk.
    _planned: tuple[str, str] | None = PrivateAttr(None)

    @property
    def id(self) -> str:
        """12 hex digits over every field that changes the result's law, and no other.

        A config read back from a sweep keeps the id that it was planned with.
        """
        digest = self._digest()
        return self._planned[1] if self._planned and self._planned[0] == digest else digest

    def planned_as(self, trial_id: str) -> TrialConfig:
        """The same config under the id of its sweep: its files, its split and its noise streams go
        by it. A copy with another field has the id of its own fields again.
        """
        found = self.model_copy()
        digest = self._digest()
        found._planned = None if trial_id == digest else (digest, trial_id)
        return found

    def _digest(self) -> str:
        fields = self.model_dump(mode="json")
        # How the work is cut into pieces changes memory, not the outcome.
        fields["training"].pop("physical_batch_size")
        for name in _LATER:  # an id from before there was a choice stays
            if fields["training"][name] == TrainingConfig.model_fields[name].default:
                fields["training"].pop(name)
        canonical = json.dumps(fields, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(canonical.encode()).hexdigest()[:12]


def parse(fields: dict[str, Any]) -> TrialConfig:
    """A config from plain data.

    Raises: InvalidInput, one sentence for the first thing that is wrong.
    """
    try:
        return TrialConfig.model_validate(fields)
    except ValidationError as error:
        raise InvalidInput(first_problem(error)) from None


def data_config(**fields: Any) -> DataConfig:
    """The data part of a config alone, of any kind of corpus.

    Raises: InvalidInput, one sentence for the first thing that is wrong.
    """
    found: DataConfig = _part("data", fields)
    return found


def model_part(**fields: Any) -> ModelConfig:
    """The model part of a config alone, of any kind of model.

    Raises: InvalidInput, one sentence for the first thing that is wrong.
    """
    found: ModelConfig = _part("model", fields)
    return found


def _part(section: str, fields: dict[str, Any]) -> Any:
    try:
        return entry_config(section, fields)
    except ValidationError as error:
        raise InvalidInput(first_problem(error, section=section)) from None
    except ValueError as problem:
        raise InvalidInput(str(problem)) from None
