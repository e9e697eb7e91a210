"""The engines as configs and plans know them: the fields of `privacy`, and what an
engine can do. No torch: the class that takes the steps is imported at its first use.

A class is one engine, and `ENTRIES` of this package lists it. It is composed of the
groups of fields that its step reads, and states its abilities as class attributes,
whose defaults are those of `EngineConfig`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator

from trainables.catalogue import NameOf, load
from trainables.dp.mechanism import (
    GroupScale,
    Kind,
    Mechanism,
    NeighboringRelation,
    NoiseCalibration,
    Normalise,
    Sampling,
)
from trainables.errors import InvalidInput
from trainables.fields import (
    INTERNAL_DISCRIMINATOR,
    Count,
    Frozen,
    NotNegative,
    PositiveFloat,
    ReadOnlyIf,
    Share,
    fixed_fields,
)

if TYPE_CHECKING:
    from torch import nn

    from trainables.dp.engines.engine import Engine, Setup

Covers = Literal["training", "all"]
_SCALED: tuple[GroupScale, ...] = ("public", "first_step_noised", "first_step")
# Below, an epsilon is the rounding of the accountants' sums.
LEAST_TARGET_EPSILON = 1e-6


class NoiseDecay(Frozen):
    """d(t), the factor on the noise multiplier at epoch t: z_t = z_0 d(t) with d(0) = 1
    (Dupuy et al. 2021, section 3.3). `kind` names a registered schedule, `tau` >= 0 is
    its strength; `none` has d(t) = 1 and takes no tau. Less noise in later epochs costs
    more epsilon, which accountants read from the mechanism.
    """

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
    """Stands in place of a noise multiplier: the smallest z0 that meets exactly one
    target is calibrated, rounded up to 5 digits. The target is an epsilon at the
    mechanism's delta, or what all pairs (epsilon, delta) of the mechanism together
    allow an attacker: a true-positive rate at `at_fpr` false positives, or an
    advantage, all shares in (0, 1).

    Raises: ValidationError for none or several targets, or a rate that a guess reaches.
    """

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


Mark = Literal["circle", "triangle", "square", "diamond", "cross"]


@dataclass(frozen=True, kw_only=True)
class ChartStyle:
    """The appearance of an engine in charts and reports. `label` is its displayed name.
    `light` and `dark` are its colours, #rrggbb, on a light and on a dark background;
    both should differ from those of other engines for readers who see few colours.
    `mark` is that of its trials; None: the mark of their noise decay.
    """

    label: str
    light: str
    dark: str
    mark: Mark | None = "cross"


class EngineConfig(Frozen):
    """What every engine reads of the mechanism, and what plans, charts and audits know
    of an engine. In a field None means the engine's default.
    """

    kind: ClassVar[Kind]
    """private: clips and adds noise; plain: takes steps without either; prior: takes no
    step, so its epsilon is 0
    """
    component: ClassVar[str]
    """`module:class` of the `Engine` that takes the steps"""
    tasks: ClassVar[tuple[str, ...]] = ("nlu",)
    """the tasks that it trains; a config with another one is refused"""
    style: ClassVar[ChartStyle]
    """its name, colours and mark in charts"""
    has_paper_figure: ClassVar[bool] = False
    """whether the paper's epsilon (Dupuy et al. 2021, 3.4) is of its noise schedule;
    use it where one clipped mean of a worker is noised in each step
    """
    audited: ClassVar[tuple[Mapping[str, Any], ...]] = ()
    """values by field path of the configs whose step `sweep audit` runs; use it for
    each way of sampling and noising that the engine claims an epsilon for
    """

    delta: Annotated[float, Field(gt=0, lt=1)] | None = None
    """delta of the guarantee; default: 1e-5, or 1 / (10 n) if that is smaller"""

    @model_validator(mode="before")
    @classmethod
    def _none_is_the_default(cls, fields: Any) -> Any:
        if not isinstance(fields, dict):
            return fields
        return {name: value for name, value in fields.items() if value is not None}

    @classmethod
    def check(cls, mechanism: Mechanism) -> None:
        """Refuse a mechanism that the engine cannot run; by default none. Use it where
        the step covers less than the theorems do.

        Raises: InvalidInput naming the field and what is allowed.
        """

    @classmethod
    def make(cls, model: nn.Module, mechanism: Mechanism, setup: Setup) -> Engine:
        """The engine of one trial on one process of its group, for a `model` on its
        device whose `losses(batch)` are [B], one a record.

        Raises: InvalidInput where `mechanism` is of another engine or does not match
            `setup`, and from an engine that clips for a model whose layers mix records.
        """
        [engine] = cls.tag().values()
        if mechanism.engine != engine:
            raise InvalidInput(
                f"expected a mechanism of engine {engine}, got one of"
                f" {mechanism.engine}"
            )
        made: Engine = load(cls.component)(model, mechanism, setup)
        return made


class DrawnConfig(EngineConfig):
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


class CoversConfig(EngineConfig):
    """Which records of the data set the guarantee is about."""

    covers: Annotated[
        Covers, Field(exclude_if=lambda covered: covered == "training")
    ] = "training"
    """records that epsilon covers: training: those that are trained on; all: also those
    of validation and test, whose figures then have noise, and every choice by them
    (needs data.split hash)
    """


class PrivacyConfig(CoversConfig, DrawnConfig):
    """The fields of an engine that clips and adds noise. Code of any engine reads
    these; a class of an engine that lacks some has constants in their place
    (`fixed_fields`). Units: the clip norm is an L2 norm of a unit's gradient in the
    space scaled by alpha_k, and the noise multiplier is the standard deviation of the
    noise over the clip norm.
    """

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


_PRIVATE = "trainables.dp.engines._private:PrivateEngine"


class DpSgdConfig(PrivacyConfig):
    """DP-SGD: each record's gradient is clipped separately, the sum noised (Abadi et
    al. 2016).
    """

    kind = "private"
    component = _PRIVATE
    tasks = ("nlu", "synthesis")
    style = ChartStyle(label="DP-SGD", light="#B84F00", dark="#F0995A", mark="diamond")
    audited = tuple(
        {"privacy.sampling": sampling}
        for sampling in ("poisson", "shuffle", "random_allocation")
    )

    engine: Annotated[Literal["dp_sgd"], INTERNAL_DISCRIMINATOR] = "dp_sgd"
    sampling: Sampling | None = "poisson"
    noise_calibration: NoiseCalibration | None = "central"
    microbatch_size: Annotated[int | None, Field(ge=1)] = 1
    """gradients are clipped per record"""

    @classmethod
    def check(cls, mechanism: Mechanism) -> None:
        """Raises: InvalidInput where more than one record is clipped as one."""
        if mechanism.microbatch_size != 1:
            raise InvalidInput(
                "expected privacy.microbatch_size=1 with engine dp_sgd,"
                f" got {mechanism.microbatch_size} (it clips every record alone)"
            )


class EdpSgdConfig(PrivacyConfig):
    """eDP-SGD: each worker clips and noises its own gradient (Dupuy et al. 2021,
    Algorithm 1). The defaults are the paper's.

    With noise calibration `paper` exactly as printed: one micro-batch a worker,
    alpha_k, clip, rescale, noise of standard deviation C z / N. `central` and smaller
    micro-batches are its sound variants.
    """

    kind = "private"
    component = _PRIVATE
    style = ChartStyle(label="eDP-SGD", light="#0072B2", dark="#56B4E9", mark=None)
    has_paper_figure = True
    audited = tuple(
        {**changes, "training.num_workers": 8}
        for changes in (
            {"privacy.noise_calibration": "paper"},
            {
                "privacy.noise_calibration": "paper",
                "privacy.group_scale": "first_step_noised",
            },
            {"privacy.noise_calibration": "central"},
            {
                "privacy.noise_calibration": "central",
                "privacy.group_scale": "first_step_noised",
            },
            {"privacy.noise_calibration": "central", "privacy.sampling": "poisson"},
            {
                "privacy.noise_calibration": "central",
                "privacy.sampling": "poisson",
                "privacy.microbatch_size": 1,
            },
        )
    )

    engine: Annotated[Literal["edp_sgd"], INTERNAL_DISCRIMINATOR] = "edp_sgd"
    sampling: Sampling | None = "shuffle"
    noise_calibration: NoiseCalibration | None = "paper"


@fixed_fields(PrivacyConfig, noise_multiplier=0.0)
class SgdConfig(DrawnConfig):
    """Plain data-parallel training: the mean gradient of a step's records; no clip,
    noise or epsilon. Its fields say how records are drawn.
    """

    kind = "plain"
    component = "trainables.dp.engines._plain:PlainEngine"
    tasks = ("nlu", "synthesis")
    style = ChartStyle(label="SGD", light="#595959", dark="#b8b8b8", mark="cross")

    engine: Annotated[Literal["sgd"], INTERNAL_DISCRIMINATOR] = "sgd"
    sampling: Sampling | None = "shuffle"


@fixed_fields(
    PrivacyConfig,
    noise_multiplier=0.0,
    sampling="full",
    noise_calibration="central",
    microbatch_size=1,
)
class UntrainedConfig(CoversConfig):
    """No training: the initial model, from public knowledge alone, at epsilon 0.

    Its error is that of the labels' names before any private record is read
    (`model.prior: names`), a third reference in addition to the same model without
    privacy and the best trial of the space. Its delta is the one at which epsilon is 0,
    or with `covers: all` that of its figures' noise.
    """

    kind = "prior"
    component = "trainables.dp.engines._untrained:UntrainedEngine"
    style = ChartStyle(
        label="ε = 0 (prior)", light="#5B4A9C", dark="#A99BE0", mark="square"
    )

    engine: Annotated[Literal["untrained"], INTERNAL_DISCRIMINATOR] = "untrained"
