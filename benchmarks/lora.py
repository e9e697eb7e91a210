"""A step of DP-SGD and of SGD on the adapters of a large encoder, by physical and
logical batch.

    python benchmarks/lora.py --encoder mpnet --physical 16 64 --logical 256 1024

It needs torch, transformers, pydantic, pytorch-crf and cryptography, no Ray and no
MLflow. By default the encoder is a `bert-base` of random weights, 86 million behind the
table of pieces, so nothing is fetched; a GPU is used where torch finds one. Records are
random words in lengths of 4 to 36. Engines take turns; seconds are medians, of the wall
clock on a GPU, else of this process on one thread; memory is the peak of the device's
tensors, or of this process. `check` is the difference of clipped sums from plain
autograd in float64 for 16 records, in units of C (`engines._check`).
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from trainables import catalogue
from trainables.config.mechanism import build
from trainables.config.trial import model_part, parse
from trainables.data.batches import Loader
from trainables.data.records import LabelSchema
from trainables.dp.engines._private import PrivateEngine
from trainables.dp.engines.engine import Engine, Setup
from trainables.dp.noise import new_key
from trainables.models.nlu.hub_encoder import AdaptedEncoder
from trainables.system.communication import Alone
from trainables.system.memory import peak_memory

_SCHEMA = LabelSchema(
    intents=tuple(f"intent{k}" for k in range(25)),
    slots=tuple(f"slot{k}" for k in range(60)),
    source="made",
)
_ENGINES = ("dp_sgd", "sgd")
_DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
_SHIPPED = (
    Path(__file__).parents[1] / "trainables" / "encoders" / "shipped" / "dialogues"
)


@dataclass(eq=False)
class Made:
    """Columns of made records (see `data.batches.Columns`)."""

    types: Sequence[str]
    offsets: np.ndarray
    tokens: np.ndarray
    intents: np.ndarray
    tags: np.ndarray


def made(number: int) -> Made:
    """So many records of random words."""
    rng = np.random.default_rng(0)
    lengths = rng.integers(4, 37, number)
    total = int(lengths.sum())
    types = tuple("".join(rng.choice(list("abcdefghinorst"), 4)) for _ in range(2_000))
    return Made(
        types,
        np.cumsum(np.concatenate([[0], lengths])),
        rng.integers(len(types), size=total).astype(np.int32),
        rng.integers(len(_SCHEMA.intents), size=number).astype(np.int16),
        rng.integers(len(_SCHEMA.tags), size=total).astype(np.int16),
    )


def model_of(options: argparse.Namespace, precision: str) -> AdaptedEncoder:
    """The encoder, with frozen weights of that precision."""
    with tempfile.TemporaryDirectory() as folder:
        encoder = options.encoder or _bert_base(Path(folder))
        config = model_part(name="lora", encoder=encoder, frozen_weights=precision)
        built: AdaptedEncoder = config.build(schema=_SCHEMA, seed=0)
        return built


def _bert_base(folder: Path) -> str:
    """Random weights of its size in `folder`, with the tokenizer of the encoder that
    ships.
    """
    from transformers import BertConfig, BertModel

    torch.manual_seed(0)
    BertModel(BertConfig(), add_pooling_layer=False).save_pretrained(folder)
    for file in _SHIPPED.glob("tokenizer*"):
        shutil.copy(file, folder)
    return str(folder)


def engine_of(name: str, model: AdaptedEncoder, setup: Setup) -> Engine:
    """An engine on `model` whose steps have all records."""
    config = parse(
        {
            "engine": name,
            "privacy": {
                "sampling": "full",
                **({"noise_multiplier": 1.0} if name == "dp_sgd" else {}),
            },
            "training": {"steps": 100},
        }
    )
    mechanism = build(config, num_records=len(setup.ids))
    found: Engine = catalogue.entry("engines", name).make(model, mechanism, setup)
    return found


def measured(
    engines: dict[str, Engine], *, steps: int
) -> dict[str, tuple[float, float, float]]:
    """Seconds of a step, milliseconds of a record and peak GB, for each engine."""
    found: dict[str, list[tuple[float, float, float]]] = {name: [] for name in engines}
    on_gpu = _DEVICE.type == "cuda"
    clock = time.perf_counter if on_gpu else time.process_time
    for step in range(steps + 1):
        for name, engine in engines.items():
            if on_gpu:
                torch.cuda.reset_peak_memory_stats()
            else:
                Path("/proc/self/clear_refs").write_text("5")
            start = clock()
            records = engine.step(0, step).records
            if on_gpu:
                torch.cuda.synchronize()
            spent = clock() - start
            peak = torch.cuda.max_memory_allocated() if on_gpu else peak_memory()
            if step or not steps:  # the first one warms up
                found[name].append((spent, 1e3 * spent / records, peak / 1e9))
    return {
        name: (
            statistics.median(each[0] for each in rows),
            statistics.median(each[1] for each in rows),
            max(each[2] for each in rows),
        )
        for name, rows in found.items()
    }


def main() -> None:
    """Print a row for each precision and size."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--encoder", help="default: a bert-base of random weights")
    parser.add_argument("--physical", type=int, nargs="+", default=[32, 128])
    parser.add_argument("--logical", type=int, nargs="+", default=[1_024, 4_096])
    parser.add_argument(
        "--precision", nargs="+", choices=("fp32", "bf16"), default=["fp32", "bf16"]
    )
    parser.add_argument("--engines", nargs="+", choices=_ENGINES, default=_ENGINES)
    parser.add_argument("--steps", type=int, default=3)
    options = parser.parse_args()
    if _DEVICE.type == "cpu":
        torch.set_num_threads(1)
    corpus = made(max(32, *options.logical))
    device = torch.cuda.get_device_name() if _DEVICE.type == "cuda" else "CPU"
    print(f"{device}, torch {torch.__version__}, {torch.get_num_threads()} threads")
    columns = " | ".join(f"{name} s/step, ms/record, GB" for name in options.engines)
    print(f"precision physical logical | {columns} | ratio")
    for precision in options.precision:
        model = model_of(options, precision).to(_DEVICE)
        setup: Any = Setup(
            loader=Loader(corpus, model.feature_table(corpus.types)),
            ids=np.arange(0),
            learning_rate=1e-3,
            key=new_key(Alone()),
            comm=Alone(),
            precision=precision,
            compares=False,
        )
        for physical in options.physical:
            for logical in options.logical:
                own = replace(
                    setup, physical_batch_size=physical, ids=np.arange(logical)
                )
                engines = {
                    name: engine_of(name, model, own) for name in options.engines
                }
                found = measured(engines, steps=options.steps)
                cells = [
                    f"{s:7.2f} {ms:7.2f} {gb:6.2f}" for s, ms, gb in found.values()
                ]
                ratio = found[options.engines[0]][1] / found[options.engines[-1]][1]
                row = f"{precision:9} {physical:8} {logical:7} | {' | '.join(cells)} | {ratio:.2f}"
                print(row, flush=True)
        own = replace(setup, physical_batch_size=16, ids=np.arange(32), compares=True)
        engine = engine_of("dp_sgd", model, own)
        assert isinstance(engine, PrivateEngine)
        engine.step(0, 0)
        print(f"{precision}: check {engine._largest_difference:.2g} C", flush=True)


if __name__ == "__main__":
    main()
