"""The number of concurrent trials on a machine, and the refusal if none fits."""

from __future__ import annotations

import math
import os
import sys
from dataclasses import dataclass, replace
from pathlib import Path

from trainables.errors import InvalidInput

_DRIVERS = ("/dev/nvidiactl", "/dev/nvhost-gpu", "/dev/dxg", "/dev/kfd")


@dataclass(frozen=True, kw_only=True)
class Machine:
    """The resources that trials share: CPUs, bytes of free memory, GPUs."""

    cpus: float
    memory_bytes: float = math.inf
    gpus: float = 0


@dataclass(frozen=True, kw_only=True)
class Share:
    """The resources of a process, and the number of concurrent trials. `slots` None: as many as
    fit; `memory_per_worker` is in bytes, 0 if it was never measured.
    """

    slots: int | None = None
    cpus_per_worker: int = 1
    gpus_per_worker: float = 0.0
    memory_per_worker: int = 0


def choose_slots(workers: int, share: Share, machine: Machine) -> int:
    """Concurrent trials of `workers` processes on a machine or cluster: as many as fit, or `slots`
    where it is a number.

    Raises: InvalidInput where the workers of one trial, or of `slots` trials, do not fit.

    >>> choose_slots(2, Share(), Machine(cpus=8))
    4
    """
    slots, cpus_per_worker = share.slots, share.cpus_per_worker
    gpus_per_worker, memory_per_worker = share.gpus_per_worker, share.memory_per_worker
    cpus, gpus, memory = machine.cpus, machine.gpus, machine.memory_bytes
    fits = math.floor(cpus / (workers * cpus_per_worker))
    if fits < (slots or 1):
        raise InvalidInput(
            f"expected slots * workers * cpus_per_worker <= {cpus:g} CPUs, got"
            f" slots={slots or 1} * workers={workers} * cpus_per_worker={cpus_per_worker}"
        )
    if gpus_per_worker > 0:
        # A worker's GPU share is on one GPU.
        per_gpu = math.floor(1 / gpus_per_worker + 1e-9)
        seats = gpus * per_gpu if per_gpu else math.floor(gpus / math.ceil(gpus_per_worker))
        fits_gpu = math.floor(seats / workers)
        if fits_gpu < (slots or 1):
            raise InvalidInput(
                f"expected slots * workers * gpus_per_worker to fit on {gpus:g} GPUs, got"
                f" slots={slots or 1} * workers={workers} * gpus_per_worker={gpus_per_worker:g}"
            )
        fits = min(fits, fits_gpu)
    if memory_per_worker > 0 and not math.isinf(memory):
        # Measured memory is an estimate: one trial is always tried, and an explicit number is kept.
        fits = max(1, min(fits, math.floor(memory / (workers * memory_per_worker))))
    return slots or fits


def this_machine(*, with_gpus: bool) -> Machine:
    """This machine, without a tenth of its free memory; `with_gpus` counts its GPUs."""
    import psutil

    free = psutil.virtual_memory().available
    machine = Machine(cpus=machine_cpus(), memory_bytes=int(0.9 * min(free, _container_bytes())))
    return replace(machine, gpus=machine_gpus()) if with_gpus else machine


def machine_gpus() -> int:
    """GPUs that torch finds. It is imported only where a GPU's driver is: planning has no other
    need of it.
    """
    if "torch" not in sys.modules and not any(map(os.path.exists, _DRIVERS)):
        return 0
    import torch

    return torch.cuda.device_count()


def gpu_share(asked: float | None, machine: Machine) -> float:
    """GPUs of a worker: as asked, by default 1 where there are any."""
    return float(machine.gpus > 0) if asked is None else asked


def _container_bytes(cgroup: Path = Path("/sys/fs/cgroup")) -> float:
    """Free bytes of this process' container; infinite without a limit."""
    try:
        limit = (cgroup / "memory.max").read_text().strip()
        used = int((cgroup / "memory.current").read_text())
        return math.inf if limit == "max" else max(0, int(limit) - used)
    except (OSError, ValueError):
        return math.inf


def machine_cpus(cgroup: Path = Path("/sys/fs/cgroup/cpu.max")) -> int:
    """CPUs that this process may use: its affinity, or its container's quota where that is less."""
    available = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    cpus = available or 1
    try:
        quota, period = cgroup.read_text().split()
        limit = cpus if quota == "max" else int(quota) // int(period)
    except (OSError, ValueError):
        limit = cpus
    return max(1, min(cpus, limit))
