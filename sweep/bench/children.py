"""Measurements in separate processes: an engine's peak memory, and several workers at once."""

from __future__ import annotations

import tempfile
from dataclasses import asdict, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from sweep.bench.contestants import Arena, Spec
from sweep.bench.outcome import Found
from sweep.planning.child_processes import answer_task, run_children
from trainables.system import footprint

_STEPS = 4  # of an engine, until its memory has reached its peak
_PATIENCE = 600.0  # seconds
_MODULE = "sweep.bench.children"
_SPEC = TypeAdapter(Spec)


def peak_memory(spec: Spec, engine: str) -> float:
    """MiB: the highest resident size of a process that takes a few steps of `engine` ("": none).

    With several workers: of one of them, with its share of the batch.
    """
    share = spec.fields["training"]["expected_batch_size"] // spec.workers
    training = {**spec.fields["training"], "expected_batch_size": share, "num_workers": 1}
    alone = replace(spec, workers=1, fields={**spec.fields, "training": training})
    task = {"do": "peak", "engine": engine, "spec": _SPEC.dump_python(alone, mode="json")}
    (answer,) = run_children(_MODULE, [task], patience=_PATIENCE)
    return float(answer["peak_mib"])


def team_rounds(spec: Spec) -> Found:
    """As `rounds.rounds`, by `spec.workers` processes of this machine."""
    Arena(spec)  # checks the input and writes the corpus' cache before the processes start
    with tempfile.TemporaryDirectory() as folder:
        place, given = str(Path(folder) / "meeting"), _SPEC.dump_python(spec, mode="json")
        tasks = [
            {"do": "rounds", "rank": rank, "place": place, "spec": given}
            for rank in range(spec.workers)
        ]
        answer = run_children(_MODULE, tasks, patience=_PATIENCE)[0]
    return TypeAdapter(Found).validate_python(answer)


def _peak(spec: Spec, engine: str) -> dict[str, Any]:
    import torch

    torch.set_num_threads(1)
    arena = Arena(spec)
    if engine:
        step = arena.step_of(engine)
        for number in range(_STEPS):
            step(number)
    return {"peak_mib": footprint.peak_memory() / 2**20}


def _rounds(spec: Spec, rank: int, place: str) -> dict[str, Any]:
    import torch.distributed as dist

    from sweep.bench.rounds import rounds
    from sweep.runtime.torch_team import TorchComm

    dist.init_process_group(
        "gloo",
        init_method=f"file://{place}",
        rank=rank,
        world_size=spec.workers,
        timeout=timedelta(seconds=_PATIENCE),
    )
    try:
        group = dist.group.WORLD
        assert group is not None
        arena = Arena(spec, TorchComm(group, group))
        return asdict(rounds(spec, say=lambda _: None, arena=arena))
    finally:
        dist.destroy_process_group()


def _do(task: dict[str, Any]) -> dict[str, Any]:
    spec = _SPEC.validate_python(task["spec"])
    if task["do"] == "peak":
        return _peak(spec, task["engine"])
    return _rounds(spec, task["rank"], task["place"])


if __name__ == "__main__":
    answer_task(_do)
