"""The packing of a sweep's trials on a machine: processes a trial and slots.
Pure; the cost of a process comes from `footprints`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from search_spaces.parts import Resources
from sweep.planning.resources import Machine, Share, choose_slots, gpu_share
from trainables.system.footprint import Footprint

# The serial share of a step: two processes took 0.70 of one's time (docs/measurements.md), so
# w of them take 0.4 + 0.6 / w.
_UNDIVIDED = 0.4


@dataclass(frozen=True, kw_only=True)
class Packing(Share):
    """`Resources` with every field a number.

    `workers` None: as many processes as a trial has logical workers.
    """

    workers: int | None = None

    def processes(self, logical: int) -> int:
        """Processes of a trial, at most its number of logical workers.

        >>> Packing(workers=4).processes(2), Packing().processes(2)
        (2, 2)
        """
        return min(self.workers or logical, logical)

    def seconds(self, one_after_another: float, *, slots: int, logical: int) -> float:
        """Duration of trials that take `one_after_another` seconds with one process each."""
        return one_after_another * _time_share(self.processes(logical)) / slots

    def slots_on(self, machine: Machine, *, logical: int) -> int:
        """Trials at a time.

        Raises: InvalidInput where one trial, or `slots` trials, do not fit.
        """
        return choose_slots(self.processes(logical), self, machine)


def pack(
    resources: Resources,
    *,
    logical: int,
    trials: int,
    machine: Machine,
    footprint: Footprint | None = None,
) -> Packing:
    """The packing, with numbers for the fields of `resources` that are `auto` or missing.

    `logical` is the smallest number of logical workers of a trial, `trials` how many there are,
    `footprint` the largest of any of them (None: not measured).
    """
    memory = footprint.memory_bytes if footprint is not None else 0
    given = None if resources.slots == "auto" else resources.slots
    cpus = resources.cpus_per_worker
    workers = resources.workers
    if workers == "auto":
        workers = _processes(
            logical,
            trials=min(trials, given or trials),
            at_a_time=_seats(machine, cpus_per_worker=cpus, memory=memory),
        )
    return Packing(
        workers=workers,
        slots=given,
        cpus_per_worker=cpus,
        gpus_per_worker=gpu_share(resources.gpus_per_worker, machine),
        memory_per_worker=memory,
    )


def _seats(machine: Machine, *, cpus_per_worker: int, memory: int) -> int:
    """Number of processes that fit on the machine."""
    by_cpu = math.floor(machine.cpus / cpus_per_worker)
    return max(1, min(by_cpu, int(machine.memory_bytes // memory) if memory else by_cpu))


def _processes(logical: int, *, trials: int, at_a_time: int) -> int:
    """Processes of one trial that minimise the total time: many trials get one process each, few
    are spread over the machine. A trial's logical workers are shared evenly among its processes.
    """
    possible = [w for w in range(1, logical + 1) if logical % w == 0 and w <= at_a_time]

    def time(workers: int) -> float:
        rounds = math.ceil(trials / (at_a_time // workers))
        return rounds * _time_share(workers)

    return min(possible, key=time)


def _time_share(workers: int) -> float:
    """Time relative to one process, where so many share a trial."""
    return _UNDIVIDED + (1 - _UNDIVIDED) / workers
