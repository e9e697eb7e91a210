"""The sections of a trial's config: records, model, mechanism, training, evaluation.

An entry of a shelf adds fields to a section, or lists those that it lacks. Field names are those of
the glossary; each description has the paper's letter (Dupuy et al. 2021, "P1").
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer, model_validator

from trainables.catalogue import NameOf
from trainables.documents import quote
from trainables.frozen import (
    MAX_EPOCHS,
    MAX_NUMBER,
    MAX_RECORDS,
    MAX_SEED,
    Frozen,
    PositiveFloat,
)

Sampling = Literal["shuffle", "poisson", "random_allocation", "full"]
COUNTED_BY_STEPS: tuple[Sampling, ...] = ("poisson", "full")
NoiseCalibration = Literal["paper", "central"]
GroupScale = Literal["none", "public", "first_step_noised", "first_step"]
NeighboringRelation = Literal["add_or_remove_one", "replace_one"]
SplitMode = Literal["paper", "official", "bernoulli", "paired"]
SPLITS_WITH_COINS: tuple[SplitMode, ...] = ("bernoulli", "paired")  # one for each record or pair


class DataConfig(Frozen):
    """The records for training, validation and test. An entry of datasets adds its fields."""

    section = "data"
    name: str = Field(description="entry of trainables/datasets")
    split: SplitMode = Field(
        "paper",
        description="paper: 45:5:50 over the pooled files (Dupuy et al. 2021, 4.1); official: the"
        " corpus' own parts; bernoulli: a coin decides for each record and trial; paired: a coin"
        " decides for each matched pair and trial",
    )
    split_seed: int = Field(0, ge=0, le=MAX_SEED, description="seed of the split")
    max_records: int | None = Field(
        None,
        ge=20,
        le=MAX_RECORDS,
        description="number of records sampled from the pool with split_seed; default: all",
    )
    num_records: int | None = Field(
        None,
        ge=1,
        le=MAX_RECORDS,
        description="declared, public size n of the training part (number of groups"
        " with privacy.unit=group); without it the size of private data"
        " is an unaccounted release",
    )


class ModelConfig(Frozen):
    """The model. An entry of models adds its fields."""

    section = "model"
    name: str = Field(description="entry of trainables/models")

    @property
    def has_prior(self) -> bool:
        """Whether the model says something of a record before any was trained on."""
        return False


class NoiseDecay(Frozen):
    """d(t), the factor on the noise multiplier at epoch t."""

    kind: Annotated[str, NameOf("schedules")] = Field(
        "none", description="entry of trainables/schedules"
    )
    tau: float = Field(
        0.0, ge=0, le=MAX_NUMBER, description="decay rate per epoch (training.evaluate_every)"
    )

    @model_validator(mode="after")
    def _none_has_no_tau(self) -> NoiseDecay:
        if self.kind == "none" and self.tau != 0:
            raise ValueError(f"expected tau=0 with kind=none, got tau={self.tau}")
        return self


LEAST_TARGET_EPSILON = 1e-6  # below, an epsilon is the rounding of the accountants' sums


class TargetEpsilon(Frozen):
    """Replaces a noise multiplier by the smallest z0 whose epsilon is at most this."""

    target_epsilon: PositiveFloat = Field(
        description="epsilon of the trial; the smallest noise multiplier for it is calibrated"
    )


class PrivacyConfig(Frozen):
    """The mechanism, in the terms of privacy accounting. None means the engine's default.

    An entry of engines has the defaults, and lists the fields that it lacks.
    """

    section = "privacy"
    engine: ClassVar[str] = ""
    max_grad_norm: PositiveFloat = Field(1.0, description="clip norm C")
    noise_multiplier: float | TargetEpsilon = Field(
        1.0, description="noise multiplier z0 at epoch 0"
    )
    noise_decay: NoiseDecay = NoiseDecay()
    group_scale: GroupScale = Field(
        "none", description="source of alpha_k, the scales of parameter groups before clipping"
    )
    max_group_scale: float = Field(
        1.0, gt=0, le=1, description="public bound on the largest alpha_k"
    )
    noise_calibration: NoiseCalibration | None = Field(
        None,
        description="standard deviation of the noise of each of N workers: paper: C z / N; central:"
        " C z / sqrt(N)",
    )
    sampling: Sampling | None = Field(
        None,
        description="how records are assigned to steps; full: every record in every step, with"
        " training.expected_batch_size = n",
    )
    neighboring_relation: NeighboringRelation | None = Field(
        None, description="difference between neighbouring data sets; default: that of the sampling"
    )
    microbatch_size: int | None = Field(
        None,
        ge=1,
        le=MAX_RECORDS,
        description="records whose mean gradient is clipped as one; default: 1 or a"
        " worker's whole batch, depending on the engine",
    )
    delta: float | None = Field(
        None,
        gt=0,
        lt=1,
        description="delta of the guarantee; default: 1e-5, or 1 / (10 n) if that is smaller",
    )
    unit: Literal["record", "group"] = Field(
        "record", description="privacy unit in which neighbouring data sets differ"
    )
    max_records_per_group: int = Field(
        1, ge=1, le=MAX_RECORDS, description="largest number of records per group"
    )
    secure_noise: bool = Field(
        True,
        description="draw noise from AES-256-CTR on every device; false: a GPU's own generator,"
        " which is faster, no cipher, and ends near 6.7 standard deviations (a CPU ignores it)",
    )
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
        """Bounds that do not apply: of groups of records, and of alpha_k."""
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
        if not isinstance(z, TargetEpsilon) and not 0 <= z <= MAX_NUMBER:
            raise ValueError(f"expected noise_multiplier >= 0 and <= {MAX_NUMBER:g}, got {z:g}")
        return self


class TotalNoise(Frozen):
    """Replaces a learning rate by the one at which all steps together add this much noise.

    It is the standard deviation of a weight, without momentum (`privacy.learning_rate`), and
    transfers to other numbers of records, epsilons and steps.
    """

    total_noise: PositiveFloat = Field(
        description="standard deviation of the noise that all steps add to a weight; the learning"
        " rate is computed from it"
    )


_COUNTS = ("epochs", "steps", "evaluate_every")


class TrainingConfig(Frozen):
    """The optimisation of a trial."""

    epochs: int = Field(
        30,
        ge=1,
        le=MAX_EPOCHS,
        description="number of epochs E; with full batches an epoch is one step",
    )
    expected_batch_size: int = Field(
        64, ge=1, le=MAX_RECORDS, description="expected batch size B over all workers"
    )
    physical_batch_size: int | None = Field(
        None,
        ge=1,
        le=MAX_RECORDS,
        description="records per forward pass of a worker; affects memory, not the result",
    )
    num_workers: int = Field(
        1,
        ge=1,
        le=10_000,
        description="number of logical workers N (Algorithm 1); fewer processes may compute them",
    )
    learning_rate: PositiveFloat | TotalNoise = Field(
        1e-3,
        description="learning rate at the first step; total_noise computes it from n,"
        " the noise and the steps",
    )
    optimizer: Annotated[str, NameOf("optimizers")] = Field(
        "adam", description="entry of trainables/optimizers"
    )
    learning_rate_decay: Annotated[str, NameOf("learning_rates")] = Field(
        "constant",
        description="schedule of the learning rate, an entry of trainables/learning_rates",
    )
    gradient_clip_norm: PositiveFloat | None = Field(
        None,
        description="largest norm of a step's mean gradient, for engines without privacy (others"
        " clip by privacy.max_grad_norm); default: no limit",
    )
    steps: int | None = Field(
        None,
        ge=1,
        le=1_000_000,
        description="number of steps T instead of epochs; needs sampling poisson or full, which are"
        " accounted per step",
    )
    evaluate_every: int | None = Field(
        None,
        ge=1,
        le=1_000_000,
        description="with steps: number of steps that count as one epoch, after which the model is"
        " validated, saved and charged; default: a tenth of the steps",
    )
    precision: Literal["fp32", "bf16"] = Field(
        "fp32",
        description="precision of products in training passes; norms, clipped sums,"
        " noise, weights and Adam are always fp32",
    )
    seed: int = Field(
        0, ge=0, le=MAX_SEED, description="seed of initialisation and dropout, never of noise"
    )

    @model_validator(mode="before")
    @classmethod
    def _steps_or_epochs(cls, fields: Any) -> Any:
        """With steps an epoch is a piece of `evaluate_every` of them, and `epochs` their number."""
        if not isinstance(fields, dict):
            return fields
        given = {name: fields[name] for name in _COUNTS if fields.get(name) is not None}
        fields = {name: each for name, each in fields.items() if name not in _COUNTS} | given
        steps, every = given.get("steps"), given.get("evaluate_every")
        if steps is not None and "epochs" in given:
            raise ValueError(
                "expected training.epochs or training.steps, got"
                f" epochs={quote(given['epochs'])} and steps={quote(steps)}"
            )
        if steps is None and every is not None:
            raise ValueError(
                "expected training.evaluate_every only with training.steps, got"
                f" evaluate_every={quote(every)} and no steps"
            )
        counts = [each for each in (steps, every) if each is not None]
        if steps is None or not all(type(each) is int and each > 0 for each in counts):
            return fields  # their own checks name them
        every = min(every or -(-steps // 10), steps)
        if -(-steps // every) > MAX_EPOCHS:
            raise ValueError(
                f"expected training.evaluate_every >= {-(-steps // MAX_EPOCHS)} with"
                f" steps={steps}, got {every}"
            )
        return {**fields, "evaluate_every": every, "epochs": -(-steps // every)}

    @model_serializer(mode="wrap")
    def _what_is_read(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Without what follows from the steps, or is only read with them."""
        left_out = "evaluate_every" if self.steps is None else "epochs"
        return {name: each for name, each in dump(self).items() if name != left_out}


class EvaluationConfig(Frozen):
    """The evaluation after training."""

    attacks: tuple[str, ...] | None = Field(
        None, description="entries of trainables/attacks; default: all that the split allows"
    )
    shadow_corpus: str | None = Field(
        None,
        description="entry of trainables/datasets; default: a public corpus that is not the target",
    )
    ser_align: Literal["name", "edit"] = Field(
        "name", description="slots are aligned by name or by edit distance"
    )
    ser_match: Literal["span", "value"] = Field(
        "span", description="slots are compared by their tokens or by their text"
    )
    bootstrap_samples: int = Field(
        1_000, ge=0, le=1_000_000, description="resamples of intervals; 0: no intervals"
    )


# Fields of `privacy` that only a mechanism with noise has.
NOISE_FIELDS = frozenset(PrivacyConfig.model_fields) - {
    *("sampling", "delta", "unit", "max_records_per_group", "reproducible_noise")
}
