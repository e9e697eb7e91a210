"""CPU time of one training step by engine, interleaved in one process: medians and ratios.

    python benchmarks/engine_step.py --model clc --batch-size 64 --steps 30

Every engine takes the same random batches of real records (not bucketed by length: Poisson sampling
forbids it), one thread. `stock` is what a user would write today: padded batches, `nn.LSTM` or
transformers' BERT, pytorch-crf, fused Adam. The others are this project's engines as a trial runs
them, from record ids to the updated weights.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from stock_models import StockBert, StockClc, padded

from trainables import catalogue
from trainables.communication import Alone
from trainables.config import parse
from trainables.data.batches import Loader
from trainables.data.corpus import Corpus, open_corpus
from trainables.engines._engine import Engine, Setup
from trainables.privacy.mechanism import build
from trainables.privacy.noise import public_key
from trainables.privacy.sampling import Draw

ENGINES = ("stock", "sgd", "edp_sgd", "dp_sgd")
EXTRA = ("naive",)
Step = Callable[[int], None]


class SameBatches:
    """A sampler whose step t has the same records for every engine."""

    def __init__(self, batches: list[np.ndarray], *, per_record: bool) -> None:
        self._batches = batches
        self._per_record = per_record

    def draw(self, epoch: int, step: int) -> Draw:
        """Step `step`'s records, one unit each or one unit in all."""
        records = self._batches[step % len(self._batches)]
        size = len(records)
        units = np.arange(size) if self._per_record else np.zeros(size, dtype=np.int64)
        num_units = size if self._per_record else 1
        return Draw(
            records=records,
            unit=units,
            sizes=np.bincount(units, minlength=num_units).astype(np.int64),
            worker=np.zeros(num_units, dtype=np.int64),
            num_drawn=size,
        )


