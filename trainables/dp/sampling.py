"""The sampling of records into steps, workers and units.

`shuffle`: a public permutation an epoch; every member in exactly one step, none twice.
`poisson`: every member in each step with probability q, drawn from the secret key over
all workers jointly; those drawn join one of the M micro-batches independently of each
other, or are alone where a micro-batch holds one record. `random_allocation`: every
member in exactly one step of an epoch, each equally likely and independently of the
others, drawn from the secret key. `full`: every member in every step, its micro-batch
drawn in the same way. Every process computes the whole step and keeps its workers'
part.

A member is a record, or a group of records where that is the unit of privacy: its
records are always together in one unit, which is clipped as one.
"""

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from trainables.dp.mechanism import Mechanism, Sampling
from trainables.dp.noise import SecretKey
from trainables.dp.population import Ids, Population
from trainables.dp.seeding import generator
from trainables.errors import InvalidInput


@dataclass(frozen=True, eq=False)
class SampledBatch:
    """One process' part of a step. Records of a unit are adjacent, units in rising
    order.

    `records` int64[R] ids; `unit` int64[R] in 0..U-1; `sizes` int64[U] records of each
    unit (0 allowed); `worker` int64[U] the logical worker of each. `num_drawn` counts
    the whole step's records, over all processes; private under Poisson sampling.
    """

    records: Ids
    unit: Ids
    sizes: Ids
    worker: Ids
    num_drawn: int

    @property
    def num_units(self) -> int:
        """U."""
        return len(self.sizes)

    @property
    def weights(self) -> NDArray[np.float32]:
        """float32[R]: 1 / size of the record's unit, so that a unit's gradient is a
        mean.
        """
        return (1.0 / self.sizes[self.unit]).astype(np.float32)

    def present(self, where: slice) -> tuple[int, Ids]:
        """The number of units of the records `where`, and the unit of each among
        those.
        """
        units, local = np.unique(self.unit[where], return_inverse=True)
        return len(units), local


class Sampler(Protocol):
    """What draws the units of a step. An engine asks it once for each step, in order;
    equal (epoch, step) must give the same draw, so that a resumed trial repeats it. An
    audit replaces it by one that gives chosen units.
    """

    def draw(self, epoch: int, step: int) -> SampledBatch:
        """This process' part of step `step` (from 0) of epoch `epoch`."""
        ...


@dataclass(kw_only=True, eq=False)
class _Assigned(Sampler):
    """Base of the samplers: from members and their micro-batches to the part of process
    `rank` of `world_size`. `seed` is public; `key` is secret, and its draws are those
    of a trial's attempt.
    """

    population: Population
    mechanism: Mechanism
    seed: int
    key: SecretKey
    trial_id: str = ""
    attempt: int = 0
    rank: int = 0
    world_size: int = 1

    def __post_init__(self) -> None:
        workers = self.mechanism.num_workers
        if workers % self.world_size:
            raise InvalidInput(
                "expected the number of processes to divide training.num_workers"
                f" ({workers}), got {self.world_size}"
            )
        each = workers // self.world_size
        self._first, self._last = self.rank * each, (self.rank + 1) * each

    def _coins(self, step: int) -> np.random.Generator:
        return self.key.coins(self.trial_id, self.attempt, step)

    def _part(self, members: Ids, microbatch: Ids) -> SampledBatch:
        """The part from `microbatch` int64[len(members)], ignored where each member is
        alone.
        """
        mechanism = self.mechanism
        if mechanism.microbatch_size == 1:
            # Spread evenly over the workers, which does not change the sum.
            worker = (
                np.arange(len(members)) * mechanism.num_workers // max(1, len(members))
            )
            mine = (worker >= self._first) & (worker < self._last)
            unit_of_member, worker_of_unit = np.arange(mine.sum()), worker[mine]
        else:
            per_worker = mechanism.num_microbatches // mechanism.num_workers
            low, high = self._first * per_worker, self._last * per_worker
            mine = (microbatch >= low) & (microbatch < high)
            unit_of_member = microbatch[mine] - low
            worker_of_unit = np.arange(low, high) // per_worker
        records, place = self.population.expand(members[mine])
        unit = unit_of_member[place]
        order = np.argsort(unit, kind="stable")
        return SampledBatch(
            records=records[order],
            unit=unit[order],
            sizes=np.bincount(unit, minlength=len(worker_of_unit)).astype(np.int64),
            worker=worker_of_unit,
            num_drawn=int(self.population.sizes[members].sum()),
        )


