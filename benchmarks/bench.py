"""The cost of a training step of each engine, compared in one run.

    python benchmarks/bench.py --data atis --model clc --batch-size 32 [--memory]

SGD, eDP-SGD and DP-SGD of this project, a padded stock model with Adam (`stock`), and
the same with one backward pass a record, clipped and noised (`naive`). All take turns
on the same records, from record ids to updated weights, one thread each, so that a slow
machine affects them alike. Processor milliseconds are medians; factors are medians of
the ratios within a round, with quartiles. `--memory`: the peak of a process of its own
for each engine. `compared` and `compared_first` are DP-SGD whose every step recomputes
clipped sums as a trial does in one step an epoch, and in its first; both beside
`dp_sgd` print what that costs a trial of 20 epochs.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import stock
import torch
from torch import nn

from sweep.settings import from_environment
from trainables import catalogue
from trainables.config.learning_rate import learning_rate_of
from trainables.config.mechanism import build
from trainables.config.trial import TrialConfig, parse
from trainables.data.batches import Loader
from trainables.data.corpus import Corpus, open_corpus
from trainables.data.split import make_split
from trainables.dp.engines.engine import Setup
from trainables.dp.noise import public_key
from trainables.dp.sampling import SampledBatch
from trainables.errors import InvalidInput
from trainables.system import memory
from trainables.system.communication import Alone
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
    """A trial's fields without its engine, and how much is measured. `seconds`: of
    processor, after which an engine is measured no further.
    """

    fields: dict[str, Any]
    engines: tuple[str, ...] = ENGINES
    repeats: int = 10
    seconds: float = 15.0

    def config(self, engine: str) -> TrialConfig:
        """The config of a trial with this engine; those that are not ours get the
        baseline's.

        Raises: InvalidInput for fields that no trial could have.
        """
        training = {
            **self.fields.get("training", {}),
            "epochs": 1000,
        }  # steps never run out
        name = (
            "dp_sgd" if engine in COMPARED else engine if engine in OURS else BASELINE
        )
        return parse({**self.fields, "training": training, "engine": name})


@dataclass(frozen=True, kw_only=True)
class SameBatches:
    """A sampler whose step t has the same records for every engine, a unit each or one
    for each logical worker.
    """

    batches: list[np.ndarray]
    per_record: bool
    num_workers: int

    def draw(self, epoch: int, step: int) -> SampledBatch:
        """Step `step`'s records."""
        records = self.batches[step % len(self.batches)]
        size = len(records)
        worker = np.arange(size) * self.num_workers // size
        units = np.arange(size) if self.per_record else worker
        num_units = size if self.per_record else self.num_workers
        return SampledBatch(
            records=records,
            unit=units,
            sizes=np.bincount(units, minlength=num_units).astype(np.int64),
            worker=worker if self.per_record else np.arange(num_units),
            num_drawn=size,
        )


