"""The cost of a training step of each engine, compared in one run.

    python benchmarks/bench.py --data atis --model clc --batch-size 32 [--memory]

SGD, eDP-SGD and DP-SGD of this project, a padded stock model with Adam (`stock`), and the same with
one backward pass a record, clipped and noised (`naive`). All take turns on the same records, from
record ids to updated weights, one thread each, so that a slow machine affects them alike. Processor
milliseconds are medians; factors are medians of the ratios within a round, with quartiles.
`--workers`: processes that share a batch; a step's time is then the slowest one's. `--memory`: the
peak of a process of its own for each engine. `compared` and `compared_first` are DP-SGD whose
every step recomputes clipped sums as a trial does in one step an epoch, and in its first; both
beside `dp_sgd` print what that costs a trial of 20 epochs.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import stock
import torch
import torch.distributed as dist
from torch import nn
from torch.multiprocessing.spawn import start_processes

from sweep.runtime.torch_team import TorchComm
from sweep.settings import from_environment
from trainables import catalogue
from trainables.config import TrialConfig, parse
from trainables.data.batches import Loader
from trainables.data.corpus import Corpus, open_corpus
from trainables.data.split import make_split
from trainables.engines import Setup
from trainables.errors import InvalidInput
from trainables.guarantee.noise import public_key
from trainables.guarantee.sampling import Draw
from trainables.privacy.from_config import build
from trainables.privacy.learning_rate import learning_rate_of
from trainables.system import memory
from trainables.system.communication import Alone, Communicator
from trainables.tasks._setup import trainable_ids

BASELINE = "sgd"
OURS = (BASELINE, "edp_sgd", "dp_sgd")
COMPARED = ("compared", "compared_first")
ENGINES = ("stock", *OURS, "naive")  # by default
CHOICES = (*ENGINES, *COMPARED)
_NUM_BATCHES = 64  # number of distinct batches, which are then repeated
_WARM_UP, _LEAST = 2, 2  # steps before, and the least that are measured
Step = Callable[[int], None]


@dataclass(frozen=True, kw_only=True)
class Spec:
    """A trial's fields without its engine, and how much is measured. `seconds`: of processor, after
    which an engine is measured no further.
    """

    fields: dict[str, Any]
    engines: tuple[str, ...] = ENGINES
    repeats: int = 10
    workers: int = 1
    seconds: float = 15.0

    def config(self, engine: str) -> TrialConfig:
        """The config of a trial with this engine; those that are not ours get the baseline's.

        Raises: InvalidInput for fields that no trial could have.
        """
        training = {**self.fields.get("training", {}), "epochs": 1000}  # steps never run out
        name = "dp_sgd" if engine in COMPARED else engine if engine in OURS else BASELINE
        return parse({**self.fields, "training": training, "engine": name})


@dataclass(frozen=True, kw_only=True)
class Times:
    """Processor and wall-clock seconds of each measured step, the slowest worker's of each."""

    cpu: tuple[float, ...]
    wall: tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class SameBatches:
    """A sampler whose step t has the same records for every engine: this process' share, a unit
    each or one for each of its logical workers.
    """

    batches: list[np.ndarray]
    per_record: bool
    num_workers: int

    def draw(self, epoch: int, step: int) -> Draw:
        """Step `step`'s records."""
        records = self.batches[step % len(self.batches)]
        size = len(records)
        worker = np.arange(size) * self.num_workers // size
        units = np.arange(size) if self.per_record else worker
        num_units = size if self.per_record else self.num_workers
        return Draw(
            records=records,
            unit=units,
            sizes=np.bincount(units, minlength=num_units).astype(np.int64),
            worker=worker if self.per_record else np.arange(num_units),
            num_drawn=size,
        )


