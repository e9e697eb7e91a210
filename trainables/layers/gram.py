"""Norms of per-unit sums of outer products, without the sums.

For a unit with activation rows a_t and output-gradient rows g_t the weight gradient is
sum_t g_t a_t^T, and its squared norm sum over t, s of (a_t . a_s)(g_t . g_s) (Goodfellow 2015; Li
et al. 2021): two small Grams in place of one weight-sized matrix. For a unit of many rows the
matrix itself is cheaper, so each group of equally long units takes the cheaper way.

On a CPU with a compiler `_gram.c` does it, from half of each Gram. Else by batched products: small
ones run several times faster in tiles of 8 rows, so a Gram is computed a little too large, over the
rows that happen to follow, and only its valid cells are read: no row is copied.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from ctypes import c_float, c_int64, c_void_p
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from trainables import native
from trainables.layers.tape import UnitRows

_SOURCE = Path(__file__).with_name("_gram.c")
_MOST_ROWS = 96  # of a unit, as there

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
        plain = _is_plain((g, *(a for a, _ in terms))) and rows.groups[long][2] <= _MOST_ROWS
        compiled = _compiled() if plain else None
        if compiled is not None:
            _compute(compiled, rows, long, terms, g, ones, squares)
        else:
            _add_by_gram(rows, long, terms, g, ones, squares)
    # Rounding may leave a tiny negative number where everything cancels.
    return squares.clamp_min_(0)


_Compiled = Callable[[int, Any, int, int, int, Any, Any, Any, float, int], None]


def _is_plain(values: Sequence[Tensor]) -> bool:
    return all(x.device.type == "cpu" and x.dtype == torch.float32 for x in values)


def _compute(
    compiled: _Compiled,
    rows: UnitRows,
    first_group: int,
    terms: Terms,
    g: Tensor,
    ones: float,
    squares: Tensor,
) -> None:
    """Set the squares of all units from `first_group` on."""
    groups = rows.groups[first_group:]
    sizes = np.repeat([size for _, _, size in groups], [number for _, number, _ in groups])
    begin = groups[0][0]
    places = np.array([a[begin:].data_ptr() for a, _ in terms], dtype=np.uint64)
    widths = np.array([a.shape[1] for a, _ in terms], dtype=np.int64)
    weights = np.array([weight for _, weight in terms], dtype=np.float32)
    found = torch.empty(len(sizes))
    compiled(
        len(sizes), sizes.ctypes.data, g[begin:].data_ptr(), g.shape[1], len(terms),
        places.ctypes.data, widths.ctypes.data, weights.ctypes.data, ones, found.data_ptr(),
    )  # fmt: skip
    squares[rows.units[-len(sizes) :]] = found


@functools.cache
def _compiled() -> _Compiled | None:
    """`gram_norms` of the C source; None where it cannot be had or gives other numbers."""
    library = native.library(_SOURCE)
    if library is None:
        return None
    function = library.gram_norms
    function.argtypes = [
        c_int64, c_void_p, c_void_p, *2 * [c_int64], *3 * [c_void_p], c_float, c_void_p
    ]  # fmt: skip
    function.restype = None
    made = np.random.default_rng(2)
    g, a, b = (made.normal(size=(17, width)).astype(np.float32) for width in (24, 11, 8))
    unit = torch.tensor([1] * 9 + [0] * 5 + [2] * 3)
    rows = UnitRows(unit, None, ((0, 1, 9), (9, 1, 5), (14, 1, 3)), torch.tensor([1, 0, 2]), 3)
    found = torch.zeros(3)
    terms = [(torch.from_numpy(a), 0.7), (torch.from_numpy(b), 1.3)]
    _compute(function, rows, 0, terms, torch.from_numpy(g), 0.4, found)
    for where, own in ((slice(0, 9), 1), (slice(9, 14), 0), (slice(14, 17), 2)):
        one, two, three = (x[where].astype(np.float64) for x in (g, a, b))
        right = 0.7 * (one.T @ two) ** 2, 1.3 * (one.T @ three) ** 2, 0.4 * one.sum(0) ** 2
        if abs(float(found[own]) / sum(part.sum() for part in right) - 1) > 1e-5:
            return None
    return function


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
