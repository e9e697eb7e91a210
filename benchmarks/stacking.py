"""What K stacked steps cost against K steps in turn: `resources.stack` pays where this is below 1.

    python benchmarks/stacking.py --members 1 2 4 8 --json stacking.json

Steps of K models of one architecture (ATIS, batch 32 each, one thread), through the same engines
that trials use: once each engine alone, once all in one pass. The two take turns; medians of the
ratio. On a CPU it is processor time, on a GPU wall-clock time with the device waited for.

With `--count`, in place of times: the operations that the gradients of one member start, in the
form that an accelerator runs (it is run here on the CPU). Small models leave a GPU waiting for
starts, so this is a sign of what stacking may save there, and no measurement.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from sweep.bench.contestants import Arena, SameBatches, Spec
from sweep.settings import from_environment
from trainables import catalogue
from trainables.communication import Alone
from trainables.data.batches import Loader
from trainables.engines import Engine, GradientSource, PostedSource, Request, Setup, Stack
from trainables.layers.stacked import blocks, lstm
from trainables.privacy.mechanism import build
from trainables.privacy.noise import public_key
from trainables.stacked_trial import Ask, Lane

MODELS: dict[str, dict[str, Any]] = {
    "clc small": {"name": "clc", "hidden_size": 64, "num_layers": 1},
    "clc": {"name": "clc"},
    "bert small": {"name": "bert", "hidden_size": 96, "num_heads": 4, "num_layers": 2}
    | {"intermediate_size": 256},
    "bert": {"name": "bert"},
}
_WARM_UP = 2


_NO_KERNEL = ("empty", "new_empty", "detach", "_local_scalar_dense", "lift_fresh", "_to_copy")


def _yes(_: torch.device) -> bool:
    return True


class Starts(TorchDispatchMode):
    """Counts operations that do work: no views, no allocations."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch's
        self.count = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Run and count `func`."""
        name = func._schema.name.removeprefix("aten::")
        self.count += not func.is_view and not name.startswith(_NO_KERNEL)
        return func(*args, **(kwargs or {}))


class Team:
    """K engines over models of one architecture, stepped in turn or in one stack."""

    def __init__(self, arena: Arena, engine: str, num_members: int, device: str) -> None:
        self._arena, self._name, self._device = arena, engine, device
        self._number = -1
        self._plain = [self._engine(seed, GradientSource) for seed in range(num_members)]
        self._lanes = [Lane(self._work(seed)) for seed in range(num_members)]
        self._stack = Stack()
        self._answers: list[Any] = [None] * num_members

    def in_turn(self) -> None:
        """A step of each member, alone."""
        self._number += 1
        for engine in self._plain:
            engine.step(0, self._number)
        self._wait()

    def stacked(self) -> None:
        """A step of each member: every lane goes from one gradient's answer to the next request."""
        requests = [
            lane.run_on(answer) for lane, answer in zip(self._lanes, self._answers, strict=True)
        ]
        for request in requests:
            if not isinstance(request, Request):
                raise TypeError(f"expected a request for a gradient, got {request!r}")
        self._answers = list(self._stack.answer(requests))
        self._wait()

    def count(self) -> float:
        """Operations started for one member's gradients in the stacked form of an accelerator."""
        requests = [
            lane.run_on(answer) for lane, answer in zip(self._lanes, self._answers, strict=True)
        ]
        with (
            mock.patch.object(blocks, "in_batches", _yes),
            mock.patch.object(lstm, "in_batches", _yes),
            Starts() as starts,
        ):
            self._answers = list(self._stack.answer(requests))
        count: int = starts.count
        return count / len(requests)

    def end(self) -> None:
        """Let the threads go."""
        for lane in self._lanes:
            lane.abandon()

    def _wait(self) -> None:
        if self._device == "cuda":
            torch.cuda.synchronize()

    def _work(self, seed: int) -> Callable[[Ask], Any]:
        def work(ask: Ask) -> None:
            engine = self._engine(seed, lambda model: PostedSource(model, ask))
            step = 0
            while True:
                engine.step(0, step)
                step += 1

        return work

    def _engine(self, seed: int, gradients: Callable[[Any], GradientSource]) -> Engine:
        arena, config = self._arena, self._arena.spec.config(self._name)
        model = catalogue.entry("models", config.model.name).build(
            config.model, schema=arena.corpus.schema, seed=seed
        )
        loader = Loader(arena.corpus, model.feature_table(list(arena.corpus.types)))
        mechanism = build(config, num_records=arena.num_records)
        # Every member draws batches of its own, as trials with different seeds do.
        batches = arena.batches[seed:] + arena.batches[:seed]
        made: Engine = catalogue.entry("engines", config.engine).make(
            model.to(self._device),
            mechanism,
            Setup(
                loader=loader,
                ids=np.arange(arena.corpus.num_records),
                learning_rate=config.training.learning_rate,
                key=public_key(seed, "benchmark"),
                comm=Alone(),
                sampler=SameBatches(batches, per_record=mechanism.microbatch_size == 1),
                gradients=gradients,
            ),
        )
        return made


def ratio(team: Team, *, repeats: int, clock: Callable[[], float]) -> dict[str, float]:
    """Seconds of K steps in turn and stacked, medians, and the median of their ratio."""
    found: list[tuple[float, float]] = []
    for _ in range(_WARM_UP + repeats):
        began = clock()
        team.in_turn()
        middle = clock()
        team.stacked()
        found.append((middle - began, clock() - middle))
    kept = found[_WARM_UP:]
    ratios = sorted(stacked / plain for plain, stacked in kept)
    return {
        "in_turn": statistics.median(plain for plain, _ in kept),
        "stacked": statistics.median(stacked for _, stacked in kept),
        "ratio": statistics.median(ratios),
        "lowest": ratios[0],
        "highest": ratios[-1],
    }


def main() -> None:
    """Print a table; with --json, write the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--engines", nargs="+", default=["sgd", "edp_sgd", "dp_sgd"])
    parser.add_argument("--members", nargs="+", type=int, default=[1, 2, 4, 8])
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--data", default="atis")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--count", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    clock = time.perf_counter if device == "cuda" else time.process_time
    settings = from_environment()
    rows = []
    what = "operations started a member" if options.count else "stacked over in turn"
    print(f"{what}, {device}, {options.data}, batch {options.batch_size}")
    print(f"{'model':<12}{'engine':<9}" + "".join(f"{f'K={k}':>24}" for k in options.members))
    for name in options.models:
        fields = {
            "data": {"name": options.data},
            "model": MODELS[name],
            "training": {"expected_batch_size": options.batch_size, "epochs": 1000},
        }
        arena = Arena(Spec(fields=fields, data_dir=settings.data_dir, cache_dir=settings.cache_dir))
        for engine in options.engines:
            cells = []
            for members in options.members:
                team = Team(arena, engine, members, device)
                if options.count:
                    cells.append(f"{team.count():>24.0f}")
                    team.end()
                    continue
                found = ratio(team, repeats=options.repeats, clock=clock)
                team.end()
                rows.append({"model": name, "engine": engine, "members": members} | found)
                spread = f"({found['lowest']:.2f} .. {found['highest']:.2f})"
                cells.append(f"{found['ratio']:>8.2f} {spread:>15}")
            print(f"{name:<12}{engine:<9}" + "".join(cells), flush=True)
    if options.json:
        about = {"device": device, "processor": platform.processor(), "torch": torch.__version__}
        about |= {"data": options.data, "batch_size": options.batch_size}
        options.json.write_text(json.dumps({**about, "rows": rows}, indent=2), encoding="utf-8")


if __name__ == "__main__":
    main()
