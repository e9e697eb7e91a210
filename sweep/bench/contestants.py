"""One training step of each engine on the same records.

`stock` is a typical implementation on padded batches; `naive` the same with one backward pass a
record, clipped and noised. The others are this project's engines as in a trial, from record ids to
updated weights.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from dashboards import palette
from sweep.bench import stock
from trainables import catalogue
from trainables.config import TrialConfig, parse
from trainables.data.batches import Loader
from trainables.data.corpus import Corpus, open_corpus
from trainables.data.split import make_split
from trainables.engines import Setup
from trainables.errors import InvalidInput
from trainables.privacy.from_config import build
from trainables.privacy.learning_rate import learning_rate_of
from trainables.privacy.noise import public_key
from trainables.privacy.sampling import Draw
from trainables.system.communication import Alone, Communicator
from trainables.tasks._setup import trainable_ids

BASELINE = catalogue.marked_entry("engines", "BASELINE")
# One that trains nothing has no step.
OURS = tuple(n for n in palette.engines() if catalogue.kind_of("engines", n) != "prior")
ENGINES = ("stock", *OURS, "naive")
MODELS = ("clc", "bert")
_ALONE = ("naive",)  # measured with one worker only
_NUM_BATCHES = 64  # number of distinct batches, which are then repeated
Step = Callable[[int], None]


@dataclass(frozen=True, kw_only=True)
class Spec:
    """The settings of a benchmark: a trial's fields without its engine, and the number of steps."""

    fields: dict[str, Any]
    engines: tuple[str, ...] = ENGINES
    repeats: int = 10
    workers: int = 1
    seconds: float = 15.0  # processor time of one engine, after which it is no longer measured
    data_dir: Path
    cache_dir: Path

    def config(self, engine: str) -> TrialConfig:
        """The config of a trial with this engine; other libraries' steps get the baseline's.

        Raises: InvalidInput for fields that no trial could have.
        """
        config = parse({**self.fields, "engine": engine if engine in OURS else BASELINE})
        if config.model.name not in MODELS:
            raise InvalidInput(
                f"expected --model to be one of {', '.join(MODELS)}, got {config.model.name}"
            )
        if config.training.expected_batch_size % self.workers:
            raise InvalidInput(
                f"expected --batch-size to be a multiple of --workers {self.workers},"
                f" got {config.training.expected_batch_size}"
            )
        return config


class SkippedEngine(Exception):
    """The reason why an engine cannot be measured here, in one sentence."""


class SameBatches:
    """A sampler whose step t has the same records for every engine: this process' share, in a unit
    each or in one for each of its logical workers.
    """

    def __init__(
        self, batches: list[np.ndarray], *, per_record: bool, num_workers: int = 1
    ) -> None:
        self._batches = batches
        self._per_record = per_record
        self._num_workers = num_workers

    def draw(self, epoch: int, step: int) -> Draw:
        """Step `step`'s records."""
        records = self._batches[step % len(self._batches)]
        size = len(records)
        worker = np.arange(size) * self._num_workers // size
        units = np.arange(size) if self._per_record else worker
        num_units = size if self._per_record else self._num_workers
        return Draw(
            records=records,
            unit=units,
            sizes=np.bincount(units, minlength=num_units).astype(np.int64),
            worker=worker if self._per_record else np.arange(num_units),
            num_drawn=size,
        )


class Arena:
    """The corpus, the batches and the model sizes that all engines of one process share."""

    def __init__(self, spec: Spec, comm: Communicator | None = None) -> None:
        self.spec = spec
        self.comm: Communicator = comm or Alone()
        config = spec.config(BASELINE)
        self.corpus: Corpus = open_corpus(
            config.data, data_dir=spec.data_dir, cache_dir=spec.cache_dir
        )
        ids = trainable_ids(
            self.corpus, make_split(config.data, corpus=self.corpus, mask_seed=0).train
        )
        self.num_records = len(ids)
        self.batch_size = config.training.expected_batch_size
        if self.num_records < self.batch_size:
            raise InvalidInput(
                f"expected --batch-size to be at most the {self.num_records} training records,"
                f" got {self.batch_size}"
            )
        rng = np.random.default_rng(0)
        whole = [rng.choice(ids, self.batch_size, replace=False) for _ in range(_NUM_BATCHES)]
        self.batches = [batch[self.comm.rank :: spec.workers] for batch in whole]
        self._table: Any = None

    @property
    def steps_per_epoch(self) -> int:
        """Of this many records with this batch size."""
        return -(-self.num_records // self.batch_size)

    def step_of(self, engine: str) -> Step:
        """The step function of an engine, called with the number of the step.

        Raises: SkippedEngine where it cannot run here.
        """
        if engine in _ALONE and self.spec.workers > 1:
            raise SkippedEngine("measured with --workers 1 only")
        config = self.spec.config(engine)
        model, loader = self.model_of(config)
        if engine in OURS:
            return self._ours(config, model, loader)
        made = stock.build(model, config.model)
        return self._stock(made, loader) if engine == "stock" else self._naive(made, loader)

    def model_of(self, config: TrialConfig) -> tuple[Any, Loader]:
        """A fresh model of the config, and the loader of its batches."""
        model = catalogue.entry("models", config.model.name).build(
            config.model, schema=self.corpus.schema, seed=0
        )
        if self._table is None:  # the pieces of all distinct tokens, the same for every engine
            self._table = model.feature_table(list(self.corpus.types))
        return model, Loader(self.corpus, self._table)

    def _ours(self, config: TrialConfig, model: Any, loader: Loader) -> Step:
        mechanism = build(config, num_records=self.num_records)
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
                sampler=SameBatches(
                    self.batches,
                    per_record=mechanism.microbatch_size == 1,
                    num_workers=mechanism.num_workers // self.spec.workers,
                ),
            ),
        )
        per_epoch = mechanism.steps_in(0)

        def step(number: int) -> None:
            engine.step(number // per_epoch, number % per_epoch)

        return step

    def _stock(self, made: nn.Module, loader: Loader) -> Step:
        optimizer = torch.optim.Adam(made.parameters(), lr=1e-3, fused=True)
        if self.spec.workers > 1:
            made = nn.parallel.DistributedDataParallel(made)

        def step(number: int) -> None:
            batch = stock.pad_batch(loader.batch(self.records_of(number)))
            optimizer.zero_grad()
            made(batch).mean().backward()
            optimizer.step()

        return step

    def _naive(self, made: nn.Module, loader: Loader) -> Step:
        optimizer = torch.optim.Adam(made.parameters(), lr=1e-3, fused=True)
        parameters = list(made.parameters())

        def step(number: int) -> None:
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

        return step

    def records_of(self, number: int) -> np.ndarray:
        """This worker's records of a step."""
        return self.batches[number % len(self.batches)]
