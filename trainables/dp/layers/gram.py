"""Norms of per-unit sums of outer products, without the sums.

For a unit with activation rows a_t and output-gradient rows g_t the weight gradient is
sum_t g_t a_t^T, and its squared norm sum over t, s of (a_t . a_s)(g_t . g_s)
(Goodfellow 2015; Li et al. 2021): two small Grams in place of one weight-sized matrix.
For a unit of many rows the matrix itself is cheaper, so each group of equally long
units takes the cheaper way.

On a CPU with a compiler `_gram.c` computes it, from half of each Gram, in float32.
Elsewhere batched products do, on a CPU in float64. The rounding of float32 is bounded
(see `rounding`), so that cancelling rows can make a norm too large and never too small.
"""

import functools
import math
import weakref
from collections.abc import Callable, Sequence
from ctypes import c_float, c_int64, c_void_p
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from trainables.dp.layers.packing import Rows
from trainables.dp.layers.rounding import (
    FLOAT32,
    Size,
    row_norms,
    upper_bound,
    upper_row_norms,
)
from trainables.dp.layers.units import UnitRows, Units
from trainables.system import native

_SOURCE = Path(__file__).with_name("_gram.c")
_MOST_ROWS = 96  # of a unit, as there
_LANES = 8  # as there
_TINY = 1e-36  # as there
_NUMBERS_AT_ONCE = 1 << 20  # of gradients that are formed
_TO_START, _TO_MEASURE = (
    500_000,
    17,
)  # multiplications in the time of a gradient, of a number of it

Terms = Sequence[tuple[Tensor, float]]


class GramNorms(NamedTuple):
    """`squares` float64[U], each off by at most `relative` * R^2, R being the unit's
    `size`.

    `relative` float64[U] is 0 for a unit whose gradient was formed, whatever the others
    took.
    """

    squares: Tensor
    size: Size
    relative: Tensor

    @property
    def upper(self) -> Tensor:
        """float64[U]: upper bound of the squared norm of the released gradient before
        clipping.
        """
        return upper_bound(self.squares, self.size, relative=self.relative)


class FixedRows:
    """The Grams and norms of an activation `x` [n, I], computed once while it stays the
    same.

    Full batches of fixed features read one tensor in every step.
    """

    def __init__(self, x: Tensor) -> None:
        self._x, self._version = weakref.ref(x), x._version
        self._norms: Tensor | None = None
        self._grams: tuple[object, Tensor | None, Tensor] | None = None

    def are(self, x: Tensor) -> bool:
        """Whether `x` is that very tensor and has not been written to."""
        return self._x() is x and x._version == self._version

    def upper_norms(self, x: Tensor) -> Tensor:
        """float64[n]: `upper_row_norms` of `x`."""
        if self._norms is None:
            self._norms = upper_row_norms(x)
        return self._norms

    def grams(self, rows: UnitRows, first_group: int, x: Tensor) -> Tensor:
        """The compiled Grams of the groups from `first_group` on; `x` is regrouped."""
        groups = rows.groups[first_group:]
        known = self._grams
        if known is None or known[0] != groups or not _is_same(known[1], rows.order):
            known = (groups, rows.order, _unit_grams(rows, first_group, x))
            self._grams = known
        return known[2]


def _is_same(left: Tensor | None, right: Tensor | None) -> bool:
    return left is right or (
        left is not None and right is not None and torch.equal(left, right)
    )


def gram_norms(
    rows: UnitRows,
    terms: Terms,
    g: Tensor,
    ones: float,
    *,
    fixed: FixedRows | None = None,
) -> GramNorms:
    """[U]: sum over `terms` (a, w) of w * |sum_t g_t a_t^T|^2, plus ones * |sum_t
    g_t|^2.

    All terms share the output gradient `g` [n, O]: the input, recurrent and bias
    weights of one LSTM direction do. Each `a` is [n, I]. `fixed` has what is known of
    the only term's.
    """
    g = rows.regroup(g)
    terms = [(rows.regroup(a), weight) for a, weight in terms]
    inner, width = sum(a.shape[1] for a, _ in terms), g.shape[1]
    compiled = _native_norms() if _is_plain((g, *(a for a, _ in terms))) else None
    most = _longest(inner, width, g, compiled=compiled is not None)
    # Groups come by falling size: those that are too long for a Gram are the first
    # ones.
    long = sum(size > most for _, _, size in rows.groups)
    squares, totals, relative = (
        g.new_zeros(rows.num_units, dtype=torch.float64) for _ in range(3)
    )
    place = 0
    for start, number, size in rows.groups[:long]:
        units = rows.units[place : place + number]
        squares[units] = _by_sum(
            terms, g[start : start + number * size], start, number, ones
        )
        place += number
    if long < len(rows.groups):
        short = rows.units[place:]
        if compiled is not None:
            known = [
                fixed.grams(rows, long, a) if fixed is not None else None
                for a, _ in terms
            ]
            _compute(compiled, rows, long, terms, g, ones, (squares, totals), known)
            relative[short] = FLOAT32 * _roundings(terms, width, lanes=_LANES)
        else:
            _add_by_gram(rows, long, terms, g, ones, squares)
            if not _is_double(
                g
            ):  # in float64 the rounding is covered by that of the sum
                relative[short] = FLOAT32 * _roundings(terms, width, lanes=1)
    if long or compiled is None:
        of_long = slice(sum(number * size for _, number, size in rows.groups[:long]))
        some = of_long if compiled is not None else slice(None)
        unit = (
            rows.unit if rows.order is None else rows.unit.index_select(0, rows.order)
        )
        totals += _sizes(
            unit[some],
            rows.num_units,
            [(a[some], weight) for a, weight in terms],
            g[some],
            ones,
        )
    return GramNorms(squares, Size(totals, rows.rows_of_unit), relative)