class Arena:
    """The corpus, the batches and the model sizes that all engines of one process share.

    Raises: InvalidInput where there are fewer training records than a batch has.
    """

    def __init__(self, spec: Spec, comm: Communicator | None = None) -> None:
        self.spec = spec
        self.comm: Communicator = comm or Alone()
        config, settings = spec.config(BASELINE), from_environment()
        self.corpus: Corpus = open_corpus(
            config.data, data_dir=settings.data_dir, cache_dir=settings.cache_dir
        )
        ids = trainable_ids(
            self.corpus, make_split(config.data, corpus=self.corpus, mask_seed=0).train
        )
        self.num_records = len(ids)
        self.batch_size = config.training.expected_batch_size
        self.steps_per_epoch = -(-self.num_records // self.batch_size)
        if self.num_records < self.batch_size or self.batch_size % spec.workers:
            raise InvalidInput(
                f"expected a batch size of at most {self.num_records} training records and a"
                f" multiple of {spec.workers} workers, got {self.batch_size}"
            )
        rng = np.random.default_rng(0)
        whole = [rng.choice(ids, self.batch_size, replace=False) for _ in range(_NUM_BATCHES)]
        self.batches = [batch[self.comm.rank :: spec.workers] for batch in whole]
        self._table: Any = None

    def model_of(self, config: TrialConfig) -> tuple[Any, Loader]:
        """A fresh model of the config, and the loader of its batches."""
        model = catalogue.entry("models", config.model.name).build(
            config.model, schema=self.corpus.schema, seed=0
        )
        if self._table is None:  # the pieces of all distinct tokens, the same for every engine
            self._table = model.feature_table(list(self.corpus.types))
        return model, Loader(self.corpus, self._table)

    def records_of(self, number: int) -> np.ndarray:
        """This worker's records of a step."""
        return self.batches[number % len(self.batches)]

    def step_of(self, engine: str) -> Step:
        """The step function of an engine, called with the number of the step."""
        config = self.spec.config(engine)
        model, loader = self.model_of(config)
        if engine in (*OURS, *COMPARED):
            return self._ours(config, model, loader, name=engine)
        made: nn.Module = stock.build(model, config.model)
        optimizer = torch.optim.Adam(made.parameters(), lr=1e-3, fused=True)
        if engine == "stock" and self.spec.workers > 1:
            made = nn.parallel.DistributedDataParallel(made)

        def plain(number: int) -> None:
            batch = stock.pad_batch(loader.batch(self.records_of(number)))
            optimizer.zero_grad()
            made(batch).mean().backward()
            optimizer.step()

        parameters = list(made.parameters())

        def naive(number: int) -> None:
            sums = [torch.zeros_like(p) for p in parameters]
            for record in self.records_of(number):
                batch = stock.pad_batch(loader.batch(np.array([record])))
                optimizer.zero_grad()
                made(batch).sum().backward()
                grads = [torch.zeros_like(p) if p.grad is None else p.grad for p in parameters]
                norm = torch.stack(torch._foreach_norm(grads)).norm()
                torch._foreach_add_(sums, grads, alpha=float((1 / norm).clamp(max=1)))
            for parameter, total in zip(parameters, sums, strict=True):
                parameter.grad = (total + torch.randn_like(total)) / self.batch_size
            optimizer.step()

        return plain if engine == "stock" else naive

    def _ours(self, config: TrialConfig, model: Any, loader: Loader, *, name: str) -> Step:
        mechanism = build(config, num_records=self.num_records)
        sampler = SameBatches(
            batches=self.batches,
            per_record=mechanism.microbatch_size == 1,
            num_workers=mechanism.num_workers // self.spec.workers,
        )
        engine = catalogue.entry("engines", config.engine).make(
            model,
            mechanism,
            Setup(
                loader=loader,
                ids=np.arange(self.corpus.num_records),
                learning_rate=learning_rate_of(config.training.learning_rate, mechanism),
                precision=config.training.precision,
                key=public_key(0, "benchmark"),
                comm=self.comm,
                sampler=sampler,
            ),
        )
        per_epoch = mechanism.steps_in(0)
        if name == COMPARED[0]:  # the last step of an epoch is, at the latest
            return lambda number: engine.step(number + 1, mechanism.steps_in(number + 1) - 1)

        def first(number: int) -> None:
            engine._schedule._is_first = True
            engine.step(0, number)

        if name == COMPARED[1]:
            return first
        return lambda number: engine.step(number // per_epoch, number % per_epoch)


def rounds(spec: Spec, arena: Arena | None = None) -> dict[str, Times]:
    """The times of each engine, which take turns of a step each. Every process of a team makes the
    same calls, and each gets the slowest one's times.
    """
    torch.set_num_threads(1)
    arena = arena or Arena(spec)
    alone = [e for e in spec.engines if e != "naive" or spec.workers == 1]
    steps = {engine: arena.step_of(engine) for engine in alone}
    found: dict[str, list[list[float]]] = {engine: [] for engine in steps}
    spent = dict.fromkeys(steps, 0.0)
    for number in range(_WARM_UP + spec.repeats):
        for engine, step in steps.items():
            if spent[engine] > spec.seconds and len(found[engine]) >= _LEAST:
                continue
            cpu, wall = time.process_time(), time.perf_counter()
            step(number)
            took = [time.process_time() - cpu, time.perf_counter() - wall]
            if spec.workers > 1:
                slowest = torch.tensor(took, dtype=torch.float64)
                dist.all_reduce(slowest, op=dist.ReduceOp.MAX)
                took = slowest.tolist()
            spent[engine] += took[0]
            if number >= _WARM_UP:
                found[engine].append(took)
    return {
        engine: Times(cpu=tuple(t[0] for t in each), wall=tuple(t[1] for t in each))
        for engine, each in found.items()
    }


def team_rounds(spec: Spec) -> dict[str, Times]:
    """As `rounds`, by `spec.workers` processes of this machine that share each batch."""
    if spec.workers == 1:
        return rounds(spec)
    Arena(spec)  # checks the input and writes the corpus' cache before the processes start
    with tempfile.TemporaryDirectory() as folder:
        start_processes(_member, (spec, folder), spec.workers)  # type: ignore[no-untyped-call]
        answer = json.loads((Path(folder) / "answer").read_text())
    return {e: Times(cpu=tuple(t["cpu"]), wall=tuple(t["wall"])) for e, t in answer.items()}


def _member(rank: int, spec: Spec, folder: str) -> None:
    place = f"file://{folder}/meeting"
    dist.init_process_group("gloo", init_method=place, rank=rank, world_size=spec.workers)
    group = dist.group.WORLD
    assert group is not None
    found = rounds(spec, Arena(spec, TorchComm(group, group, torch.device("cpu"))))
    if rank == 0:
        text = json.dumps({engine: vars(times) for engine, times in found.items()})
        (Path(folder) / "answer").write_text(text)
    dist.destroy_process_group()


def ratios(cpu: Sequence[float], base: Sequence[float]) -> tuple[float, float, float]:
    """Quartiles of the ratios within a round: lower, median, upper.

    >>> ratios([2.0, 3.0, 8.0], [1.0, 1.0, 2.0])
    (2.5, 3.0, 3.5)
    """
    # An engine that was stopped early has fewer rounds.
    values = [mine / its for mine, its in zip(cpu, base, strict=False)]
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return low, middle, high


def _peak_mib(engine: str) -> float:
    """The peak memory of a process that takes a few steps of an engine, by this script itself."""
    command = [sys.executable, *sys.argv, "--peak", engine]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return float(done.stdout)


def main() -> None:
    """Print a row for each engine."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default="atis")
    parser.add_argument("--model", choices=["clc", "bert"], default="clc")
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--engines", nargs="+", choices=CHOICES, default=ENGINES)
    parser.add_argument("--seconds", type=float, default=15.0)
    parser.add_argument("--precision", choices=["fp32", "bf16"], default="fp32")
    parser.add_argument("--memory", action="store_true")
    parser.add_argument("--peak", choices=CHOICES, help=argparse.SUPPRESS)
    options = parser.parse_args()
    training = {"expected_batch_size": options.batch_size, "num_workers": options.workers}
    spec = Spec(
        fields={
            "data": {"name": options.data},
            "model": {"name": options.model},
            "training": {**training, "precision": options.precision},
        },
        engines=tuple(options.engines),
        repeats=max(options.repeats, _LEAST),
        workers=options.workers,
        seconds=options.seconds,
    )
    if options.peak:
        torch.set_num_threads(1)
        step = Arena(spec).step_of(options.peak)
        for number in range(4):  # until its memory has reached its peak
            step(number)
        print(memory.peak_memory() / 2**20)
        return
    found = team_rounds(spec)
    peaks = {e: _peak_mib(e) for e in found} if options.memory and spec.workers == 1 else {}
    rows = []
    for engine, times in found.items():
        row: dict[str, Any] = {"engine": engine, "ms": 1e3 * statistics.median(times.cpu)}
        for name in (BASELINE, "stock"):
            if name in found:
                row[f"x_{name}"] = ratios(times.cpu, found[name].cpu)
        rows.append(row | ({"peak_mib": peaks[engine]} if peaks else {}))
    if {*COMPARED, "dp_sgd"} <= found.keys():
        more, first = (ratios(found[name].cpu, found["dp_sgd"].cpu)[1] for name in COMPARED)
        steps = 20 * Arena(spec).steps_per_epoch
        share = (20 * (more - 1) + first - 1) / steps
        print(f"comparing costs {share:.2%} of {steps} steps", file=sys.stderr)
    print(f"{options.model}, {options.data}, batch {options.batch_size}, one thread a worker")
    print(
        f"{'engine':10}{'ms a step':>11}{'x SGD':>8}{'quartiles':>16}{'x stock':>9}{'peak MiB':>10}"
    )
    for row in rows:
        low, middle, high = row.get(f"x_{BASELINE}", (float("nan"),) * 3)
        print(
            f"{row['engine']:10}{row['ms']:>11.1f}{middle:>8.2f}{f'{low:.2f} to {high:.2f}':>16}"
            f"{row.get('x_stock', (0, float('nan')))[1]:>9.2f}"
            f"{row.get('peak_mib', float('nan')):>10,.0f}"
        )


if __name__ == "__main__":
    main()
