"""`guarantee.noise.normals` in float32, fast and with the same bits everywhere: importing this
module offers it to the base, which compares it with its definition before use and in each stream.

Near 1 the radius' u is exact: nowhere are its steps wider than float32's own around the radius.

The logarithm, sine and cosine are polynomials (fitted by Chebyshev interpolation, relative error
below 2e-7) in sums, products and square roots, which IEEE 754 rounds alike on every machine; a
library's own functions differ by processor. `_box_muller.c` has the same operations in the same
order, for where a C compiler is at hand: the numbers do not depend on that, the time does (four to
ten times as much without).
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from ctypes import c_float, c_int64, c_void_p
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from trainables.guarantee import noise
from trainables.guarantee.noise import num_extra
from trainables.system import native

F32 = NDArray[np.float32]
U32 = NDArray[np.uint32]

_SOURCE = Path(__file__).with_name("_box_muller.c")
_SMALL = np.uint32(1 << 20)
_LOG = (  # coefficients of (ln(1 + f) - f + f^2 / 2) / f^3
    (-0.249999896, 0.333333313),
    (-0.166684806, 0.200007081),
    (-0.124110505, 0.142499372),
    (-0.115712009, 0.116615109),
)
_LOG_TOP = 0.0714975372
_SIN = (-0.000195879504, 0.0083327489, -0.166666642)
_COS = (2.45479914e-05, -0.00138883037, 0.0416666642, -0.5, 1.0)
_LN_2 = 0.693147182
_TO_ANGLE = 3.65729530e-10  # pi / 4 / 2^31


def add_normals(words: U32, half: int, target: F32, factor: float, std: float) -> None:
    """target = target * factor + std * N(0, 1), `target` of 2 half or 2 half - 1 numbers.

    `words`: radii [half], angles [half], extra [num_extra(half)]. Pair i gives numbers i and
    half + i. `words` and `target` are contiguous.
    """
    compiled = _native_normals()
    if compiled is None:
        _add_in_numpy(words, half, target, factor, std)
    else:
        _add_by(compiled, words, half, target, factor, std)


def _add_in_numpy(words: U32, half: int, target: F32, factor: float, std: float) -> None:
    radii, turns, extra = np.split(words[: 2 * half + num_extra(half)], (half, 2 * half))
    scratch = np.empty((8, half), dtype=np.float32)
    _to_float(radii, scratch[0], extra)
    _radius(radii, scratch)
    target *= np.float32(factor)
    for part, new in zip((target[:half], target[half:]), _rotate(turns, scratch), strict=True):
        new *= np.float32(std)
        part += new[: len(part)]


noise.accelerate(add_normals)

_Compiled = Callable[[int, int, int, int, float, float, int, int], None]


def _add_by(
    compiled: _Compiled, words: U32, half: int, target: F32, factor: float, std: float
) -> None:
    first, rest = target.ctypes.data, len(target) - half
    compiled(
        words.ctypes.data, half, rest, num_extra(half), factor, std, first, first + 4 * half
    )  # fmt: skip


@functools.cache
def _native_normals() -> _Compiled | None:
    """`add_normals` of the C source; None where it is unavailable or gives other bits, small words
    included."""
    library = native.library(_SOURCE)
    if library is None:
        return None
    function = library.add_normals
    function.argtypes = [c_void_p, *3 * [c_int64], *2 * [c_float], *2 * [c_void_p]]
    function.restype = None
    half = 1 << 12
    words = noise.hard_words(half)
    ours = np.linspace(-1, 1, 2 * half - 1, dtype=np.float32)
    its = ours.copy()
    _add_in_numpy(words, half, ours, 0.7, 1.3)
    _add_by(function, words, half, its, 0.7, 1.3)
    return function if bool((ours.view(np.int32) == its.view(np.int32)).all()) else None


def _to_float(words: U32, out: F32, extra: U32) -> None:
    """`out` = the words as numbers in (0, 2^32], the small ones with more bits from `extra`."""
    np.copyto(out, words, casting="same_kind")
    small = np.flatnonzero(words < _SMALL)
    more = extra[np.arange(small.size) % extra.size] | np.uint32(1)
    out[small] = words[small].astype(np.float64) + more.astype(np.float64) * 2.0**-32


def _radius(words: U32, scratch: F32) -> None:
    """scratch[0] = sqrt(-2 ln(scratch[0] / 2^32)), by ln((1 + f) 2^e) = ln(1 + f) + e ln 2."""
    x, f, f2, f4, low, high, e, part = scratch
    bits, power, shifted = x.view(np.int32), e.view(np.int32), part.view(np.int32)
    np.subtract(bits, np.int32(0x3F3504F3), out=power)
    np.right_shift(power, np.int32(23), out=power)
    np.left_shift(power, np.int32(23), out=shifted)
    np.subtract(bits, shifted, out=f.view(np.int32))
    f -= np.float32(1)
    power -= np.int32(32)
    # Next to 1, where ln u is next to 0 (power 0): u - 1 exactly.
    np.copyto(part, words.view(np.int32), casting="same_kind")
    part *= np.float32(2.0**-32)
    elsewhere = np.right_shift(power, np.int32(31), out=f2.view(np.int32))
    _exchange(f, part, elsewhere)
    f, part = part, f
    np.copyto(low, power, casting="same_kind")
    e[...] = low
    np.multiply(f, f, out=f2)
    np.multiply(f2, f2, out=f4)
    _line(_LOG[0], f, low)
    low += np.multiply(_line(_LOG[1], f, part), f2, out=part)
    _line(_LOG[2], f, high)
    high += np.multiply(_line(_LOG[3], f, part), f2, out=part)
    high += np.multiply(f4, np.float32(_LOG_TOP), out=part)
    high *= f4
    high += low
    high *= f
    high -= np.float32(0.5)
    high *= f2
    high += f
    e *= np.float32(_LN_2)
    e += high
    e *= np.float32(-2)
    np.sqrt(e, out=x)


def _rotate(turns: U32, scratch: F32) -> tuple[F32, F32]:
    """The radii scratch[0] times cosine and sine of the angles: two rows of `scratch`."""
    radius, y, z, s, c, part = scratch[:6]
    whole = part.view(np.uint32)
    np.left_shift(turns, np.uint32(2), out=whole)
    whole |= np.uint32(2)
    y[...] = whole.view(np.int32)
    y *= np.float32(_TO_ANGLE)
    np.multiply(y, y, out=z)
    _line(_SIN[:2], z, s)
    s *= z
    s += np.float32(_SIN[2])
    s *= z
    s *= y
    s += y
    _line(_COS[:2], z, c)
    for coefficient in _COS[2:]:
        c *= z
        c += np.float32(coefficient)
    np.bitwise_and(turns, np.uint32(0x80000000), out=whole)
    c.view(np.uint32)[...] ^= whole
    np.left_shift(turns, np.uint32(1), out=whole)
    _exchange(c, s, np.right_shift(whole.view(np.int32), np.int32(31), out=z.view(np.int32)))
    c *= radius
    s *= radius
    return c, s


def _exchange(a: F32, b: F32, where: NDArray[np.int32]) -> None:
    """Exchange `a` and `b` where all bits of `where` are 1 (elsewhere 0); `where` is overwritten.

    It has no branch, because half of the branches on random bits would be mispredicted.
    """
    own, other = a.view(np.int32), b.view(np.int32)
    where &= own ^ other
    own ^= where
    other ^= where


def _line(coefficients: tuple[float, ...], x: F32, out: F32) -> F32:
    """out = a x + b."""
    slope, constant = coefficients
    np.multiply(x, np.float32(slope), out=out)
    out += np.float32(constant)
    return out
