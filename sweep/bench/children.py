"""Measurements in processes of their own: an engine's peak memory, and several workers at once.

Each is a fresh interpreter (`python -m sweep.bench.children`) that reads its task as JSON from
standard input and writes its answer as JSON to standard output: nothing that this process holds is
counted, and what fails is over with its process.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from sweep.bench.contestants import Arena, Spec
from sweep.bench.outcome import Found, Times
from trainables.errors import TrialFailed

_STEPS = 4  # of an engine, until its memory has reached its peak
_PATIENCE = 600.0  # seconds


def peak_memory(spec: Spec, engine: str) -> float:
    """MiB: the highest resident size of a process that takes a few steps of `engine` ("": none).

    With several workers: of one of them, with its share of the batch.
    """
    share = spec.fields["training"]["expected_batch_size"] // spec.workers
    training = {**spec.fields["training"], "expected_batch_size": share, "num_workers": 1}
    alone = replace(spec, workers=1, fields={**spec.fields, "training": training})
    (answer,) = _run([{"do": "peak", "engine": engine, "spec": _plain(alone)}])
    return float(answer["peak_mib"])


def team_rounds(spec: Spec) -> Found:
    """As `measure.rounds`, by `spec.workers` processes of this machine."""
    Arena(spec)  # refuses what cannot be, and writes the corpus' cached form: not all at once
    with tempfile.TemporaryDirectory() as folder:
        place = str(Path(folder) / "meeting")
        tasks = [
            {"do": "rounds", "rank": rank, "place": place, "spec": _plain(spec)}
            for rank in range(spec.workers)
        ]
        answer = _run(tasks)[0]
    return Found(
        times={name: Times(**value) for name, value in answer["times"].items()},
        skipped=answer["skipped"],
        num_records=answer["num_records"],
        steps_per_epoch=answer["steps_per_epoch"],
    )


def _plain(spec: Spec) -> dict[str, Any]:
    return {**asdict(spec), "data_dir": str(spec.data_dir), "cache_dir": str(spec.cache_dir)}


def _run(tasks: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The answers of one process a task, all at once.

    Raises: TrialFailed where one fails or takes too long; the others are stopped then.
    """
    command = [sys.executable, "-m", "sweep.bench.children"]
    with tempfile.TemporaryDirectory() as folder:
        answers = [Path(folder) / f"{number}.json" for number in range(len(tasks))]
        running: list[subprocess.Popen[bytes]] = []
        try:
            for task, answer in zip(tasks, answers, strict=True):
                process = subprocess.Popen(
                    command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=None
                )
                running.append(process)
                assert process.stdin is not None
                process.stdin.write(json.dumps({**task, "answer": str(answer)}).encode())
                process.stdin.close()
            codes = [process.wait(timeout=_PATIENCE) for process in running]
        except subprocess.TimeoutExpired:
            raise TrialFailed(f"a measuring process took longer than {_PATIENCE:g} s") from None
        finally:
            for process in running:
                process.kill()
                process.wait()
        if any(codes):
            raise TrialFailed(f"a measuring process ended with exit code {max(codes, key=abs)}")
        return [json.loads(answer.read_text(encoding="utf-8")) for answer in answers]


def _peak(spec: Spec, engine: str) -> dict[str, Any]:
    import torch

    torch.set_num_threads(1)
    arena = Arena(spec)
    if engine:
        step = arena.step_of(engine)
        for number in range(_STEPS):
            step(number)
    return {"peak_mib": _own_peak()}


def _own_peak() -> float:
    """MiB. Not `ru_maxrss` where it can be helped: a child inherits that from its parent."""
    status = Path("/proc/self/status")
    if status.exists():
        line = next(row for row in status.read_text().splitlines() if row.startswith("VmHWM"))
        return float(line.split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _rounds(spec: Spec, rank: int, place: str) -> dict[str, Any]:
    import torch.distributed as dist

    from sweep.bench.measure import rounds
    from sweep.torch_team import TorchComm

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


def _main() -> None:
    task = json.load(sys.stdin)
    given = task["spec"]
    paths = {name: Path(given[name]) for name in ("data_dir", "cache_dir")}
    spec = Spec(**{**given, **paths, "engines": tuple(given["engines"])})
    if task["do"] == "peak":
        answer = _peak(spec, task["engine"])
    else:
        answer = _rounds(spec, task["rank"], task["place"])
    Path(task["answer"]).write_text(json.dumps(answer), encoding="utf-8")


if __name__ == "__main__":
    _main()
