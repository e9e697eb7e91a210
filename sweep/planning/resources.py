"""The number of concurrent trials on a machine, and the refusal if none fits."""

import math
import os
import sys
from collections import Counter
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from search_spaces.parts import Resources
from sweep.store.plans import Plan
from trainables.config.trial import TrialConfig
from trainables.errors import InvalidInput
from trainables.formats import count

_DRIVERS = ("/dev/nvidiactl", "/dev/nvhost-gpu", "/dev/dxg", "/dev/kfd")
_UNKNOWN = 2 * 2**30  # bytes of a worker before one has said its peak
_USABLE = 0.9  # of the memory: Ray kills workers where 0.95 is in use


@dataclass(frozen=True, kw_only=True)
class Machine:
    """The resources that trials share: CPUs, bytes of free memory (infinite: not
    known), GPUs. Of a cluster they are those of all its nodes together.
    """

    cpus: float
    memory_bytes: float = math.inf
    gpus: float = 0


def share_of(resources: Resources, machine: Machine | None, plan: Plan) -> Resources:
    """What the trials of a plan get on `machine`; None: it is not known yet, and
    nothing is refused. Each trial has a number of workers of its own (`workers_of`):
    the largest of them, where the plan has several.

    Raises: InvalidInput where the workers of one do not fit, or there is no GPU for the
    executor local.
    """
    gpus = gpu_share(resources.gpus_per_worker, machine)
    share = resources.model_copy(update={"gpus_per_worker": gpus})
    if resources.executor == "local":
        if machine is not None:
            choose_slots(Resources(gpus_per_worker=gpus), machine)
        return share.model_copy(update={"workers": 1})
    shapes = shapes_of(share, machine, plan)
    share = share.model_copy(update={"workers": max(shapes, default=1)})
    if machine is not None:
        choose_slots(share, machine)
    return share


def shapes_of(
    resources: Resources, machine: Machine | None, plan: Plan
) -> dict[int, dict[int, int]]:
    """The numbers of workers of a plan's trials, the largest first: of each the numbers
    of logical workers that it serves, with their numbers of trials.
    """
    trials = Counter(logical_workers(plan, trial.config) for trial in plan.to_run)
    if plan.to_choose:
        trials[plan.workers] += plan.to_choose
    shapes: dict[int, dict[int, int]] = {}
    for logical, number in sorted(trials.items(), reverse=True):
        workers = workers_of(logical, resources, machine)
        shapes.setdefault(workers, {})[logical] = number
    return dict(sorted(shapes.items(), reverse=True))


def logical_workers(plan: Plan, config: TrialConfig) -> int:
    """The logical workers of a trial, or those that all trials of an adaptive search
    share, so that one group of processes serves them.
    """
    return plan.workers if plan.to_choose else int(config.training.num_workers)


def workers_of(logical: int, resources: Resources, machine: Machine | None) -> int:
    """The worker processes of a trial of `logical` workers: the largest divisor of
    their number that is at most `resources.workers`, or by default fits on the machine.

    >>> workers_of(8, Resources(), Machine(cpus=6))
    4
    >>> workers_of(8, Resources(gpus_per_worker=1), Machine(cpus=6, gpus=1))
    1
    """
    most = float(resources.workers or logical)
    if resources.workers is None and machine is not None:
        seats = _seats(resources, machine)
        most = seats // (resources.slots or 1)
    divisors = (each for each in range(1, logical + 1) if logical % each == 0)
    return max((each for each in divisors if each <= most), default=1)


def _seats(resources: Resources, machine: Machine) -> int:
    """The worker processes that fit on the CPUs and the GPUs of a machine."""
    seats = math.floor(machine.cpus / resources.cpus_per_worker)
    if share := resources.gpus_per_worker:
        seats = min(seats, _gpu_seats(share, machine))
    return seats


def _gpu_seats(share: float, machine: Machine) -> int:
    """The workers with `share` of a GPU that fit; each share is on one GPU."""
    per_gpu = math.floor(1 / share + 1e-9)
    return math.floor(
        machine.gpus * per_gpu if per_gpu else machine.gpus / math.ceil(share)
    )


