"""The mechanism of a trial as one frozen object: built from the config, read by the training step
and by every accountant, so that what runs and what is accounted cannot differ.

Let u_j be the clipped micro-batch gradients of a step (in the space scaled by alpha_k). The step
releases sum_j u_j + noise and the update is that divided by the fixed number M. With s * C the
standard deviation of the noise on the sum in the worst parameter group, the step is a Gaussian
mechanism of effective noise multiplier s / (sensitivity / C).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache

from trainables import catalogue
from trainables.config import (
    GroupScale,
    NeighboringRelation,
    NoiseCalibration,
    PrivacyConfig,
    Sampling,
    TargetEpsilon,
    TrainingConfig,
    TrialConfig,
    engine_config,
)
from trainables.errors import InvalidInput


@dataclass(frozen=True, kw_only=True)
class Mechanism:
    """What one trial releases about its training records.

    `num_records` (n), `expected_batch_size` (B) and everything derived from them are declared,
    public values. `noise_multiplier` is z0, `max_grad_norm` is C, `num_workers` is N and
    `num_microbatches` is M, over all workers of a step. `physical` properties (how many processes
    run, how large a pass is) are no part of a mechanism.

    With unit "group" everything that counts records counts groups: n groups, B groups a step,
    `microbatch_size` groups clipped as one. A group's records (at most `max_records_per_group` of
    them, chosen without looking at other groups) are sampled together and their mean gradient is
    that group's one contribution, so a group is to this mechanism what a record is otherwise. Unit
    "couple" is a group of two records that a public permutation of the rows put together.

    `stages` are epochs of models that are trained one after another on the same records with the
    same noise, each from a step of its own on; empty: one model. `histogram_noise_multiplier` is
    the standard deviation of Gaussian noise on the counts of a histogram over all records, each in
    one bin, that is released before the first step; 0: there is none.

    Raises: InvalidInput, however it is made, for a number out of range or a combination that no
    theorem covers.
    """

    engine: str
    num_records: int
    expected_batch_size: int
    epochs: int
    num_workers: int
    num_microbatches: int
    microbatch_size: int
    sampling: Sampling
    neighboring_relation: NeighboringRelation
    noise_calibration: NoiseCalibration
    noise_multiplier: float
    max_grad_norm: float
    decay_kind: str
    decay_tau: float
    group_scale: GroupScale
    max_group_scale: float
    delta: float
    unit: str = "record"
    max_records_per_group: int = 1
    reproducible_noise: bool = False
    undeclared: tuple[str, ...] = ()  # things read from private records that no noise covers
    stages: tuple[int, ...] = ()
    histogram_noise_multiplier: float = 0.0
    steps_per_epoch: int = 1  # with sampling full

    def __post_init__(self) -> None:
        _refuse_out_of_range(self)
        _refuse_uncovered(self)

    @property
    def sample_rate(self) -> float:
        """q = B / n: the probability of a record to be in a step under Poisson sampling.

        1 with full batches, where B = n.
        """
        return self.expected_batch_size / self.num_records

    def steps_until(self, epoch: int) -> int:
        """Steps taken before epoch t = `epoch` starts.

        Shuffle and random allocation: every epoch has ceil(n / B) steps. Poisson: an epoch is n / B
        steps on average, so its last step is rounded up over all epochs together, once for each
        stage. Full: an epoch has `steps_per_epoch` steps.
        """
        if self.sampling == "full":
            return epoch * self.steps_per_epoch
        if self.sampling == "poisson":
            steps, left = 0, epoch
            for length in self.stages:
                steps += -(-min(left, length) * self.num_records // self.expected_batch_size)
                left -= min(left, length)
            return steps + -(-left * self.num_records // self.expected_batch_size)
        return epoch * -(-self.num_records // self.expected_batch_size)

    def steps_in(self, epoch: int) -> int:
        """Steps of epoch t = `epoch`."""
        return self.steps_until(epoch + 1) - self.steps_until(epoch)

    @property
    def steps(self) -> int:
        """Steps of the whole trial."""
        return self.steps_until(self.epochs)

    @property
    def claims_privacy(self) -> bool:
        """Whether its engine clips and adds noise, however little."""
        return claims_privacy(self.engine)

    @property
    def has_paper_figure(self) -> bool:
        """Whether the paper's epsilon is of the noise schedule of its engine."""
        return bool(catalogue.entry("engines", self.engine).PAPER_FIGURE)

    @property
    def is_private(self) -> bool:
        """Whether any noise is added at all."""
        return self.claims_privacy and self.noise_multiplier > 0

    def noise_multiplier_at(self, epoch: int) -> float:
        """z_t = z0 d(t)."""
        return self.noise_multiplier * _factor(self.decay_kind, epoch, self.decay_tau)

    @property
    def sensitivity(self) -> float:
        """Largest L2 change of sum_j u_j between neighbouring data sets, in units of C.

        2 where a micro-batch holds several records (one of them can turn the clipped mean around)
        or where a record is replaced; 1 for one record a micro-batch under add-or-remove, which
        then means each drawn record by itself, not bins of expected size one. A group is clipped
        as one record is, whatever its size.
        """
        one = self.microbatch_size == 1 and self.neighboring_relation == "add_or_remove_one"
        return 1.0 if one else 2.0

    def noise_on_sum_at(self, epoch: int) -> float:
        """s: standard deviation of the noise on the sum of all workers, in units of C, in the
        worst parameter group of the scaled space.
        """
        z = self.noise_multiplier_at(epoch)
        if self.noise_calibration == "central":
            return z
        # alpha_k from the data has no bound but the norm's, 1; `none` is alpha_k = 1.
        worst_group = self.max_group_scale if self.group_scale == "public" else 1.0
        return z / (math.sqrt(self.num_workers) * worst_group)

    def worker_noise_std_at(self, epoch: int) -> float:
        """Standard deviation, per coordinate, of what each of the N workers adds to its own sum
        of clipped micro-batch gradients.

        `paper`: C z / N, after the rescale by alpha_k. `central`: C z / sqrt(N), in scaled space,
        so that the N independent draws sum to C z.
        """
        z = self.noise_multiplier_at(epoch) * self.max_grad_norm
        if self.noise_calibration == "paper":
            return z / self.num_workers
        return z / math.sqrt(self.num_workers)

    def effective_noise_multiplier_at(self, epoch: int) -> float:
        """sigma_eff,t: noise over sensitivity, what an accountant is given for epoch t."""
        if not self.is_private:
            return 0.0
        return self.noise_on_sum_at(epoch) / self.sensitivity

    @property
    def effective_histogram_noise_multiplier(self) -> float:
        """Noise over the L2 sensitivity of the histogram's counts.

        One record more or less changes one count by 1, one replaced changes two; a group's records
        may all be in one bin.
        """
        change = 1.0 if self.neighboring_relation == "add_or_remove_one" else math.sqrt(2)
        return self.histogram_noise_multiplier / (change * self.max_records_per_group)

    @property
    def unaccounted(self) -> tuple[str, ...]:
        """Reasons why no finite epsilon holds; empty where one does."""
        reasons = []
        if not self.claims_privacy:
            reasons.append(f"no noise is added ({self.engine})")
        elif self.noise_multiplier == 0:
            reasons.append("no noise is added (noise_multiplier 0)")
        if self.reproducible_noise:
            reasons.append("noise key public (reproducible_noise)")
        if self.group_scale == "first_step" and self.claims_privacy:
            reasons.append("alpha_k is the raw first gradient's (group_scale first_step)")
        return (*reasons, *self.undeclared)

    def first(self, epochs: int) -> Mechanism:
        """The mechanism of the first `epochs` epochs: what a trial stopped there has spent."""
        return replace(self, epochs=epochs)