class Shuffle(_Assigned):
    """Each member in exactly one step of an epoch; steps differ by at most one member
    in size.

    The members of a smaller last batch are spread evenly over all steps, and within a
    step over the workers and their micro-batches.
    """

    _epoch: tuple[int, Ids] | None = None

    def draw(self, epoch: int, step: int) -> SampledBatch:
        """This process' part of the step."""
        microbatches = self.mechanism.num_microbatches
        # Where the order of one step's members changes nothing, equal batches are made
        # once.
        shared = self.mechanism.microbatch_size > 1 and microbatches > 1
        is_fixed = self.mechanism.is_whole_batch and not shared
        if self._epoch is None or self._epoch[0] != epoch:
            rng = generator(self.seed, "shuffle", epoch)
            size = len(self.population)
            self._epoch = (
                epoch,
                np.arange(size) if is_fixed else rng.permutation(size),
            )
        order, steps = self._epoch[1], self.mechanism.steps_in(epoch)
        members = order[step * len(order) // steps : (step + 1) * len(order) // steps]
        microbatch = np.arange(len(members)) * microbatches // max(1, len(members))
        return self._part(members, microbatch)


class Poisson(_Assigned):
    """Each member in each step with probability q = B / n of the mechanism,
    independently.
    """

    def draw(self, epoch: int, step: int) -> SampledBatch:
        """This process' part of the step."""
        rng = self._coins(self.mechanism.steps_until(epoch) + step)
        # n independent coins: their number of heads is binomial, and given it every set
        # of that size is equally likely.
        count = rng.binomial(len(self.population), self.mechanism.sample_rate)
        members = rng.choice(len(self.population), size=count, replace=False)
        microbatch = rng.integers(self.mechanism.num_microbatches, size=count)
        return self._part(members, microbatch)


class Full(_Assigned):
    """Every member in every step, in the order of the population. Where several share a
    micro-batch it is drawn once for each member, independently of the others. Assigned
    in turn, an added member would move all later ones, and with them every micro-batch.
    """

    _microbatch: Ids | None = None

    def draw(self, epoch: int, step: int) -> SampledBatch:
        """The same records at every step."""
        size, microbatches = len(self.population), self.mechanism.num_microbatches
        if self._microbatch is None:
            shared = (
                self.mechanism.claims_privacy and self.mechanism.microbatch_size > 1
            )
            self._microbatch = (
                self._coins(0).integers(microbatches, size=size)
                if shared
                else np.arange(size) % microbatches
            )
        return self._part(np.arange(size), self._microbatch)


class RandomAllocation(_Assigned):
    """Each member in exactly one step of an epoch, chosen uniformly and independently
    of the others (Feldman & Shenfeld 2025). Unlike in a permutation, an added member
    moves no other one.
    """

    _epoch: tuple[int, Ids, Ids] | None = None

    def draw(self, epoch: int, step: int) -> SampledBatch:
        """This process' part of the step."""
        if self._epoch is None or self._epoch[0] != epoch:
            rng = self._coins(self.mechanism.steps_until(epoch))
            size = len(self.population)
            steps = rng.integers(self.mechanism.steps_in(epoch), size=size)
            self._epoch = (
                epoch,
                steps,
                rng.integers(self.mechanism.num_microbatches, size=size),
            )
        _, steps, microbatch = self._epoch
        members = np.flatnonzero(steps == step)
        return self._part(members, microbatch[members])


def sampler(
    ids: Ids,
    mechanism: Mechanism,
    *,
    seed: int,
    groups: NDArray[Any] | None = None,
    text_keys: Ids | None = None,
    **how: Any,
) -> Sampler:
    """The sampler of a mechanism; `how` is the rest of its fields (`key`, `rank`, ...).
    Where the unit of privacy is a group, `groups` int[n] are the groups of `ids` and
    `text_keys` int64[n] key the choice of a group's records.
    """
    if (mechanism.unit == "record") != (groups is None):
        raise InvalidInput(
            "expected groups of the records exactly with privacy.unit=group (or"
            " couples), got unit"
            f" {mechanism.unit} {'without' if groups is None else 'with'} groups"
        )
    population = Population(
        ids,
        groups=groups,
        text_keys=text_keys,
        max_records_per_group=mechanism.max_records_per_group,
        seed=seed,
    )
    samplers: dict[Sampling, type[_Assigned]] = {
        "shuffle": Shuffle,
        "poisson": Poisson,
        "random_allocation": RandomAllocation,
        "full": Full,
    }
    made = samplers[mechanism.sampling]
    return made(population=population, mechanism=mechanism, seed=seed, **how)