def _longest(inner: int, width: int, g: Tensor, *, compiled: bool) -> float:
    """Rows of the longest unit whose Grams cost less than its gradient.

    Costs are counted in multiplications. Those of a gradient take twice as long as
    those of a compiled half of a Gram, and a gradient has a cost of its own, for each
    number and to be started at all, which is most of it where it is thin; in float64 a
    Gram costs 2.5 times as much (measured, AMD EPYC).
    """
    size, sides = inner * width, max(inner + width, 1)
    if compiled:
        alone = _TO_START + _TO_MEASURE * size
        # Where rows^2 / 2 * sides = 2 * rows * size + alone.
        rows = (2 * size + math.sqrt(4 * size**2 + 2 * sides * alone)) / sides
        return min(rows, _MOST_ROWS)
    rows = size / sides
    return rows / 2.5 if _is_double(g) and g.dtype == torch.float32 else rows


def product_size(rows: UnitRows, terms: Terms, g: Tensor, ones: float) -> Size:
    """The `size` alone, from the arguments of `gram_norms`."""
    return Size(_sizes(rows.unit, rows.num_units, terms, g, ones), rows.rows_of_unit)


def _roundings(terms: Terms, width: int, *, lanes: int) -> int:
    """Largest number of roundings of one product of two Grams' entries: both products
    of rows, in lanes, the sums of lanes and remainders, weights, terms.
    """
    widest = max((a.shape[1] for a, _ in terms), default=0)
    return (widest + width) // lanes + 4 * lanes + len(terms) + 8


def _sizes(
    unit: Tensor, num_units: int, terms: Terms, g: Tensor, ones: float
) -> Tensor:
    """float64[U]: R of each unit, the rows being of `unit` int64[n]."""
    squares = g.new_full((g.shape[0],), ones + _TINY, dtype=torch.float64)
    for a, weight in terms:
        squares += row_norms(a).square_().mul_(weight)
    norms = row_norms(g).square_().add_(_TINY)
    return norms.new_zeros(num_units).index_add_(0, unit, norms.mul_(squares).sqrt_())


_Compiled = Callable[
    [int, Any, int, int, int, Any, Any, Any, float, Any, int, int], None
]


def _is_plain(values: Sequence[Tensor]) -> bool:
    return all(x.device.type == "cpu" and x.dtype == torch.float32 for x in values)


def _is_double(g: Tensor) -> bool:
    """Whether batched Grams are computed in float64: on GPUs it may be 64 times
    slower.
    """
    return g.device.type == "cpu" or g.dtype == torch.float64


def _compute(
    compiled: _Compiled,
    rows: UnitRows,
    first_group: int,
    terms: Terms,
    g: Tensor,
    ones: float,
    out: tuple[Tensor, Tensor],
    known: Sequence[Tensor | None],
) -> None:
    """Set the squares and sizes of all units from `first_group` on; `known` has Grams
    of terms.
    """
    sizes = _unit_sizes(rows, first_group)
    begin = rows.groups[first_group][0]
    places = np.array([a[begin:].data_ptr() for a, _ in terms], dtype=np.uint64)
    widths = np.array([a.shape[1] for a, _ in terms], dtype=np.int64)
    weights = np.array([weight for _, weight in terms], dtype=np.float32)
    grams = np.array(
        [0 if each is None else each.data_ptr() for each in known], dtype=np.uint64
    )
    found = torch.empty(2, len(sizes), dtype=torch.float64)
    compiled(
        len(sizes), sizes.ctypes.data, g[begin:].data_ptr(), g.shape[1], len(terms),
        places.ctypes.data, widths.ctypes.data, weights.ctypes.data, ones,
        grams.ctypes.data, found[0].data_ptr(), found[1].data_ptr(),
    )  # fmt: skip
    for whole, part in zip(out, found, strict=True):
        whole[rows.units[-len(sizes) :]] = part