def claims_privacy(engine: str) -> bool:
    """Whether an engine clips and adds noise; one that is not installed here is taken to.

    >>> claims_privacy("not installed")
    True
    """
    return catalogue.kind_of("engines", engine) != "plain"


def default_delta(num_records: int) -> float:
    """1e-5, or 1 / (10 n) where that is smaller."""
    return min(1e-5, 1.0 / (10.0 * num_records))


def build(config: TrialConfig, *, num_records: int, undeclared: tuple[str, ...] = ()) -> Mechanism:
    """The mechanism of a config on n = `num_records` training records (groups with unit "group").

    A `target_epsilon` must have been replaced by a noise multiplier before (`accountants.resolve`).

    Raises: InvalidInput for a combination that no theorem covers.
    """
    if config.task == "synthesis":
        return _of_synthesis(config, num_records=num_records, undeclared=undeclared)
    return build_from(
        config.engine,
        config.privacy,
        training=config.training,
        num_records=num_records,
        undeclared=undeclared,
    )


def _of_synthesis(
    config: TrialConfig, *, num_records: int, undeclared: tuple[str, ...]
) -> Mechanism:
    """Stages on the same records, and the histogram that their prompts are drawn from.

    Shuffled pairs: the programs of two records are exchanged, so each record is in two pairs, and
    both records are in the same two. The couple is the unit: it is drawn, clipped and counted as
    one. A record that is replaced replaces its couple, so `epsilon_replace_one` covers a record;
    one more or less would couple the others anew, which nothing here covers.
    """
    synthesis, privacy, training = config.synthesis, config.privacy, config.training
    if synthesis.shuffle_pairs:
        num_records //= 2
        privacy = privacy.model_copy(update={"unit": "couple", "max_records_per_group": 2})
        half = max(1, training.expected_batch_size // 2)
        training = training.model_copy(update={"expected_batch_size": half})
    made = build_from(
        config.engine, privacy, training=training, num_records=num_records, undeclared=undeclared
    )
    if synthesis.parse_epochs is not None:
        first = synthesis.parse_epochs
        made = replace(made, stages=(first, training.epochs - first))
    if synthesis.method == "one_and_a_half_stage" and made.claims_privacy:
        if synthesis.histogram == "dp":
            made = replace(made, histogram_noise_multiplier=synthesis.histogram_noise_multiplier)
        elif synthesis.histogram == "true":
            reason = "the prompts' frequencies are the private records' own (synthesis.histogram)"
            made = replace(made, undeclared=(*made.undeclared, reason))
    return made


def with_noise(config: TrialConfig, z: float) -> TrialConfig:
    """The config with a noise multiplier that is a number."""
    privacy = config.privacy.model_copy(update={"noise_multiplier": z})
    return config.model_copy(update={"privacy": privacy})


def with_other_stage(mechanism: Mechanism, config: TrialConfig) -> Mechanism:
    """What one noise multiplier pays for: this trial's stage and, where another trial trains the
    other one, that one too.
    """
    other = config.synthesis.other_epochs
    if config.task != "synthesis" or other is None:
        return mechanism
    return replace(mechanism, epochs=mechanism.epochs + other, stages=(mechanism.epochs, other))


def build_from(
    engine: str,
    privacy: PrivacyConfig,
    *,
    training: TrainingConfig,
    num_records: int,
    undeclared: tuple[str, ...] = (),
) -> Mechanism:
    """As `build`, from the parts of a config that a mechanism reads."""
    privacy = engine_config(engine, privacy)
    z = privacy.noise_multiplier
    if isinstance(z, TargetEpsilon):
        raise InvalidInput("expected a noise multiplier, got a target_epsilon: calibrate it first")
    if num_records < 1:
        raise InvalidInput(f"expected num_records >= 1, got {num_records}")
    sampling = privacy.sampling or "shuffle"
    relation = privacy.neighboring_relation or (
        "replace_one" if sampling == "shuffle" else "add_or_remove_one"
    )
    calibration = privacy.noise_calibration or "paper"
    batch, workers = training.expected_batch_size, training.num_workers
    if sampling == "full":
        batch = num_records
    if batch > num_records:
        raise InvalidInput(
            "expected training.expected_batch_size to be at most the number of training records"
            f" ({num_records}), got {batch}"
        )
    if batch % workers and not (sampling == "full" and privacy.microbatch_size == 1):
        raise InvalidInput(
            f"expected training.expected_batch_size to be a multiple of num_workers ({workers}),"
            f" got {batch}"
        )
    microbatch = privacy.microbatch_size or batch // workers
    if batch % (microbatch * workers) and not (sampling == "full" and microbatch == 1):
        raise InvalidInput(
            "expected privacy.microbatch_size to divide a worker's batch"
            f" ({batch // workers}), got {microbatch}"
        )
    return Mechanism(
        engine=engine,
        num_records=num_records,
        expected_batch_size=batch,
        epochs=training.epochs,
        num_workers=workers,
        num_microbatches=batch // microbatch,
        microbatch_size=microbatch,
        sampling=sampling,
        neighboring_relation=relation,
        noise_calibration=calibration,
        noise_multiplier=z,
        max_grad_norm=privacy.max_grad_norm,
        decay_kind=privacy.noise_decay.kind,
        decay_tau=privacy.noise_decay.tau,
        group_scale=privacy.group_scale,
        max_group_scale=privacy.max_group_scale,
        delta=privacy.delta or default_delta(num_records),
        unit=privacy.unit,
        max_records_per_group=1 if privacy.unit == "record" else privacy.max_records_per_group,
        reproducible_noise=privacy.reproducible_noise,
        undeclared=undeclared,
        steps_per_epoch=training.steps_per_epoch if sampling == "full" else 1,
    )


@lru_cache(maxsize=65_536)
def _factor(kind: str, epoch: int, tau: float) -> float:
    """d(t); kept because finding a schedule's file costs more than evaluating it."""
    return float(catalogue.entry("schedules", kind).factor(epoch, tau=tau))


def _refuse_out_of_range(mechanism: Mechanism) -> None:
    """Raises: InvalidInput for a number that no mechanism has."""
    if not 0 < mechanism.delta < 1:
        raise InvalidInput(f"expected 0 < delta < 1, got delta={mechanism.delta}")
    for name in ("noise_multiplier", "histogram_noise_multiplier", "decay_tau"):
        value = getattr(mechanism, name)
        if not 0 <= value < math.inf:
            raise InvalidInput(f"expected a finite {name} >= 0, got {value}")
    if not 0 < mechanism.max_grad_norm < math.inf:
        raise InvalidInput(f"expected a finite max_grad_norm > 0, got {mechanism.max_grad_norm}")
    if not 0 < mechanism.max_group_scale <= 1:
        raise InvalidInput(f"expected 0 < max_group_scale <= 1, got {mechanism.max_group_scale}")
    for name in (
        *("num_records", "expected_batch_size", "num_workers", "num_microbatches"),
        *("microbatch_size", "max_records_per_group", "steps_per_epoch"),
    ):
        if getattr(mechanism, name) < 1:
            raise InvalidInput(f"expected {name} >= 1, got {getattr(mechanism, name)}")
    if mechanism.epochs < 0 or any(epochs < 0 for epochs in mechanism.stages):
        raise InvalidInput(
            f"expected epochs >= 0, got epochs={mechanism.epochs}, stages={mechanism.stages}"
        )
    if mechanism.expected_batch_size > mechanism.num_records:
        raise InvalidInput(
            "expected training.expected_batch_size to be at most the number of training records"
            f" ({mechanism.num_records}), got {mechanism.expected_batch_size}"
        )


def _refuse_uncovered(mechanism: Mechanism) -> None:
    """Raises: InvalidInput for a combination that no theorem covers."""
    catalogue.entry("engines", mechanism.engine).check(mechanism)
    if not mechanism.claims_privacy:
        return
    if mechanism.noise_calibration == "paper" and (
        mechanism.num_microbatches != mechanism.num_workers
    ):
        raise InvalidInput(
            "expected one micro-batch a worker with noise_calibration paper (Algorithm 1), got"
            f" {mechanism.num_microbatches} micro-batches on {mechanism.num_workers} workers"
        )
    if mechanism.sampling == "shuffle" and mechanism.neighboring_relation != "replace_one":
        raise InvalidInput(
            "expected neighboring_relation replace_one with sampling shuffle,"
            f" got {mechanism.neighboring_relation}"
        )
    if mechanism.sampling != "shuffle" and mechanism.neighboring_relation != "add_or_remove_one":
        raise InvalidInput(
            f"expected neighboring_relation add_or_remove_one with sampling {mechanism.sampling}"
            f" (epsilon_replace_one is reported beside it), got {mechanism.neighboring_relation}"
        )
