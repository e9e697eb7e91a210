"""The mechanism of a trial as one frozen object, built from the config and read by the training
step and by every accountant, so that training and accounting cannot differ.

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
from trainables.privacy.covered import refuse_out_of_range, refuse_uncovered
from trainables.sections import (
    GroupScale,
    NeighboringRelation,
    NoiseCalibration,
    Normalise,
    Sampling,
)


@dataclass(frozen=True, kw_only=True)
class Mechanism:
    """The releases of one trial about its training records.

    `num_records` (n), `expected_batch_size` (B) and everything derived from them are declared,
    public values. `noise_multiplier` is z0, `max_grad_norm` is C, `num_workers` is N and
    `num_microbatches` is M, over all workers of a step. Physical properties (number of processes,
    size of a pass) are no part of a mechanism.

    With unit "group" everything that counts records counts groups: n groups, B groups a step,
    `microbatch_size` groups clipped as one. A group's records (at most `max_records_per_group` of
    them, chosen without looking at other groups) are sampled together and their mean gradient is
    that group's one contribution, so a group is to this mechanism what a record is otherwise. Unit
    "couple" is a group of two records that a public permutation of the rows put together.

    `stages` are epochs of models that are trained one after another on the same records with the
    same noise, each from a step of its own on; empty: one model. `histogram_noise_multiplier` is
    the standard deviation of Gaussian noise on the counts of a histogram over all records, each in
    one bin, that is released before the first step; 0: there is none. With `num_steps` > 0 the
    trial has so many steps and an epoch is `steps_per_epoch` of them, the last one what is left.
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
    delta: float
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

    def __post_init__(self) -> None:
        refuse_out_of_range(self)
        refuse_uncovered(self)

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
        stage. Full: an epoch has `steps_per_epoch` steps. An engine that trains nothing has none.
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
                steps += -(-min(left, length) * self.num_records // self.expected_batch_size)
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
        return claims_privacy(self.engine)

    @property
    def trains(self) -> bool:
        """Whether its engine takes steps; else no record is read and nothing is released."""
        return catalogue.kind_of("engines", self.engine) != "prior"

    @property
    def is_free(self) -> bool:
        """Whether it releases nothing about any record: epsilon 0 under every accountant."""
        return not self.trains and not self.undeclared

    @property
    def has_paper_figure(self) -> bool:
        """Whether the paper's epsilon is of the noise schedule of its engine."""
        # Its epochs are passes over the data.
        own = bool(catalogue.entry("engines", self.engine).PAPER_FIGURE)
        return own and not self.num_steps

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

        2 where a micro-batch has several records (one of them can reverse the clipped mean) or
        where a record is replaced; 1 for one record a micro-batch under add-or-remove, which means
        each drawn record separately, not bins of expected size one. A group is clipped like one
        record, whatever its size.
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
        return z / (math.sqrt(self.num_workers) * self.largest_group_scale)

    @property
    def largest_group_scale(self) -> float:
        """A bound on every alpha_k that needs no private data; infinite where there is none."""
        if self.group_scale == "none" or self.normalise == "unit":
            return 1.0
        if self.cap is None:
            return math.inf
        # Before its first release alpha_k is 1.
        return self.cap if self.group_scale == "public" else max(1.0, self.cap)

    def worker_noise_std_at(self, epoch: int) -> float:
        """Standard deviation, per coordinate, of the noise that each of the N workers adds to its
        sum of clipped micro-batch gradients.

        `paper`: C z / N, after the rescale by alpha_k. `central`: C z / sqrt(N), in scaled space,
        so that the N independent draws sum to C z.
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

        One record more or less changes one count by 1, one replaced changes two; a group's records
        may all be in one bin.
        """
        change = 1.0 if self.neighboring_relation == "add_or_remove_one" else math.sqrt(2)
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
            reasons.append("alpha_k is the raw first gradient's (group_scale first_step)")
        unbounded = math.isinf(self.largest_group_scale)
        if unbounded and self.noise_calibration == "paper" and self.claims_privacy:
            reasons.append("alpha_k has no bound (group_scale.cap), noise is added after it")
        return (*reasons, *self.undeclared)

    def first(self, epochs: int) -> Mechanism:
        """The mechanism of the first `epochs` epochs, for a trial stopped there."""
        return replace(self, epochs=epochs)


def claims_privacy(engine: str) -> bool:
    """Whether an engine clips and adds noise; True for one that is not installed.

    >>> claims_privacy("not installed")
    True
    """
    return catalogue.kind_of("engines", engine) not in ("plain", "prior")


@lru_cache(maxsize=65_536)
def _factor(kind: str, epoch: int, tau: float) -> float:
    """d(t); kept because finding a schedule's file costs more than evaluating it."""
    return float(catalogue.entry("schedules", kind).factor(epoch, tau=tau))
