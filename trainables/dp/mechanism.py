"""The mechanism of a trial as one frozen object, built from the config and read by the
training step and by every accountant, so that training and accounting cannot differ.

Let u_j be the clipped micro-batch gradients of a step (in the space scaled by alpha_k).
The step releases sum_j u_j + noise and the update is that divided by the fixed number
M. With s * C the standard deviation of the noise on the sum in the worst parameter
group, the step is a Gaussian mechanism of effective noise multiplier s / (sensitivity /
C).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, get_args

from trainables.errors import InvalidInput, quote

if TYPE_CHECKING:
    from trainables.dp.accounting.releases import Start

Kind = Literal["private", "plain", "prior"]
Sampling = Literal["shuffle", "poisson", "random_allocation", "full"]
NoiseCalibration = Literal["paper", "central"]
GroupScale = Literal["none", "public", "first_step_noised", "first_step"]
Normalise = Literal["unit", "none"]
NeighboringRelation = Literal["add_or_remove_one", "replace_one"]
COUNTED_BY_STEPS: tuple[Sampling, ...] = ("poisson", "full")
# Squares of gradients of a smaller norm are 0 in float32: they would pass the clip.
LEAST_GRAD_NORM = 1e-12


@dataclass(frozen=True, kw_only=True)
class Mechanism:
    """The releases of one trial about its training records.

    `engine` names what takes the steps and `kind` says what it does: private (clips and
    adds noise of any size), plain (neither), prior (takes no step). `noise_decay` has
    d(t) for each epoch; empty: 1 for all.

    `num_records` (n), `expected_batch_size` (B) and everything derived from them are
    declared, public values. `noise_multiplier` is z0, `max_grad_norm` is C,
    `num_workers` is N and `num_microbatches` is M, over all workers of a step. Physical
    properties (number of processes, size of a pass) are no part of a mechanism.

    With unit "group" everything that counts records counts groups: n groups, B groups a
    step, `microbatch_size` groups clipped as one. A group's records (at most
    `max_records_per_group` of them, chosen without looking at other groups) are sampled
    together and their mean gradient is that group's one contribution, so a group is to
    this mechanism what a record is otherwise. Unit "couple" is a group of two records
    that a public permutation of the rows put together.

    `stages` are epochs of models that are trained one after another on the same records
    with the same noise, each from a step of its own on; empty: one model.
    `histogram_noise_multiplier` is the standard deviation of Gaussian noise on the
    counts of a histogram over all records, each in one bin, that is released before the
    first step; 0: there is none. With `num_steps` > 0 the trial has so many steps and
    an epoch is `steps_per_epoch` of them, the last one what is left.

    `starts` are exports that were trained on records of the same data set and that the
    trial reads as encoders: its epsilon is that of the composition
    (`releases.everything`).

    With `split`, the function that gives each unit its part, the trial covers every
    record of the data set: what it shows of validation and test records has noise, too,
    and `held_out_noise` is the noise of one evaluation over the sensitivity of its
    figures (`held_out`). Empty and 0: it covers the training records alone.
    """

    engine: str
    kind: Kind
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
    group_scale: GroupScale
    delta: float
    noise_decay: tuple[float, ...] = ()
    normalise: Normalise = "unit"  # of alpha_k
    cap: float | None = None  # on alpha_k, with normalise none
    unit: str = "record"
    max_records_per_group: int = 1
    reproducible_noise: bool = False
    undeclared: tuple[str, ...] = ()  # inputs read from private records without noise
    stages: tuple[int, ...] = ()
    histogram_noise_multiplier: float = 0.0
    num_steps: int = 0
    steps_per_epoch: int = 1  # with num_steps or sampling full
    starts: tuple[Start, ...] = ()
    split: str = ""
    held_out_noise: float = 0.0

    def __post_init__(self) -> None:
        _refuse_out_of_range(self)
        _refuse_uncovered(self)

    @property
    def sample_rate(self) -> float:
        """q = B / n: the probability of a record to be in a step under Poisson
        sampling.

        1 with full batches, where B = n.
        """
        return self.expected_batch_size / self.num_records

    def steps_until(self, epoch: int) -> int:
        """Steps taken before epoch t = `epoch` starts.

        Shuffle and random allocation: every epoch has ceil(n / B) steps. Poisson: an
        epoch is n / B steps on average, so its last step is rounded up over all epochs
        together, once for each stage. Full: an epoch has `steps_per_epoch` steps. An
        engine that trains nothing has none.
        """
        if not self.trains:
            return 0
        if self.num_steps:
            return min(epoch * self.steps_per_epoch, self.num_steps)
        if self.sampling == "full":
            return epoch * self.steps_per_epoch
        if self.sampling == "poisson":
            steps, left = 0, epoch
            for length in self.stages:
                steps += -(
                    -min(left, length) * self.num_records // self.expected_batch_size
                )
                left -= min(left, length)
            return steps + -(-left * self.num_records // self.expected_batch_size)
        return epoch * -(-self.num_records // self.expected_batch_size)

    def steps_in(self, epoch: int) -> int:
        """Steps of epoch t = `epoch`."""
        return self.steps_until(epoch + 1) - self.steps_until(epoch)

    @property
    def is_whole_batch(self) -> bool:
        """Whether every step has every record."""
        one_step = self.sampling == "shuffle" and self.steps == self.epochs
        return self.sampling == "full" or one_step

    @property
    def steps(self) -> int:
        """Steps of the whole trial."""
        return self.steps_until(self.epochs)

    @property
    def claims_privacy(self) -> bool:
        """Whether its engine clips and adds noise of any size."""
        return self.kind == "private"

    @property
    def trains(self) -> bool:
        """Whether its engine takes steps; else no record is read and nothing is
        released.
        """
        return self.kind != "prior"

    @property
    def is_free(self) -> bool:
        """Whether it releases nothing about any record: epsilon 0 under every
        accountant.
        """
        return not (self.trains or self.undeclared or self.held_out_noise)

    @property
    def is_private(self) -> bool:
        """Whether any noise is added at all."""
        return self.claims_privacy and self.noise_multiplier > 0

    def noise_multiplier_at(self, epoch: int) -> float:
        """z_t = z0 d(t)."""
        return self.noise_multiplier * (
            self.noise_decay[epoch] if self.noise_decay else 1.0
        )

    @property
    def sensitivity(self) -> float:
        """Largest L2 change of sum_j u_j between neighbouring data sets, in units of C.

        2 where a micro-batch has several records (one of them can reverse the clipped
        mean) or where a record is replaced; 1 for one record a micro-batch under
        add-or-remove, which means each drawn record separately, not bins of expected
        size one. A group is clipped like one record, whatever its size.
        """
        one = (
            self.microbatch_size == 1
            and self.neighboring_relation == "add_or_remove_one"
        )
        return 1.0 if one else 2.0

    def noise_on_sum_at(self, epoch: int) -> float:
        """s: standard deviation of the noise on the sum of all workers, in units of C,
        in the worst parameter group of the scaled space.
        """
        z = self.noise_multiplier_at(epoch)
        if self.noise_calibration == "central":
            return z
        return z / (math.sqrt(self.num_workers) * self.largest_group_scale)

    @property
    def largest_group_scale(self) -> float:
        """A bound on every alpha_k that needs no private data; infinite where there is
        none.
        """
        if self.group_scale == "none" or self.normalise == "unit":
            return 1.0
        if self.cap is None:
            return math.inf
        # Before its first release alpha_k is 1.
        return self.cap if self.group_scale == "public" else max(1.0, self.cap)

    def worker_noise_std_at(self, epoch: int) -> float:
        """Standard deviation, per coordinate, of the noise that each of the N workers
        adds to its sum of clipped micro-batch gradients.

        `paper`: C z / N, after the rescale by alpha_k. `central`: C z / sqrt(N), in
        scaled space, so that the N independent draws sum to C z.
        """
        z = self.noise_multiplier_at(epoch) * self.max_grad_norm
        if self.noise_calibration == "paper":
            return z / self.num_workers
        return z / math.sqrt(self.num_workers)

    def effective_noise_multiplier_at(self, epoch: int) -> float:
        """sigma_eff,t: noise over sensitivity in epoch t, the input of accountants."""
        if not self.is_private:
            return 0.0
        return self.noise_on_sum_at(epoch) / self.sensitivity

    @property
    def effective_histogram_noise_multiplier(self) -> float:
        """Noise over the L2 sensitivity of the histogram's counts.

        One record more or less changes one count by 1, one replaced changes two; a
        group's records may all be in one bin.
        """
        change = (
            1.0 if self.neighboring_relation == "add_or_remove_one" else math.sqrt(2)
        )
        return self.histogram_noise_multiplier / (change * self.max_records_per_group)

    @property
    def unaccounted(self) -> tuple[str, ...]:
        """Reasons why no finite epsilon holds; empty where one does."""
        reasons = []
        if not self.trains:
            return self.undeclared
        if not self.claims_privacy:
            reasons.append(f"no noise is added ({self.engine})")
        elif self.noise_multiplier == 0:
            reasons.append("no noise is added (noise_multiplier 0)")
        if self.reproducible_noise:
            reasons.append("noise key public (reproducible_noise)")
        if self.group_scale == "first_step" and self.claims_privacy:
            reasons.append(
                "alpha_k is the raw first gradient's (group_scale first_step)"
            )
        unbounded = math.isinf(self.largest_group_scale)
        if unbounded and self.noise_calibration == "paper" and self.claims_privacy:
            reasons.append(
                "alpha_k has no bound (group_scale.cap), noise is added after it"
            )
        return (*reasons, *self.undeclared)

    def first(self, epochs: int) -> Mechanism:
        """The mechanism of the first `epochs` epochs, for a trial stopped there."""
        return replace(self, epochs=epochs, noise_decay=self.noise_decay[:epochs])


def _refuse_out_of_range(mechanism: Mechanism) -> None:
    """Raises: InvalidInput for a number out of range."""
    if mechanism.kind not in get_args(Kind):
        raise InvalidInput(
            f"expected kind {' or '.join(get_args(Kind))}, got {mechanism.kind}"
        )
    if not 0 < mechanism.delta < 1:
        raise InvalidInput(f"expected 0 < delta < 1, got delta={mechanism.delta}")
    for name in ("noise_multiplier", "histogram_noise_multiplier", "held_out_noise"):
        value = getattr(mechanism, name)
        if not 0 <= value < math.inf:
            raise InvalidInput(f"expected a finite {name} >= 0, got {value}")
    decay, epochs = mechanism.noise_decay, mechanism.epochs
    if decay and (len(decay) < epochs or not all(0 <= d < math.inf for d in decay)):
        raise InvalidInput(
            f"expected a finite noise_decay >= 0 for each of {epochs} epochs, got"
            f" {quote(decay)}"
        )
    if not LEAST_GRAD_NORM <= mechanism.max_grad_norm < math.inf:
        raise InvalidInput(
            f"expected {LEAST_GRAD_NORM:g} <= max_grad_norm < inf, got"
            f" {mechanism.max_grad_norm}"
        )
    if mechanism.cap is not None and not 0 < mechanism.cap < math.inf:
        raise InvalidInput(f"expected 0 < cap < inf, got {mechanism.cap}")
    for name in (
        *("num_records", "expected_batch_size", "num_workers", "num_microbatches"),
        *("microbatch_size", "max_records_per_group", "steps_per_epoch"),
    ):
        if getattr(mechanism, name) < 1:
            raise InvalidInput(f"expected {name} >= 1, got {getattr(mechanism, name)}")
    if mechanism.num_steps < 0:
        raise InvalidInput(f"expected num_steps >= 0, got {mechanism.num_steps}")
    if mechanism.held_out_noise and not mechanism.split:
        raise InvalidInput("expected a split with held_out_noise, got none")
    if mechanism.epochs < 0 or any(epochs < 0 for epochs in mechanism.stages):
        raise InvalidInput(
            f"expected epochs >= 0, got epochs={mechanism.epochs},"
            f" stages={mechanism.stages}"
        )
    refuse_large_batch(
        mechanism.expected_batch_size,
        mechanism.num_records,
        undeclared=mechanism.undeclared,
    )


def refuse_large_batch(
    batch: int, num_records: int, *, undeclared: tuple[str, ...]
) -> None:
    """Refuse an expected `batch` of more than the `num_records` training records, whose
    sampling rate would exceed 1. The message has that number only where nothing is
    `undeclared`: it may have been counted on private records, and plans and reports
    keep the message.

    Raises: InvalidInput naming training.expected_batch_size.
    """
    if batch > num_records:
        known = "" if undeclared else f" ({num_records})"
        raise InvalidInput(
            "expected training.expected_batch_size to be at most the number of training"
            f" records{known}, got {batch}"
        )


def _refuse_uncovered(mechanism: Mechanism) -> None:
    """Raises: InvalidInput for a combination that no theorem covers."""
    if mechanism.num_steps and mechanism.sampling not in COUNTED_BY_STEPS:
        raise InvalidInput(
            f"expected sampling {' or '.join(COUNTED_BY_STEPS)} with num_steps (a"
            f" shuffled epoch is spent as a whole), got {mechanism.sampling}"
        )
    if mechanism.split and mechanism.neighboring_relation != "add_or_remove_one":
        raise InvalidInput(
            "expected privacy.sampling poisson, full or random_allocation with"
            " privacy.covers=all (a shuffled record can be replaced, not added or"
            f" removed, and would change two parts), got {mechanism.sampling}"
        )
    if not mechanism.claims_privacy:
        return
    if mechanism.noise_calibration == "paper" and (
        mechanism.num_microbatches != mechanism.num_workers
    ):
        raise InvalidInput(
            "expected one micro-batch a worker with noise_calibration paper (Algorithm"
            f" 1), got {mechanism.num_microbatches} micro-batches on"
            f" {mechanism.num_workers} workers"
        )
    if (
        mechanism.sampling == "shuffle"
        and mechanism.neighboring_relation != "replace_one"
    ):
        raise InvalidInput(
            "expected neighboring_relation replace_one with sampling shuffle,"
            f" got {mechanism.neighboring_relation}"
        )
    if (
        mechanism.sampling != "shuffle"
        and mechanism.neighboring_relation != "add_or_remove_one"
    ):
        raise InvalidInput(
            "expected neighboring_relation add_or_remove_one with sampling"
            f" {mechanism.sampling} (epsilon_replace_one is reported beside it), got"
            f" {mechanism.neighboring_relation}"
        )
