"""Norms of per-unit sums of outer products, without the sums.

For a unit with activation rows a_t and output-gradient rows g_t the weight gradient is
sum_t g_t a_t^T, and its squared norm sum over t, s of (a_t . a_s)(g_t . g_s) (Goodfellow 2015; Li
et al. 2021): two small Grams in place of one weight-sized matrix. For a unit of many rows the
matrix itself is cheaper, so each group of equally long units takes the cheaper way.

Small products run several times faster in tiles of 8 rows, so a Gram is computed a little too
large, over the rows that happen to follow, and only its valid cells are read: no row is copied.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from trainables.layers.tape import UnitRows

Terms = Sequence[tuple[Tensor, float]]


def gram_norms(rows: UnitRows, terms: Terms, g: Tensor, ones: float) -> Tensor:
    """[U]: sum over `terms` (a, w) of w * |sum_t g_t a_t^T|^2, plus ones * |sum_t g_t|^2.

    All terms share the output gradient `g` [n, O]: the input, recurrent and bias weights of one
    LSTM direction do. Each `a` is [n, I].
    """
    g = rows.regroup(g)
    terms = [(rows.regroup(a), weight) for a, weight in terms]
    inner, width = sum(a.shape[1] for a, _ in terms), g.shape[1]
    # Groups come by falling size: those that are too long for a Gram are the first ones.
    long = sum(size * (inner + width) > inner * width for _, _, size in rows.groups)
    squares = g.new_zeros(rows.num_units)
    place = 0
    for start, number, size in rows.groups[:long]:
        units = rows.units[place : place + number]
        squares[units] = _by_sum(terms, g[start : start + number * size], start, number, ones)
        place += number
    if long < len(rows.groups):
        _add_by_gram(rows, long, terms, g, ones, squares)
    # Rounding may leave a tiny negative number where everything cancels.
    return squares.clamp_min_(0)


def _add_by_gram(
    rows: UnitRows, first_group: int, terms: Terms, g: Tensor, ones: float, squares: Tensor
) -> None:
    """Add the squares of all units from `first_group` on; one product a group and factor."""
    cells = rows.cells(first_group, g)
    for (start, number, size), (left, right) in zip(
        rows.groups[first_group:], cells.tiles, strict=True
    ):
        shape = (start, number, size, left.shape[1])
        torch.bmm(*_tiles(g, shape), out=left)
        for index, (a, weight) in enumerate(terms):
            # beta 0: what the buffer held is not read.
            beta = 0 if index == 0 else 1
            torch.baddbmm(right, *_tiles(a, shape), beta=beta, alpha=weight, out=right)
    if not terms:
        cells.right.zero_()
    products = cells.right.add_(ones).mul_(cells.left)
    squares.index_add_(0, cells.unit, products.index_select(0, cells.valid))


def _tiles(values: Tensor, shape: tuple[int, int, int, int]) -> tuple[Tensor, Tensor]:
    """(units, rows, width) of a group and its transpose; rows may run into the next unit's."""
    start, number, size, tile = shape
    width = values.shape[1]
    offset = values.storage_offset() + start * width
    return (
        values.as_strided((number, tile, width), (size * width, width, 1), offset),
        values.as_strided((number, width, tile), (size * width, 1, width), offset),
    )


def _by_sum(terms: Terms, g: Tensor, start: int, number: int, ones: float) -> Tensor:
    """[number]: the definition, one gradient at a time."""
    per_unit = g.view(number, -1, g.shape[1])
    total = per_unit.sum(1).square_().sum(1).mul_(ones)
    for a, weight in terms:
        own = a[start : start + g.shape[0]].view(number, -1, a.shape[1])
        for unit in range(number):
            total[unit] += weight * (per_unit[unit].t() @ own[unit]).square().sum()
    return total
