"""The sections of a trial's config: records, model, mechanism, training, evaluation,
text.

A section is a union of the classes of its shelf's entries. Each is composed of the
groups of fields here that its entry reads, and has constants in place of others that
code of any entry asks for. Field names are those of the glossary; the text under a
field is its meaning in `sweep fields` and in the reference.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from trainables.catalogue import NameOf
from trainables.config.fields import (
    MAX_EPOCHS,
    MAX_NUMBER,
    MAX_RECORDS,
    MAX_ROWS,
    MAX_SEED,
    MAX_WIDTH,
    Frozen,
    Listed,
    PositiveFloat,
    ReadOnlyIf,
    fixed_fields,
)
from trainables.dp.mechanism import GroupScale, Normalise
from trainables.dp.mechanism import NeighboringRelation as NeighboringRelation
from trainables.dp.mechanism import NoiseCalibration as NoiseCalibration
from trainables.dp.mechanism import Sampling as Sampling

SplitMode = Literal["paper", "official", "bernoulli", "paired", "hash"]
Covers = Literal["training", "all"]
# Percent of the units of a hash split that train, validate and test. Another number, or
# another way to compute the hash, is another function: raise the version.
HASH_PERCENT, HASH_VERSION = (70, 10, 20), 1
_SCALED: tuple[GroupScale, ...] = ("public", "first_step_noised", "first_step")
SPLITS_WITH_COINS: tuple[SplitMode, ...] = (
    "bernoulli",
    "paired",
)  # one for each record or pair
Count = Annotated[int, Field(ge=1, le=MAX_RECORDS)]
Seed = Annotated[int, Field(ge=0, le=MAX_SEED)]
Epochs = Annotated[int, Field(ge=1, le=MAX_EPOCHS)]
EpochsOrNone = Annotated[int, Field(ge=0, le=MAX_EPOCHS)]
Steps = Annotated[int, Field(ge=1, le=1_000_000)]
Width = Annotated[int, Field(ge=1, le=MAX_WIDTH)]
Depth = Annotated[int, Field(ge=1, le=1_000)]
NotNegative = Annotated[float, Field(ge=0, le=MAX_NUMBER)]
Rate = Annotated[float, Field(ge=0, lt=1)]
Share = Annotated[float, Field(gt=0, lt=1)]
LEAST_TARGET_EPSILON = (
    1e-6  # below, an epsilon is the rounding of the accountants' sums
)
INTERNAL_DISCRIMINATOR = Field(
    exclude=True, repr=False
)  # a tag that a config writes at its top, or never


class DataConfig(Frozen):
    """The records for training, validation and test. An entry of datasets adds its
    fields.
    """

    name: str
    """entry of trainables/data/datasets"""
    split: SplitMode = "paper"
    """paper: 45:5:50 over the pooled files (Dupuy et al. 2021, 4.1); official: the
    corpus' own parts; hash: 70:10:20, each record by the hash of its text, or of its
    group where it has one; bernoulli, paired: a coin for each record, or matched pair,
    and trial
    """
    split_seed: Seed = 0
    """seed of the split"""
    max_records: Annotated[int, Field(ge=20, le=MAX_RECORDS)] | None = None
    """number of records sampled from the pool with split_seed; default: all"""
    num_records: Count | None = None
    """declared, public size n of the training part (number of groups with
    privacy.unit=group); without it the size of private data is an unaccounted release
    """

    @property
    def split_name(self) -> str:
        """The function that gives each record its part, for a ledger. Equal names are
        equal functions, whatever the data set.
        """
        shares = ":".join(map(str, HASH_PERCENT))
        return f"{self.split} {HASH_VERSION}, {shares}, seed {self.split_seed}"


class ModelConfig(Frozen):
    """The model. An entry of models adds its fields."""

    name: str
    """entry of trainables/models"""

    @property
    def has_prior(self) -> bool:
        """Whether the model says something of a record before any was trained on."""
        return False


class NoiseDecay(Frozen):
    """d(t), the factor on the noise multiplier at epoch t."""

    kind: Annotated[str, NameOf("schedules")] = "none"
    """entry of trainables/dp/schedules"""
    tau: NotNegative = 0.0
    """decay rate per epoch (training.evaluate_every)"""

    @model_validator(mode="after")
    def _none_has_no_tau(self) -> NoiseDecay:
        if self.kind == "none" and self.tau != 0:
            raise ValueError(f"expected tau=0 with kind=none, got tau={self.tau}")
        return self


class GroupScaleConfig(Frozen):
    """alpha_k, the scales of parameter groups before clipping. A name alone has the
    defaults.
    """

    name: GroupScale = "none"
    """source of alpha_k: none: 1 for every group; public: the gradient of public
    utterances; first_step_noised: the first step's release; first_step: the first raw
    gradient (the paper's), which no epsilon covers
    """
    normalise: Annotated[Normalise, ReadOnlyIf(name=_SCALED)] = "unit"
    """unit: sum_k alpha_k^2 = 1; none: alpha_k is the norm of group k itself"""
    cap: Annotated[PositiveFloat | None, ReadOnlyIf(normalise="none")] = None
    """public bound on alpha_k, which noise_calibration paper needs for a finite
    epsilon
    """

    @model_validator(mode="before")
    @classmethod
    def _a_name(cls, fields: Any) -> Any:
        return {"name": fields} if isinstance(fields, str) else fields


_Unset = Field(exclude_if=lambda target: target is None)


class Target(Frozen):
    """Replaces a noise multiplier by the smallest z0 that meets one target."""

    target_epsilon: Annotated[PositiveFloat | None, _Unset] = None
    """epsilon of the trial; the smallest noise multiplier for it is calibrated"""
    target_tpr: Annotated[Share | None, _Unset] = None
    """true-positive rate of any membership test with at_fpr false positives"""
    at_fpr: Annotated[Share, Field(ge=1e-3), ReadOnlyIf(target_tpr=float)] = 0.01
    """false-positive rate of the test, less than target_tpr"""
    target_advantage: Annotated[Share | None, _Unset] = None
    """largest difference of true- and false-positive rate of any membership test"""

    @model_validator(mode="after")
    def _one(self) -> Target:
        every = self.target_epsilon, self.target_tpr, self.target_advantage
        if sum(each is not None for each in every) != 1:
            raise ValueError(
                "expected one of target_epsilon, target_tpr and target_advantage"
            )
        if self.target_tpr is not None and self.target_tpr <= self.at_fpr:
            raise ValueError(
                f"expected target_tpr above at_fpr={self.at_fpr:g}, which a guess"
                f" reaches whatever the noise is, got {self.target_tpr:g}"
            )
        return self


class DeltaConfig(Frozen):
    """What every engine reads of the mechanism. None means the engine's default."""

    delta: Annotated[float, Field(gt=0, lt=1)] | None = None
    """delta of the guarantee; default: 1e-5, or 1 / (10 n) if that is smaller"""

    @model_validator(mode="before")
    @classmethod
    def _none_is_the_default(cls, fields: Any) -> Any:
        if not isinstance(fields, dict):
            return fields
        return {name: value for name, value in fields.items() if value is not None}


class DrawnConfig(DeltaConfig):
    """The mechanism of an engine that draws records."""

    sampling: Sampling | None = None
    """how records are assigned to steps; full: all in every step (expected_batch_size =
    n)
    """
    unit: Literal["record", "group"] = "record"
    """privacy unit in which neighbouring data sets differ"""
    max_records_per_group: Annotated[Count, ReadOnlyIf(unit="group")] = 1
    """largest number of records per group"""
    reproducible_noise: bool = False
    """for tests: noise from the public seed, so epsilon is infinite"""


class CoversConfig(DeltaConfig):
    """Which records of the data set the guarantee is about."""

    covers: Annotated[
        Covers, Field(exclude_if=lambda covered: covered == "training")
    ] = "training"
    """records that epsilon covers: training: those that are trained on; all: also those
    of validation and test, whose figures then have noise, and every choice by them
    (needs data.split hash)
    """


class PrivacyConfig(CoversConfig, DrawnConfig):
    """The mechanism of an engine that clips and adds noise."""

    max_grad_norm: PositiveFloat = 1.0
    """clip norm C"""
    noise_multiplier: NotNegative | Target = 1.0
    """noise multiplier z0 at epoch 0"""
    noise_decay: NoiseDecay = NoiseDecay()
    group_scale: GroupScaleConfig = GroupScaleConfig()
    noise_calibration: NoiseCalibration | None = None
    """standard deviation of noise of each of N workers: paper: C z / N; central: C z /
    sqrt(N)
    """
    neighboring_relation: NeighboringRelation | None = None
    """difference between neighbouring data sets; default: that of the sampling"""
    microbatch_size: Count | None = None
    """records whose mean gradient is clipped as one; default: 1 or a worker's whole
    batch
    """
    secure_noise: bool = True
    """draw noise from AES-256-CTR on every device; false: a GPU's own generator, which
    is faster, no cipher, and ends near 6.7 standard deviations (a CPU ignores it)
    """
    accountant: str | None = None
    """entry of trainables/dp/accounting; default: the tightest sound one"""


class TotalNoise(Frozen):
    """Replaces a learning rate by that of this noise (`privacy.learning_rate`), which
    transfers.
    """

    total_noise: PositiveFloat
    """standard deviation of the noise that all steps add to a weight"""


class WorkersConfig(Frozen):
    """The workers of a trial."""

    physical_batch_size: Count | None = None
    """records per forward pass of a worker; affects memory, not the result"""
    num_workers: Annotated[int, Field(ge=1, le=10_000)] = 1
    """number of logical workers N (Algorithm 1); fewer processes may compute them"""


def _tenth(given: dict[str, Any]) -> int:
    return max(1, -(-(given.get("steps") or 0) // 10))


def _pieces(given: dict[str, Any]) -> int:
    steps = given.get("steps")
    return 30 if steps is None else -(-steps // given.get("evaluate_every", 1))


class TrainingConfig(WorkersConfig):
    """The optimisation of a trial, counted in epochs, or in steps of which an epoch is
    a piece.
    """

    name: Annotated[Literal["with steps"], INTERNAL_DISCRIMINATOR] = "with steps"
    steps: Annotated[Steps | None, Field(exclude_if=lambda steps: steps is None)] = None
    """number of steps T instead of epochs; needs sampling poisson or full, accounted
    per step
    """
    evaluate_every: Annotated[Steps, ReadOnlyIf(steps=int)] = Field(
        default_factory=_tenth
    )
    """number of steps that count as one epoch, after which the model is validated,
    saved and charged; default: a tenth of the steps
    """
    epochs: Annotated[Epochs, ReadOnlyIf(steps=None)] = Field(default_factory=_pieces)
    """number of epochs E, 30 by default; with full batches an epoch is one step"""
    keep: Annotated[
        Literal["best", "last"], Field(exclude_if=lambda kept: kept == "best")
    ] = "best"
    """epoch whose weights the trial keeps: the one of least validation metric, or the
    last
    """
    expected_batch_size: Count = 64
    """expected batch size B over all workers"""
    learning_rate: PositiveFloat | TotalNoise = 1e-3
    """learning rate at the first step; total_noise computes it from n, the noise and
    the steps
    """
    optimizer: Annotated[str, NameOf("optimizers")] = "adam"
    """entry of trainables/dp/optimizers"""
    learning_rate_decay: Annotated[str, NameOf("learning_rates")] = "constant"
    """schedule of the learning rate, an entry of trainables/dp/learning_rates"""
    gradient_clip_norm: PositiveFloat | None = None
    """largest norm of a step's mean gradient, for engines without privacy; default: no
    limit
    """
    precision: Literal["fp32", "bf16"] = "fp32"
    """precision of products in training; norms, clipped sums, noise, weights and Adam
    are fp32
    """
    seed: Seed = 0
    """seed of initialisation and dropout, never of noise"""

    @model_validator(mode="after")
    def _few_pieces(self) -> TrainingConfig:
        if self.steps is not None and self.epochs > MAX_EPOCHS:
            raise ValueError(
                f"expected training.evaluate_every >= {-(-self.steps // MAX_EPOCHS)}"
                f" with steps={self.steps}, got {self.evaluate_every}"
            )
        return self


@fixed_fields(TrainingConfig, epochs=1, evaluate_every=1)
class NoTraining(WorkersConfig):
    """The section of an engine that takes no step."""

    name: Annotated[Literal["without a step"], INTERNAL_DISCRIMINATOR] = (
        "without a step"
    )


class EvaluationConfig(Frozen):
    """The evaluation after training."""

    attacks: Listed[Annotated[str, NameOf("attacks")]] | None = None
    """entries of trainables/attacks; default: all that the split allows"""
    shadow_corpus: str | None = None
    """entry of trainables/data/datasets; default: a public corpus that is not the
    target
    """
    ser_align: Literal["name", "edit"] = "name"
    """slots are aligned by name or by edit distance"""
    ser_match: Literal["span", "value"] = "span"
    """slots are compared by their tokens or by their text"""
    bootstrap_samples: Annotated[int, Field(ge=0, le=1_000_000)] = 1_000
    """resamples of intervals; 0: no intervals"""


class TextConfig(Frozen):
    """The generation of utterances, with task=synthesis: what every method reads."""

    measuring_parser_epochs: EpochsOrNone = 8
    """epochs of the parser of held-out human text that evaluates generated text; 0: no
    parser
    """
    public_fraction: Annotated[float, Field(gt=0, lt=1)] = 0.1
    """share of the training part that is declared public"""
    remove_function: str | None = None
    """function that the public part must not use (Name, or Name* for a prefix)"""
    only_function: str | None = None
    """keep only private records that use this function (few modes)"""
    vocabulary_size: Annotated[int, Field(ge=300, le=1_000_000)] = 2_048
    """vocabulary size of the public BPE"""
    max_tokens: Annotated[int, Field(ge=16, le=MAX_WIDTH)] = 128
    """largest number of tokens per record, prompt included"""
    pretrain_epochs: EpochsOrNone = 3
    """epochs on public text before private training"""
    pretrain_learning_rate: PositiveFloat = 1e-3
    """learning rate on public text"""
    lora_rank: Width | None = None
    """rank of LoRA adapters, which are then the only trained weights"""
    lora_alpha: Annotated[PositiveFloat, ReadOnlyIf(lora_rank=int)] = 32.0
    """adapters are scaled by lora_alpha / lora_rank"""
    num_generated: Annotated[int, Field(ge=2, le=MAX_ROWS)] = 2_000
    """number of utterances generated for evaluation"""
    num_beams: Annotated[int, Field(ge=1, le=1_000)] = 5
    """beam width for utterances with a prompt; 1 otherwise"""
    top_k: Annotated[int, Field(ge=1, le=1_000_000)] = 50
    """number of most probable tokens to sample from"""
    temperature: Annotated[float, Field(ge=1e-6, le=MAX_NUMBER)] = 1.0
    """temperature of the sampling"""


class StagedConfig(Frozen):
    """Two models in a row."""

    parse_epochs: int | None = None
    """T1, epochs of the parse model (two_stage); T2 is training.epochs - T1"""
    shuffle_pairs: bool = False
    """exchange the programs within pairs of records; a pair is then the privacy unit"""


class PromptedConfig(Frozen):
    """Utterances behind a prompt."""

    prompt: Literal["domain", "function_types"] = "domain"
    """one_and_a_half_stage: kind of prompt"""
    histogram: Literal["dp", "public", "true"] = "dp"
    """one_and_a_half_stage: source of the prompts' frequencies; true: private records
    without noise (as in the paper, no finite epsilon)
    """
    histogram_noise_multiplier: Annotated[PositiveFloat, ReadOnlyIf(histogram="dp")] = (
        20.0
    )
    """standard deviation of the noise on the counts of the dp histogram"""


class ProgramsConfig(Frozen):
    """Programs of the private records."""

    parses: Annotated[
        Literal["parser", "gold"], ReadOnlyIf(prompt="function_types")
    ] = "parser"
    """source of private programs: a parser trained on the public part, or the corpus"""
    parser_epochs: Annotated[Epochs, ReadOnlyIf(prompt="function_types")] = 64
    """epochs of the low-resource parser, many because pairs are few"""


class SynthesisConfig(TextConfig, StagedConfig, PromptedConfig, ProgramsConfig):
    """All that code of any method asks for."""

    method: str = "one_stage"
    """entry of trainables/generation"""