def _unit_sizes(rows: UnitRows, first_group: int) -> NDArray[np.int64]:
    """The number of rows of each unit from `first_group` on."""
    groups = rows.groups[first_group:]
    return np.repeat(
        [size for _, _, size in groups], [number for _, number, _ in groups]
    )


def _unit_grams(rows: UnitRows, first_group: int, x: Tensor) -> Tensor:
    """float32: lower halves of the Grams of all units from `first_group` on, without
    weight.
    """
    sizes = _unit_sizes(rows, first_group)
    out = torch.empty(int((sizes * (sizes + 1) // 2).sum()), dtype=torch.float32)
    begin = rows.groups[first_group][0]
    places = sizes.ctypes.data, x[begin:].data_ptr(), x.shape[1], out.data_ptr()
    library = native.library(_SOURCE)
    assert library is not None
    # Here, not where the library is checked: one that is loaded again has no types, and
    # without them an address is cut to 32 bits.
    library.unit_grams.argtypes = [c_int64, *2 * [c_void_p], c_int64, c_void_p]
    library.unit_grams.restype = None
    library.unit_grams(len(sizes), *places)
    return out


@functools.cache
def _native_norms() -> _Compiled | None:
    """`gram_norms` of the C source; None where it is unavailable or gives other
    numbers.
    """
    library = native.library(_SOURCE)
    if library is None:
        return None
    function = library.gram_norms
    function.argtypes = [
        c_int64, c_void_p, c_void_p, *2 * [c_int64], *3 * [c_void_p], c_float, *3 * [c_void_p]
    ]  # fmt: skip
    function.restype = None
    rows = Units(torch.tensor([1, 0, 2]), 3).of(
        Rows(np.repeat(np.arange(3), (9, 5, 3)), 3)
    )
    random = torch.Generator().manual_seed(2)
    g, a, b = (torch.randn(17, width, generator=random) for width in (24, 11, 8))
    terms = [(a, 0.7), (b, 1.3)]
    squares, sizes = (
        torch.zeros(3, dtype=torch.float64),
        _sizes(rows.unit, 3, terms, g, 0.4),
    )
    _add_by_gram(rows, 0, terms, g, 0.4, squares)
    ways: tuple[Sequence[Tensor | None], ...] = (
        [None, None],
        [_unit_grams(rows, 0, x) for x, _ in terms],
    )
    for grams in ways:
        found = torch.zeros_like(squares), torch.zeros_like(sizes)
        _compute(function, rows, 0, terms, g, 0.4, found, grams)
        for mine, its in zip(found, (squares, sizes), strict=True):
            if not torch.allclose(mine, its, rtol=1e-5, atol=0.0):
                return None
    return function


def _add_by_gram(
    rows: UnitRows,
    first_group: int,
    terms: Terms,
    g: Tensor,
    ones: float,
    squares: Tensor,
) -> None:
    """Add the squares of all units from `first_group` on; one product a group and
    factor.
    """
    if _is_double(g):
        g, terms = g.double(), [(a.double(), weight) for a, weight in terms]
    groups = rows.groups[first_group:]
    cells = [number * size**2 for _, number, size in groups]
    left, right = g.new_empty(sum(cells)), g.new_full((sum(cells),), ones)
    for (start, number, size), one, other in zip(
        groups, torch.split(left, cells), torch.split(right, cells), strict=True
    ):
        taken, shape = slice(start, start + number * size), (number, size, size)
        own = g[taken].view(number, size, g.shape[1])
        torch.bmm(own, own.mT, out=one.view(shape))
        for a, weight in terms:
            own = a[taken].view(number, size, a.shape[1])
            other.view(shape).baddbmm_(own, own.mT, alpha=weight)
    sizes = torch.from_numpy(_unit_sizes(rows, first_group)).to(
        g.device, non_blocking=True
    )
    # The known size avoids waiting for the device.
    owner = rows.units[-len(sizes) :].repeat_interleave(
        sizes.square(), output_size=len(left)
    )
    squares.index_add_(0, owner, right.mul_(left).double())


def _by_sum(terms: Terms, g: Tensor, start: int, number: int, ones: float) -> Tensor:
    """float64[number]: the definition, a few gradients at a time."""
    per_unit = g.view(number, -1, g.shape[1])
    total = per_unit.new_zeros(number, dtype=torch.float64)
    if ones:
        total += per_unit.sum(1).double().square_().sum(1).mul_(ones)
    for a, weight in terms:
        own = a[start : start + g.shape[0]].view(number, -1, a.shape[1])
        at_once = max(1, _NUMBERS_AT_ONCE // max(1, g.shape[1] * a.shape[1]))
        for low in range(0, number, at_once):
            some = slice(low, low + at_once)
            gradients = torch.bmm(per_unit[some].transpose(1, 2), own[some])
            total[some] += weight * row_norms(gradients).square_()
    return total
