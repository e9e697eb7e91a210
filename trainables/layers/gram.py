"""Norms of per-unit sums of outer products, without the sums.

For a unit with activation rows a_t and output-gradient rows g_t the weight gradient is
sum_t g_t a_t^T, and its squared norm sum over t, s of (a_t . a_s)(g_t . g_s) (Goodfellow 2015; Li
et al. 2021): two small Grams in place of one weight-sized matrix. For a unit of many rows the
matrix itself is cheaper, so each group of equally long units takes the cheaper way.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from trainables.layers.tape import UnitRows


def gram_norms(
    rows: UnitRows, terms: Sequence[tuple[Tensor, float]], g: Tensor, ones: float
) -> Tensor:
    """[U]: sum over `terms` (a, w) of w * |sum_t g_t a_t^T|^2, plus ones * |sum_t g_t|^2.

    All terms share the output gradient `g` [n, O]: the input, recurrent and bias weights of one
    LSTM direction do. Each `a` is [n, I].
    """
    g = rows.regroup(g)
    activations = [(rows.regroup(a), weight) for a, weight in terms]
    found = []
    for start, number, size in rows.groups:
        end = start + number * size
        g_group = g[start:end].view(number, size, -1)
        width = g.shape[1]
        inner = sum(a.shape[1] for a, _ in activations)
        if size * (inner + width) <= inner * width:
            found.append(_by_gram(activations, g_group, start, end, ones))
        else:
            found.append(_by_sum(activations, g_group, start, end, ones))
    return rows.scatter(torch.cat(found))


def _by_gram(
    activations: Sequence[tuple[Tensor, float]], g: Tensor, start: int, end: int, ones: float
) -> Tensor:
    number, size, _ = g.shape
    total: Tensor | None = None
    for a, weight in activations:
        group = a[start:end].view(number, size, -1)
        if total is None:
            total = torch.bmm(group, group.transpose(1, 2)).mul_(weight).add_(ones)
        else:
            total.baddbmm_(group, group.transpose(1, 2), alpha=weight)
    if total is None:
        return g.sum(1).square_().sum(1).mul_(ones)
    products = torch.bmm(g, g.transpose(1, 2)).mul_(total)
    # A squared norm: rounding may leave a tiny negative number where everything cancels.
    return products.sum((1, 2)).clamp_min_(0)


def _by_sum(
    activations: Sequence[tuple[Tensor, float]], g: Tensor, start: int, end: int, ones: float
) -> Tensor:
    number, size, _ = g.shape
    total = g.sum(1).square_().sum(1).mul_(ones)
    for a, weight in activations:
        group = a[start:end].view(number, size, -1)
        for unit in range(number):
            gradient = g[unit].t() @ group[unit]
            total[unit] += weight * gradient.square_().sum()
    return total