def make_step(name: str, corpus: Corpus, batches: list[np.ndarray], options: Any) -> Step:
    """One engine, ready: call it with the number of the step."""
    model_config: dict[str, Any] = {"name": options.model, "dropout": 0.1}
    if options.model == "bert":
        model_config |= {"word_buckets": options.vocabulary}
    engine_name = "dp_sgd" if name == "naive" else name
    config = parse(
        {
            "engine": "sgd" if name == "stock" else engine_name,
            "data": {"name": options.data},
            "model": model_config,
            "privacy": {"max_grad_norm": 1.0, "noise_multiplier": 1.0},
            "training": {"expected_batch_size": options.batch_size, "epochs": 1000},
        }
    )
    model = catalogue.entry("models", options.model).build(
        config.model, schema=corpus.schema, seed=0
    )
    loader = Loader(corpus, model.feature_table(list(corpus.types)))
    if name == "stock":
        return stock_step(model, loader, batches)
    setup = Setup(
        loader=loader,
        ids=np.arange(corpus.num_records),
        learning_rate=1e-3,
        key=public_key(0, "benchmark"),
        comm=Alone(),
        sampler=SameBatches(batches, per_record=engine_name == "dp_sgd"),
    )
    mechanism = build(config, num_records=corpus.num_records)
    engine: Engine = catalogue.entry("engines", engine_name).make(model, mechanism, setup)
    if name == "naive":
        engine._source.per_unit = False  # one backward pass a record
    per_epoch = mechanism.steps_in(0)
    return lambda step: (engine.step(step // per_epoch, step % per_epoch), None)[1]


def stock_step(model: Any, loader: Loader, batches: list[np.ndarray]) -> Step:
    """The same architecture as `model`, the way of the tutorials."""
    sizes = {"num_intents": model.num_intents, "num_tags": model.num_tags}
    if hasattr(model, "sizes"):
        from transformers import BertConfig

        own = model.sizes
        config = BertConfig(
            vocab_size=own.vocabulary,
            hidden_size=own.width,
            num_hidden_layers=own.layers,
            num_attention_heads=own.heads,
            intermediate_size=own.intermediate,
            attn_implementation="sdpa",
        )
        stock: torch.nn.Module = StockBert(config, **sizes)
    else:
        stock = StockClc(num_buckets=model.num_buckets, **sizes)
    stock.train()
    optimizer = torch.optim.Adam(stock.parameters(), lr=1e-3, fused=True)

    def step(number: int) -> None:
        batch = padded(loader.batch(batches[number % len(batches)]))
        optimizer.zero_grad()
        stock(batch).backward()
        optimizer.step()

    return step


def measure(names: list[str], options: Any) -> dict[str, list[float]]:
    """CPU seconds of each step of each engine, the engines taking turns within every step."""
    with tempfile.TemporaryDirectory() as cache:
        corpus = open_corpus(
            parse({"data": {"name": options.data}}).data,
            data_dir=Path(os.environ.get("SWEEP_DATA_DIR", "data")),
            cache_dir=Path(cache),
        )
        rng = np.random.default_rng(0)
        ids = np.flatnonzero(~np.asarray(corpus.outside))
        total = options.steps + options.warm_up
        batches = [rng.choice(ids, options.batch_size, replace=False) for _ in range(total)]
        steps = {name: make_step(name, corpus, batches, options) for name in names}
        seconds: dict[str, list[float]] = {name: [] for name in names}
        for number in range(total):
            for name, step in steps.items():
                started = time.process_time()
                step(number)
                if number >= options.warm_up:
                    seconds[name].append(time.process_time() - started)
    return seconds


def summary(seconds: dict[str, list[float]]) -> dict[str, dict[str, float]]:
    """Medians in ms, quartiles, and medians of the ratios within a step."""
    rows = {}
    for name, times in seconds.items():
        low, middle, high = statistics.quantiles(times, n=4)
        row = {"ms": 1e3 * middle, "quartile_low": 1e3 * low, "quartile_high": 1e3 * high}
        for base in ("stock", "sgd"):
            if base in seconds:
                pairs = zip(times, seconds[base], strict=True)
                row[f"x_{base}"] = statistics.median(mine / its for mine, its in pairs)
        rows[name] = row
    return rows


def own_peak() -> float:
    """MiB: the highest resident size of this program so far.

    `ru_maxrss` would not do: a child process inherits it from the one that started it.
    """
    status = Path("/proc/self/status")
    if status.exists():
        line = next(row for row in status.read_text().splitlines() if row.startswith("VmHWM"))
        return float(line.split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def peak_memory(name: str, arguments: list[str]) -> float:
    """MiB: the highest resident size of a process that runs this engine alone."""
    command = [sys.executable, __file__, *arguments, "--only", name, "--steps", "8", "--json"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return float(json.loads(done.stdout)["peak_mib"])


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", choices=["clc", "bert"], default="clc")
    parser.add_argument("--data", default="atis")
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--vocabulary", type=int, default=1_000, help="bert: rows of the table")
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--warm-up", type=int, default=3)
    parser.add_argument("--only", nargs="+", choices=[*ENGINES, *EXTRA])
    parser.add_argument("--memory", action="store_true", help="also each engine's peak memory")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    names = options.only or list(ENGINES)
    rows = summary(measure(names, options))
    peak = own_peak()
    if options.memory:
        given = [a for a in sys.argv[1:] if a not in ("--memory", "--json")]
        for name in names:
            rows[name]["peak_mib"] = peak_memory(name, given)
    if options.json:
        print(json.dumps({"rows": rows, "peak_mib": peak, "options": vars(options)}))
        return
    print(
        f"{options.model}, {options.data}, batch {options.batch_size}, {options.steps} steps,"
        f" one thread, CPU time"
    )
    print(
        f"{'engine':<10}{'ms':>9}{'quartiles':>17}{'/ stock':>9}{'/ sgd':>8}"
        + (f"{'peak MiB':>10}" if options.memory else "")
    )
    for name, row in rows.items():
        spread = f"{row['quartile_low']:.0f}-{row['quartile_high']:.0f}"
        stock, sgd = row.get("x_stock", float("nan")), row.get("x_sgd", float("nan"))
        print(
            f"{name:<10}{row['ms']:>9.1f}{spread:>17}{stock:>9.2f}{sgd:>8.2f}"
            + (f"{row['peak_mib']:>10.0f}" if options.memory else "")
        )


if __name__ == "__main__":
    main()
