"""Steps of Opacus' hooks and of its ghost clipping beside this project's, on the same records.

python benchmarks/opacus_steps.py --model bert --batch-size 64 --repeats 4

Opacus is no dependency (pip install --no-deps opacus opt-einsum). `pytorch-crf` fails under its
hooks, so transitions are the weight of a linear map of ones, and `nn.LSTM` becomes Opacus' own.
"""

from __future__ import annotations

import argparse
import importlib.util
import statistics
import sys
import warnings
from typing import Any

import torch

if importlib.util.find_spec("opacus") is None:
    print("opacus is not installed: nothing is measured")
    sys.exit()
import stock
import torch.nn.functional as F
from bench import Arena, Spec, Step, rounds
from opacus.grad_sample import GradSampleModule, GradSampleModuleFastGradientClipping
from opacus.layers import DPLSTM
from opacus.optimizers import DPOptimizer, DPOptimizerFastGradientClipping
from opacus.utils.fast_gradient_clipping_utils import DPLossFastGradientClipping
from stock import Batch, StockBert, StockClc
from torch import Tensor, nn

from trainables.config import ModelConfig
from trainables.models import bert, clc


class HookedCrf(nn.Module):
    """A padded linear-chain CRF whose three parameters are linear maps of ones [B, 1]."""

    def __init__(self, num_tags: int) -> None:
        super().__init__()
        self.num_tags = num_tags
        self.transitions = nn.Linear(1, num_tags**2, bias=False)
        self.start, self.end = (nn.Linear(1, num_tags, bias=False) for _ in range(2))

    def forward(self, emissions: Tensor, tags: Tensor, mask: Tensor) -> Tensor:
        """[B]: log-likelihoods of `tags` [B, T] where `mask`; `emissions` [B, T, L]."""
        batch, longest, num_tags = emissions.shape
        ones = emissions.new_ones(batch, 1)
        moves = self.transitions(ones).view(batch, num_tags, num_tags)
        start, end = self.start(ones), self.end(ones)
        records = torch.arange(batch)
        alpha = start + emissions[:, 0]
        score = alpha[records, tags[:, 0]]
        for time in range(1, longest):
            there = mask[:, time]
            reached = (alpha.unsqueeze(2) + moves).logsumexp(1) + emissions[:, time]
            alpha = torch.where(there.unsqueeze(1), reached, alpha)
            before, now = tags[:, time - 1], tags[:, time]
            step = moves[records, before, now] + emissions[records, time, now]
            score = score + step * there
        last = tags.gather(1, mask.sum(1, keepdim=True) - 1).squeeze(1)
        found: Tensor = score + end[records, last] - (alpha + end).logsumexp(1)
        return found


class HookedClc(StockClc):
    """The stock CLC of layers that Opacus has rules for."""

    recurrent = DPLSTM

    @staticmethod
    def convolution(char_dim: int, num_filters: int, kernel: int) -> nn.Module:
        """Over (tokens, characters): the batch stays the first dimension."""
        return nn.Conv2d(char_dim, num_filters, (1, kernel), padding=(0, kernel // 2))

    def convolve(self, chars: Tensor) -> Tensor:
        """[B, T, W, D] -> [B, T, F]."""
        found: Tensor = self.filters(chars.permute(0, 3, 1, 2))
        return F.relu(found).amax(3).transpose(1, 2)

    @staticmethod
    def chain(num_tags: int) -> nn.Module:
        """A CRF that hooks can see into."""
        return HookedCrf(num_tags)


class HookedBert(StockBert):
    """The stock BERT with such a CRF."""

    @staticmethod
    def chain(num_tags: int) -> nn.Module:
        """A CRF that hooks can see into."""
        return HookedCrf(num_tags)


class _Losses(nn.Module):
    """A criterion whose input is the losses already."""

    reduction = "mean"

    def forward(self, losses: Tensor, _: Tensor) -> Tensor:
        return losses


class OpacusStep:
    """One DP-SGD step of Opacus; `ghost`: fast gradient clipping in two backward passes."""

    def __init__(self, model: Any, config: ModelConfig, *, batch_size: int, ghost: bool) -> None:
        sizes = {"num_intents": model.num_intents, "num_tags": model.num_tags}
        made: nn.Module
        if isinstance(config, bert.Config):
            made = HookedBert(model.sizes, dropout=config.dropout, **sizes)
        else:
            assert isinstance(config, clc.Config)  # the other model of MODELS
            made = HookedClc(config, **sizes)
        made.train()
        adam = torch.optim.Adam(made.parameters(), lr=1e-3, fused=True)
        privacy = {
            "noise_multiplier": 1.0,
            "max_grad_norm": 1.0,
            "expected_batch_size": batch_size,
        }
        if ghost:
            self.module = GradSampleModuleFastGradientClipping(made, max_grad_norm=1.0)
            self.optimizer = DPOptimizerFastGradientClipping(adam, **privacy)
            self.criterion = DPLossFastGradientClipping(self.module, self.optimizer, _Losses())
        else:
            self.module = GradSampleModule(made)
            self.optimizer = DPOptimizer(adam, **privacy)
            self.criterion = None

    def __call__(self, batch: Batch) -> None:
        """Take the step on a padded batch."""
        self.optimizer.zero_grad()
        with warnings.catch_warnings():
            # Of the embeddings: no input of theirs has a gradient.
            warnings.filterwarnings("ignore", message="Full backward hook is firing")
            if self.criterion is None:
                self.module(batch).mean().backward()
            else:
                self.criterion(self.module(batch), batch["intents"]).backward()
        self.optimizer.step()


class WithOpacus(Arena):
    """The arena of `bench.py`, with two contestants more."""

    def step_of(self, engine: str) -> Step:
        """As in `Arena`."""
        if not engine.startswith("opacus"):
            return super().step_of(engine)
        config = self.spec.config(engine)
        model, loader = self.model_of(config)
        ghost = engine == "opacus_ghost"
        take = OpacusStep(model, config.model, batch_size=self.batch_size, ghost=ghost)
        return lambda number: take(stock.pad_batch(loader.batch(self.records_of(number))))


def main() -> None:
    """Print the median processor time of a step of each, over that of SGD."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", choices=["clc", "bert"], default="clc")
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--repeats", type=int, default=4)
    options = parser.parse_args()
    spec = Spec(
        fields={
            "data": {"name": "atis"},
            "model": {"name": options.model},
            "training": {"expected_batch_size": options.batch_size},
        },
        engines=("stock", "sgd", "dp_sgd", "opacus_ghost", "opacus_hooks"),
        repeats=options.repeats,
    )
    found = rounds(spec, WithOpacus(spec))
    base = statistics.median(found["sgd"].cpu)
    for engine, times in found.items():
        middle = statistics.median(times.cpu)
        print(f"{engine:14} {1e3 * middle:8.1f} ms {middle / base:6.2f} x SGD")


if __name__ == "__main__":
    main()