class Arena:
    """The corpus, the batches and the model sizes that all engines of one process
    share.

    Raises: InvalidInput where there are fewer training records than a batch has.
    """

    def __init__(self, spec: Spec) -> None:
        self.spec = spec
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
        if self.num_records < self.batch_size:
            raise InvalidInput(
                f"expected a batch size of at most {self.num_records} training records,"
                f" got {self.batch_size}"
            )
        rng = np.random.default_rng(0)
        self.batches = [
            rng.choice(ids, self.batch_size, replace=False) for _ in range(_NUM_BATCHES)
        ]
        self._table: Any = None

    def model_of(self, config: TrialConfig) -> tuple[Any, Loader]:
        """A fresh model of the config, and the loader of its batches."""
        model = config.model.build(schema=self.corpus.schema, seed=0)
        if (
            self._table is None
        ):  # the pieces of all distinct tokens, the same for every engine
            self._table = model.feature_table(list(self.corpus.types))
        return model, Loader(self.corpus, self._table)

    def records_of(self, number: int) -> np.ndarray:
        """The records of a step."""
        return self.batches[number % len(self.batches)]

    def step_of(self, engine: str) -> Step:
        """The step function of an engine, called with the number of the step."""
        config = self.spec.config(engine)
        model, loader = self.model_of(config)
        if engine in (*OURS, *COMPARED):
            return self._ours(config, model, loader, name=engine)
        made: nn.Module = stock.build(model, config.model)
        optimizer = torch.optim.Adam(made.parameters(), lr=1e-3, fused=True)

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
                grads = [
                    torch.zeros_like(p) if p.grad is None else p.grad
                    for p in parameters
                ]
                norm = torch.stack(torch._foreach_norm(grads)).norm()
                torch._foreach_add_(sums, grads, alpha=float((1 / norm).clamp(max=1)))
            for parameter, total in zip(parameters, sums, strict=True):
                parameter.grad = (total + torch.randn_like(total)) / self.batch_size
            optimizer.step()

        return plain if engine == "stock" else naive

    def _ours(
        self, config: TrialConfig, model: Any, loader: Loader, *, name: str
    ) -> Step:
        mechanism = build(config, num_records=self.num_records)
        sampler = SameBatches(
            batches=self.batches,
            per_record=mechanism.microbatch_size == 1,
            num_workers=mechanism.num_workers,
        )
        engine = catalogue.entry("engines", config.engine).make(
            model,
            mechanism,
            Setup(
                loader=loader,
                ids=np.arange(self.corpus.num_records),
                learning_rate=learning_rate_of(
                    config.training.learning_rate, mechanism
                ),
                precision=config.training.precision,
                key=public_key(0, "benchmark"),
                comm=Alone(),
                sampler=sampler,
            ),
        )
        per_epoch = mechanism.steps_in(0)
        if name == COMPARED[0]:  # the last step of an epoch is, at the latest
            return lambda number: engine.step(
                number + 1, mechanism.steps_in(number + 1) - 1
            )

        def first(number: int) -> None:
            engine._schedule._is_first = True
            engine.step(0, number)

        if name == COMPARED[1]:
            return first
        return lambda number: engine.step(number // per_epoch, number % per_epoch)


def rounds(spec: Spec, arena: Arena) -> dict[str, tuple[float, ...]]:
    """Processor seconds of the measured steps of each engine, which take turns of a
    step each.
    """
    torch.set_num_threads(1)
    steps = {engine: arena.step_of(engine) for engine in spec.engines}
    found: dict[str, list[float]] = {engine: [] for engine in steps}
    spent = dict.fromkeys(steps, 0.0)
    for number in range(_WARM_UP + spec.repeats):
        for engine, step in steps.items():
            if spent[engine] > spec.seconds and len(found[engine]) >= _LEAST:
                continue
            started = time.process_time()
            step(number)
            took = time.process_time() - started
            spent[engine] += took
            if number >= _WARM_UP:
                found[engine].append(took)
    return {engine: tuple(each) for engine, each in found.items()}


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
    """The peak memory of a process that takes a few steps of an engine, by this script
    itself.
    """
    command = [sys.executable, *sys.argv, "--peak", engine]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return float(done.stdout)


def main() -> None:
    """Print a row for each engine."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default="atis")
    parser.add_argument("--model", choices=["clc", "bert"], default="clc")
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--engines", nargs="+", choices=CHOICES, default=ENGINES)
    parser.add_argument("--seconds", type=float, default=15.0)
    parser.add_argument("--precision", choices=["fp32", "bf16"], default="fp32")
    parser.add_argument("--memory", action="store_true")
    parser.add_argument("--peak", choices=CHOICES, help=argparse.SUPPRESS)
    options = parser.parse_args()
    training = {"expected_batch_size": options.batch_size, "num_workers": 1}
    spec = Spec(
        fields={
            "data": {"name": options.data},
            "model": {"name": options.model},
            "training": {**training, "precision": options.precision},
        },
        engines=tuple(options.engines),
        repeats=max(options.repeats, _LEAST),
        seconds=options.seconds,
    )
    arena = Arena(spec)
    if options.peak:
        torch.set_num_threads(1)
        step = arena.step_of(options.peak)
        for number in range(4):  # until its memory has reached its peak
            step(number)
        print(memory.peak_memory() / 2**20)
        return
    found = rounds(spec, arena)
    rows = []
    for engine, cpu in found.items():
        row: dict[str, Any] = {
            "engine": engine,
            "ms a step": 1e3 * statistics.median(cpu),
        }
        for name in (BASELINE, "stock"):
            if name in found:
                low, middle, high = ratios(cpu, found[name])
                row |= {
                    f"x {name}": middle,
                    f"{name}, quartiles": f"{low:.2f} to {high:.2f}",
                }
        rows.append(row | ({"peak MiB": _peak_mib(engine)} if options.memory else {}))
    if {*COMPARED, "dp_sgd"} <= found.keys():
        more, first = (ratios(found[name], found["dp_sgd"])[1] for name in COMPARED)
        steps = 20 * arena.steps_per_epoch
        share = (20 * (more - 1) + first - 1) / steps
        print(f"comparing costs {share:.2%} of {steps} steps", file=sys.stderr)
    print(f"{options.model}, {options.data}, batch {options.batch_size}, one thread")
    print(pd.DataFrame(rows).to_string(index=False, float_format="{:.2f}".format))


if __name__ == "__main__":
    main()
