"""Character features of words: embed, convolve, take the maximum over the word,
rectify.

Ma and Hovy 2016. A batch's distinct words are convolved once; their features are then
looked up by token. Because of the maximum, a filter's gradient comes from one window a
word, so both gradients follow from one small matrix: Q[character, (filter, offset)],
the output gradient added up over the characters that the winning windows saw:

    d filters[f, j, :] = sum over characters c of Q[c, (f, j)] * embedding[c, :]
    d embedding[c, :]  = sum over (f, j) of Q[c, (f, j)] * filters[f, j, :]
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from trainables.dp.layers.packing import Rows
from trainables.dp.layers.recorder import (
    OfRows,
    Recorder,
    Views,
    apply,
    current,
    gradients,
    is_plain,
    row_factors,
)
from trainables.dp.layers.rounding import (
    Size,
    row_norms,
    sum_of_norms,
    sums_of,
    upper_bound,
)
from trainables.dp.layers.units import Units

# The alphabet is fixed and public: 0 is padding, 1 any other character, then printable
# ASCII.
_FIRST, _LAST = 33, 126
NUM_CHARS = 2 + _LAST - _FIRST + 1
MAX_CHARS = 20
_CHUNK = 1 << 22  # numbers of per-unit matrices that are held at once


def encode(words: Sequence[str], kernel: int) -> np.ndarray:
    """Character ids of `words` for a `CharCnn` of this `kernel` width:
    int64[len(words), MAX_CHARS + kernel - 1], with kernel // 2 zeros in front. 0 pads,
    1 is any character that is not printable ASCII, 2 and up are the printable ones.
    Words are cut after `MAX_CHARS` characters. An id depends on its character alone.

    >>> encode(["a!"], 3)[0, :4].tolist()
    [0, 66, 2, 0]
    """
    out = np.zeros((len(words), MAX_CHARS + kernel - 1), dtype=np.int64)
    for row, word in zip(out, words, strict=True):
        codes = np.array([ord(char) for char in word[:MAX_CHARS]], dtype=np.int64)
        known = (codes >= _FIRST) & (codes <= _LAST)
        row[kernel // 2 : kernel // 2 + codes.size] = np.where(
            known, codes - _FIRST + 2, 1
        )
    return out


@dataclass(eq=False)
class CharCnnEntry(OfRows):
    """`seen` int64[W, F, k]: characters in the winning window of each filter for each
    word; `word` int64[n]: word of each row; `g` [n, F]: gradient by the row's feature
    before ReLU.
    """

    layer: CharCnn
    seen: Tensor
    word: Tensor
    g: Tensor
    rows: Rows

    def _gradients(self, q: Tensor) -> dict[nn.Parameter, Tensor]:
        """`q` [m, C, F * k] -> gradients [m, ...] by embedding and filters."""
        layer = self.layer
        embedding, filters = layer.embedding.detach(), layer.filters.detach()
        found = {}
        if layer.embedding.requires_grad:
            found[layer.embedding] = q @ filters.flatten(-3, -2)
        if layer.filters.requires_grad:
            by_filter = q.transpose(1, 2) @ embedding
            found[layer.filters] = by_filter.view(-1, *layer.filters.shape)
        return found

    def _add(self, q: Tensor, owner: Tensor, word: Tensor, g: Tensor) -> None:
        """Add `g` of rows of `word` into q[owner]; q is [m, C, F * k]."""
        _, num_chars, width = q.shape
        filters, kernel = self.layer.filters.shape[:2]
        column = torch.arange(width, device=q.device).view(filters, kernel)
        cell = (owner.view(-1, 1, 1) * num_chars + self.seen[word]) * width + column
        values = g.unsqueeze(2).expand(-1, -1, kernel)
        q.view(-1).index_add_(0, cell.flatten(), values.flatten())

    def squared_norms(
        self, units: Units, weights: Mapping[nn.Parameter, float]
    ) -> Tensor:
        """The per-unit matrices are formed, a chunk of units at a time."""
        rows = units.of(self.rows)
        layer = self.layer
        width = layer.filters.shape[0] * layer.filters.shape[1]
        total = self.g.new_zeros(units.num_units, dtype=torch.float64)
        if layer.bias.requires_grad:
            sums = sums_of(self.g, rows.unit, units.num_units)
            total += row_norms(sums).square_().mul_(weights[layer.bias])
        at_once = max(1, _CHUNK // (NUM_CHARS * width))
        for first in range(0, units.num_units, at_once):
            count = min(at_once, units.num_units - first)
            unit, word, g = rows.unit - first, self.word, self.g
            if count < units.num_units:
                outside = (unit < 0) | (unit >= count)
                unit, g = (
                    unit.clamp(0, count - 1),
                    g.masked_fill(outside.unsqueeze(1), 0.0),
                )
            q = g.new_zeros(count, NUM_CHARS, width)
            self._add(q, unit, word, g)
            for parameter, gradient in self._gradients(q).items():
                norms = row_norms(gradient).square_()
                total[first : first + count] += norms.mul_(weights[parameter])
        return upper_bound(total, self.size(units, weights))

    def size(self, units: Units, weights: Mapping[nn.Parameter, float]) -> Size:
        """Sum of |g| times the largest effect of one row of norm 1 on each parameter:
        for a filter the characters of the windows, for a character the filters.
        """
        layer = self.layer
        embedding, filters = (
            layer.embedding.detach().double(),
            layer.filters.detach().double(),
        )
        kernel = filters.shape[1]
        most = torch.zeros((), dtype=torch.float64, device=self.g.device)
        if layer.bias.requires_grad:
            most += weights[layer.bias]
        if layer.filters.requires_grad:
            most += (
                weights[layer.filters] * kernel * row_norms(embedding).max().square()
            )
        if layer.embedding.requires_grad:
            by_filter = torch.linalg.vector_norm(filters, dim=2).sum(1)
            most += weights[layer.embedding] * by_filter.square().sum()
        rows = units.of(self.rows)
        total = sum_of_norms(self.g, rows.unit, units.num_units).mul_(most.sqrt_())
        # A cell of Q adds up over rows, then a gradient over characters or over
        # (filter, offset).
        return Size(
            total, rows.rows_of_unit + max(NUM_CHARS, filters.shape[0] * kernel)
        )

    def add_gradient(
        self, units: Units | None, factors: Tensor | None, views: Views
    ) -> None:
        """Gradients of equal words are summed before their characters are processed."""
        scale = row_factors(units, factors, self.rows)
        g = self.g if scale is None else self.g * scale.unsqueeze(1)
        if self.layer.bias.requires_grad:
            views[self.layer.bias].add_(g.sum(0))
        num_words = self.seen.shape[0]
        by_word = sums_of(g, self.word, num_words)
        q = g.new_zeros(
            1, NUM_CHARS, self.layer.filters.shape[0] * self.layer.filters.shape[1]
        )
        words = torch.arange(num_words, device=g.device)
        self._add(q, torch.zeros_like(words), words, by_word)
        for parameter, gradient in self._gradients(q).items():
            views[parameter].add_(gradient[0])


def _features(
    embedding: Tensor, filters: Tensor, bias: Tensor, chars: Tensor
) -> tuple[Tensor, Tensor]:
    """[W, F] of the words, and the characters of the winning windows, int64[W, F,
    k].
    """
    kernel = filters.shape[1]
    windows = chars.unfold(1, kernel, 1)  # [W, places, k]
    seen = embedding[windows].flatten(2)  # [W, places, k * D]
    values = seen @ filters.flatten(1).t()
    # Windows around places beyond the word do not compete; the first always does.
    beyond = chars[:, kernel // 2 : kernel // 2 + values.shape[1]] == 0
    beyond[:, 0] = False
    best, place = values.masked_fill_(beyond.unsqueeze(2), -math.inf).max(1)
    winners = windows.gather(1, place.unsqueeze(2).expand(-1, -1, kernel))
    return (best + bias).relu_(), winners


class _CharCnn(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        embedding: Tensor,
        filters: Tensor,
        bias: Tensor,
        chars: Tensor,
        word: Tensor,
        layer: CharCnn,
        rows: Rows,
        tape: Recorder | None,
    ) -> Tensor:
        features, winners = _features(embedding, filters, bias, chars)
        ctx.save_for_backward(features, winners, word)
        ctx.layer = (layer, rows, tape)
        return features.index_select(0, word)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        features, winners, word = ctx.saved_tensors
        layer, rows, tape = ctx.layer
        g = g * (features > 0).index_select(0, word)
        views = gradients(CharCnnEntry(layer, winners, word, g, rows), tape)
        own = (
            views.get(layer.embedding),
            views.get(layer.filters),
            views.get(layer.bias),
        )
        return *own, None, None, None, None, None


class CharCnn(nn.Module):
    """Features [n, num_filters] of the words of n tokens: a convolution of width
    `kernel` over character embeddings, then the maximum over the places of a word (Ma
    and Hovy 2016). Parameters: `embedding` [C, char_dim], `filters` [num_filters,
    kernel, char_dim], `bias` [num_filters]. Each distinct word of a batch is computed
    once; gradients are recorded by record.
    """

    def __init__(self, char_dim: int, num_filters: int, kernel: int) -> None:
        super().__init__()
        self.embedding = nn.Parameter(torch.randn(NUM_CHARS, char_dim))
        bound = 1 / math.sqrt(kernel * char_dim)
        self.filters = nn.Parameter(
            torch.empty(num_filters, kernel, char_dim).uniform_(-bound, bound)
        )
        self.bias = nn.Parameter(torch.empty(num_filters).uniform_(-bound, bound))

    def forward(self, chars: Tensor, word: Tensor, rows: Rows) -> Tensor:
        """`chars` int64[W, .] as `encode` gives them for W distinct words; `word`
        int64[n]: which of them each token is; `rows`: which record each token is of.
        """
        if is_plain():
            found, _ = _features(self.embedding, self.filters, self.bias, chars)
            return found.index_select(0, word)
        return apply(
            _CharCnn,
            self.embedding,
            self.filters,
            self.bias,
            chars,
            word,
            self,
            rows,
            current(),
        )
