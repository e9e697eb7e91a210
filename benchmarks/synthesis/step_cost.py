"""Processor time of a language model's step, by SGD and by per-record clipping.

    python benchmarks/synthesis/step_cost.py [--records 128] [--repeats 7]

The first records of SMCalFlow, as one stage reads them and as the second of two stages does, behind
their programs. Contestants take turns; medians. `attention` is one block's forward and backward
pass, on packed records and on records padded to the longest (torch's fused kernel). One thread.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F

from trainables.config import data_config
from trainables.data.pairs import open_pairs
from trainables.data.texts import EncodedTexts, TextBatch
from trainables.layers.attention import attention
from trainables.layers.bookkeeping import clipped_sum, gradient
from trainables.layers.packing import by_length, padded
from trainables.models._causal_lm import CausalLm, LmSizes
from trainables.models._tokenizers import train_bpe

_WIDTH, _HEADS = 192, 6
_MAX_TOKENS = 192


def main() -> None:
    """Print a line for each kind of records."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--records", type=int, default=128)
    parser.add_argument("--repeats", type=int, default=7)
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    data_dir = Path(os.environ.get("SWEEP_DATA_DIR", "data"))
    corpus = open_pairs(data_config(name="smcalflow"), data_dir=data_dir)
    tokenizer = train_bpe([*corpus.utterances, *corpus.programs], size=2_048)
    texts, programs = corpus.utterances[: options.records], corpus.programs[: options.records]
    print(
        f"{'records':<16}{'tokens':>8}{'SGD ms':>9}{'DP-SGD ms':>11}{'ratio':>7}"
        f"{'attention ms: packed':>22}{'padded':>8}{'ratio':>7}"
    )
    for name, prompts in (("utterances", None), ("behind programs", programs)):
        encoded = EncodedTexts(texts, tokenizer, max_tokens=_MAX_TOKENS, prompts=prompts)
        batch = encoded.batch(np.arange(options.records))
        sgd, private, packed, block = medians(
            [*_steps(batch, tokenizer.size), *_attentions(batch)], options.repeats
        )
        print(
            f"{name:<16}{int(batch.lengths.sum()):>8}{sgd:>9.0f}{private:>11.0f}"
            f"{private / sgd:>7.2f}{packed:>22.1f}{block:>8.1f}{block / packed:>7.2f}"
        )


def medians(contestants: Sequence[Callable[[], None]], repeats: int) -> list[float]:
    """Median processor milliseconds of each; they take turns after one warm-up."""
    times: list[list[float]] = [[] for _ in contestants]
    for turn in range(repeats + 1):
        for own, run in zip(times, contestants, strict=True):
            started = time.process_time()
            run()
            if turn:
                own.append(1_000 * (time.process_time() - started))
    return [statistics.median(own) for own in times]


def _steps(batch: TextBatch, vocabulary: int) -> list[Callable[[], None]]:
    """The gradient of all records together, and the sum of their clipped ones."""
    sizes = LmSizes(vocabulary, _WIDTH, heads=_HEADS, intermediate=4 * _WIDTH)
    model = CausalLm(sizes)
    parameters = list(model.parameters())
    number = batch.lengths.shape[0]
    out = torch.zeros(sum(p.numel() for p in parameters))
    ones = torch.ones(number)

    def private() -> None:
        clipped_sum(
            model,
            batch,
            unit_of_record=torch.arange(number),
            num_units=number,
            weight_of_record=ones,
            max_grad_norm=0.1,
            group_scale=torch.ones(len(parameters)),
            out=out,
        )

    return [lambda: gradient(model, batch, ones, out), private]


def _attentions(batch: TextBatch) -> list[Callable[[], None]]:
    layout, cells = by_length(batch.lengths), padded(batch.lengths)
    rows = torch.randn(int(batch.lengths.sum()), 3 * _WIDTH, requires_grad=True)

    def packed() -> None:
        torch.autograd.backward(attention(rows, layout, heads=_HEADS, causal=True).sum())

    def block() -> None:
        number, longest = cells.num_records, cells.longest
        filled = rows.new_zeros(number * longest, 3 * _WIDTH).index_copy(0, cells.cell, rows)
        q, k, v = filled.view(number, longest, 3, _HEADS, -1).permute(2, 0, 3, 1, 4)
        seen = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        seen = seen.transpose(1, 2).reshape(-1, _WIDTH).index_select(0, cells.cell)
        torch.autograd.backward(seen.sum())

    return [packed, block]


if __name__ == "__main__":
    main()
