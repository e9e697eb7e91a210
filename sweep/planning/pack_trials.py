"""The packing of one sweep's trials on this machine, and a sentence about it."""

from __future__ import annotations

from collections.abc import Sequence

from search_spaces.parts import Resources
from search_spaces.space import SearchSpace
from sweep.planning.footprints import Footprints
from sweep.planning.packing import Packing, pack
from sweep.planning.resources import Machine, choose_slots, this_machine
from sweep.settings import Settings
from sweep.store.plans import Plan, PlannedTrial
from trainables.errors import InvalidInput
from trainables.formats import duration


def packing_for(
    space: SearchSpace,
    trials: Sequence[PlannedTrial],
    settings: Settings,
    *,
    address: str | None = None,
) -> Packing:
    """The packing of `trials` (and of those that the search is still to choose).

    Raises: InvalidInput where `workers` is auto for a cluster at an `address`, or this machine has
    no GPU for the executor local.
    """
    resources = space.resources
    if address is not None and resources.workers == "auto":
        raise InvalidInput("expected resources.workers as a number with --address, got auto")
    machine = machine_for(resources) if address is None else Machine(cpus=0, memory_bytes=0)
    chosen = (space.search.num_samples or 0) if space.search.is_adaptive else 0
    packing = pack(
        resources,
        logical=logical_workers(trials),
        trials=len(trials) + chosen,
        machine=machine,
        footprint=Footprints(settings).largest(trial.config for trial in trials),
    )
    if resources.executor == "local" and packing.gpus_per_worker:
        choose_slots(1, Packing(gpus_per_worker=packing.gpus_per_worker), machine)
    return packing


def machine_for(resources: Resources) -> Machine:
    """This machine, with its GPUs where the trials may use some."""
    return this_machine(with_gpus=resources.gpus_per_worker != 0)


def logical_workers(trials: Sequence[PlannedTrial]) -> int:
    """The smallest number of logical workers among trials; 1 without any."""
    return min((trial.config.training.num_workers for trial in trials), default=1)


def sentence(plan: Plan, resources: Resources, packing: Packing) -> str:
    """A sentence with the number of concurrent trials and the duration of the sweep."""
    if resources.executor == "local":
        return f"One after another in this process{', on its GPU' * bool(packing.gpus_per_worker)}."
    machine = machine_for(resources)
    logical = logical_workers(plan.to_run)
    slots = packing.slots_on(machine, logical=logical)
    workers = packing.processes(logical)
    parts = [f"{slots} at a time, {workers} {'process' if workers == 1 else 'processes'} each"]
    if packing.gpus_per_worker:
        parts.append(f"{packing.gpus_per_worker:g} GPU per process")
    held = f"{machine.cpus:g} CPUs"
    if packing.memory_per_worker:
        mib = packing.memory_per_worker / 2**20
        held += f", {machine.memory_bytes / 2**30:.0f} GiB free, {mib:,.0f} MiB per process"
    text = f"{', '.join(parts)} ({held})"
    if plan.seconds is not None and plan.to_run:
        seconds = packing.seconds(
            plan.seconds, slots=min(slots, max(1, len(plan.to_run))), logical=logical
        )
        text += f": about {duration(seconds)} in all"
    return f"{text}."