def choose_slots(share: Resources, machine: Machine) -> int:
    """Concurrent trials on a machine or cluster: as many as fit, or `slots` where it is
    a number.

    Raises: InvalidInput where the workers of one trial, or of `slots` trials, do not
    fit.

    >>> choose_slots(Resources(workers=2), Machine(cpus=8))
    4
    """
    workers, asked = share.workers or 1, share.slots or 1
    gpus_per_worker, gpus = share.gpus_per_worker or 0.0, machine.gpus
    fits = math.floor(machine.cpus / (workers * share.cpus_per_worker))
    if fits < asked:
        raise InvalidInput(
            f"expected slots * workers * cpus_per_worker <= {machine.cpus:g} CPUs, got"
            f" slots={asked} * workers={workers} *"
            f" cpus_per_worker={share.cpus_per_worker}"
        )
    if gpus_per_worker > 0:
        fits_gpu = _gpu_seats(gpus_per_worker, machine) // workers
        if fits_gpu < asked:
            raise InvalidInput(
                f"expected slots * workers * gpus_per_worker to fit on {gpus:g} GPUs,"
                f" got slots={asked} * workers={workers} *"
                f" gpus_per_worker={gpus_per_worker:g}"
            )
        fits = min(fits, fits_gpu)
    return share.slots or fits


def fit_into_memory(slots: int, *, workers: int, peak: int, memory: float) -> int:
    """Of `slots` concurrent trials those that fit into `memory` bytes, at least one,
    where the largest process has taken `peak` bytes; 0: none has run, and 2 GiB are
    assumed.

    >>> fit_into_memory(8, workers=2, peak=2**30, memory=12 * 2**30)
    5
    """
    return max(1, int(min(slots, _USABLE * memory / (workers * (peak or _UNKNOWN)))))


def sentence(plan: Plan, resources: Resources) -> str:
    """How many trials run at a time on this machine, with how many workers, and why.

    Raises: InvalidInput where one trial does not fit on this machine.
    """
    machine = this_machine(resources)
    share = share_of(resources, machine, plan)
    if resources.executor == "local":
        return f"One after another in this process{', on its GPU' * bool(share.gpus_per_worker)}."
    shared = resources.model_copy(update={"gpus_per_worker": share.gpus_per_worker})
    shapes = shapes_of(shared, machine, plan)
    parts = []
    for workers, served in shapes.items():
        slots = choose_slots(share.model_copy(update={"workers": workers}), machine)
        text = f"{slots} at a time, {count(workers, 'worker')} each"
        if len(shapes) > 1:
            text = f"{count(sum(served.values()), 'trial')} {text}"
        parts.append(f"{text} ({_why(workers, served, resources)})")
    text = ", then ".join(parts)
    if share.gpus_per_worker:
        text += f", {share.gpus_per_worker:g} GPU per worker"
    there = f"{machine.cpus:g} CPUs"
    if machine.gpus:
        there += f", {count(int(machine.gpus), 'GPU')}"
    return f"{text}; {there}."


def _why(workers: int, served: Collection[int], resources: Resources) -> str:
    """Why trials of these numbers of logical workers have so many processes."""
    named = f"training.num_workers={' and '.join(map(str, sorted(served)))}"
    if all(workers == logical for logical in served):
        return named
    limit = (
        "fits"
        if resources.workers is None
        else (f"resources.workers={resources.workers} allows")
    )
    return f"the largest divisor of {named} that {limit}"


def this_machine(resources: Resources) -> Machine:
    """This machine: the CPUs that this process may use, and its GPUs where the trials
    may use some. Its memory is left unknown; Ray measures it.
    """
    return Machine(
        cpus=machine_cpus(),
        gpus=machine_gpus() if resources.gpus_per_worker != 0 else 0,
    )


def machine_gpus() -> int:
    """The number of GPUs that torch finds. Torch, which takes seconds, is imported only
    where a driver of a GPU is: planning has no other need of it.
    """
    if "torch" not in sys.modules and not any(map(os.path.exists, _DRIVERS)):
        return 0
    import torch

    return torch.cuda.device_count()


def gpu_share(asked: float | None, machine: Machine | None) -> float | None:
    """The GPUs of one worker, a share of one where it is below 1: as `asked`, by
    default 1 where the machine has any, else 0. None where that is unknown, because the
    machine is.
    """
    return asked if asked is not None or machine is None else float(machine.gpus > 0)


def machine_cpus(cgroup: Path = Path("/sys/fs/cgroup/cpu.max")) -> int:
    """The CPUs that this process may use, at least 1: its affinity, or the quota of its
    container where that is less. `cgroup` is the file that has the quota.
    """
    available = (
        len(os.sched_getaffinity(0))
        if hasattr(os, "sched_getaffinity")
        else os.cpu_count()
    )
    cpus = available or 1
    with suppress(OSError, ValueError):  # there is no file, or the quota is "max"
        quota, period = cgroup.read_text().split()
        cpus = min(cpus, int(quota) // int(period))
    return max(1, cpus)
