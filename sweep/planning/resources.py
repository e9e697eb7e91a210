"""The number of concurrent trials on a machine, and the refusal if none fits."""

import math
import os
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from search_spaces.parts import Resources
from sweep.store.plans import Plan
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
    nothing is refused. All have as many processes, no more than the one with the fewest
    logical workers.

    Raises: InvalidInput where the workers of one do not fit, or there is no GPU for the
    executor local.
    """
    logical = {trial.config.training.num_workers for trial in plan.to_run}
    logical |= {plan.workers} if plan.to_choose else set()
    gpus = gpu_share(resources.gpus_per_worker, machine)
    workers = min([resources.workers or max(logical, default=1), *logical])
    share = resources.model_copy(update={"workers": workers, "gpus_per_worker": gpus})
    if machine is not None:
        is_local = resources.executor == "local"
        choose_slots(Resources(gpus_per_worker=gpus) if is_local else share, machine)
    return share


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
        # A worker's GPU share is on one GPU.
        per_gpu = math.floor(1 / gpus_per_worker + 1e-9)
        seats = (
            gpus * per_gpu if per_gpu else math.floor(gpus / math.ceil(gpus_per_worker))
        )
        fits_gpu = math.floor(seats / workers)
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
    """A sentence with the number of concurrent trials on this machine, their workers
    and their GPUs.

    Raises: InvalidInput where one trial does not fit on this machine.
    """
    machine = this_machine(resources)
    share = share_of(resources, machine, plan)
    if resources.executor == "local":
        return f"One after another in this process{', on its GPU' * bool(share.gpus_per_worker)}."
    slots = choose_slots(share, machine)
    text = f"{slots} at a time, {count(share.workers or 1, 'worker')} each"
    if share.gpus_per_worker:
        text += f", {share.gpus_per_worker:g} GPU per worker"
    return f"{text} ({machine.cpus:g} CPUs)."


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
