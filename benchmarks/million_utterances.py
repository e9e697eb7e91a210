"""A million utterances in constant memory: makes them, opens them, runs an epoch of batches.

    python benchmarks/million_utterances.py --num-utterances 1000000
    python benchmarks/million_utterances.py --model clc --engine sgd --steps 20

Without --model an epoch of batches is cut from the training part, in shuffled order and then
bucketed by length, and every tensor of it is touched. With --model so many steps of an epoch are
trained on top. After each stage: wall-clock and CPU seconds, the highest resident size so far,
and what of the present one is anonymous (the rest is the corpus' own files in the page cache,
which the system takes back when it needs room). The corpus goes to a new folder, removed at the
end, so that nothing is warm.
"""

from __future__ import annotations

import argparse
import json
import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from trainables.config import TrialConfig, parse
from trainables.data.batches import Loader
from trainables.data.corpus import Corpus, open_corpus
from trainables.data.split import Split, make_split
from trainables.system.communication import Alone
from trainables.tasks._setup import prepare


class TokenIds:
    """A feature table that hands the token ids on, as a model's does at the least."""

    def collate(self, token_ids: np.ndarray, lengths: np.ndarray) -> dict[str, torch.Tensor]:
        """The ids, copied from the mapped file."""
        return {"ids": torch.from_numpy(token_ids.astype(np.int64))}


class Stages:
    """Runs stages one by one and keeps what each took."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []

    def run(self, name: str, stage: Callable[[], Any]) -> Any:
        """The stage's outcome; its row is printed at once."""
        wall, cpu = time.perf_counter(), time.process_time()
        outcome = stage()
        status = Path("/proc/self/status").read_text().split("\n")
        anonymous = next(int(line.split()[1]) for line in status if line.startswith("RssAnon"))
        row = {
            "stage": name,
            "wall_s": time.perf_counter() - wall,
            "cpu_s": time.process_time() - cpu,
            "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
            "anonymous_mib": anonymous / 1024,
        }
        self.rows.append(row)
        print(
            f"{name:<34}{row['wall_s']:>9.1f}{row['cpu_s']:>9.1f}"
            f"{row['peak_mib']:>11.0f}{row['anonymous_mib']:>15.0f}",
            flush=True,
        )
        return outcome


def shuffled_epoch(loader: Loader, split: Split, *, batch_size: int) -> int:
    """Tokens of one epoch of shuffled batches."""
    order = np.random.default_rng(0).permutation(split.train)
    return sum(
        int(loader.batch(order[low : low + batch_size]).tags.numel())
        for low in range(0, len(order), batch_size)
    )


def bucketed_pass(loader: Loader, split: Split) -> int:
    """Tokens of one pass in batches of like lengths."""
    batches = loader.evaluation_batches(split.train, max_tokens=4_096)
    return sum(int(batch.tags.numel()) for _, batch in batches)


def train(config: TrialConfig, cache: Path, *, steps: int) -> None:
    """The first steps of a trial's first epoch."""
    setup = prepare(config, comm=Alone(), data_dir=cache, cache_dir=cache)
    for step in range(min(steps, setup.mechanism.steps_in(0))):
        setup.engine.step(0, step)


def main() -> None:
    """Print a row a stage."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--data", choices=["communication", "health", "video"], default="communication"
    )
    parser.add_argument("--num-utterances", type=int, default=1_000_000)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--model", choices=["clc", "bert"])
    parser.add_argument("--engine", choices=["sgd", "edp_sgd", "dp_sgd"], default="sgd")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--cache", type=Path, help="folder that keeps the corpus for later runs")
    parser.add_argument("--json", type=Path, help="also write the rows to this file")
    options = parser.parse_args()
    torch.set_num_threads(1)
    config = parse(
        {
            "engine": options.engine,
            "data": {"name": options.data, "num_utterances": options.num_utterances},
            "model": {"name": options.model or "clc"},
            "training": {"expected_batch_size": options.batch_size},
        }
    )
    stages = Stages()
    print(f"{'stage':<34}{'wall s':>9}{'CPU s':>9}{'peak MiB':>11}{'anonymous MiB':>15}")
    with tempfile.TemporaryDirectory() as fresh:
        cache = options.cache or Path(fresh)

        def opened() -> Corpus:
            return open_corpus(config.data, data_dir=cache, cache_dir=cache)

        stages.run("imports", lambda: None)
        corpus: Corpus = stages.run("make and open", opened)
        stages.run("open again", opened)
        split: Split = stages.run(
            "split", lambda: make_split(config.data, corpus=corpus, mask_seed=0)
        )
        loader = Loader(corpus, TokenIds())
        tokens = stages.run(
            f"epoch of {len(split.train):,}, shuffled",
            lambda: shuffled_epoch(loader, split, batch_size=options.batch_size),
        )
        again = stages.run("the same, bucketed by length", lambda: bucketed_pass(loader, split))
        assert tokens == again
        if options.model:
            stages.run(
                f"{options.steps} steps of {options.model}, {options.engine}",
                lambda: train(config, cache, steps=options.steps),
            )
        size = sum(file.stat().st_size for file in cache.rglob("*") if file.is_file())
        print(
            f"{corpus.num_records:,} utterances, {corpus.num_duplicates} duplicates,"
            f" {int(np.asarray(corpus.offsets[-1])):,} tokens, {len(corpus.types):,} distinct;"
            f" {size / 2**20:.0f} MiB on disk"
        )
    if options.json:
        options.json.write_text(json.dumps(stages.rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
