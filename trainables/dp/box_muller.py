"""`noise.normals` in float32, fast and with the same bits everywhere:
importing this module offers it to the base, which compares it with its definition
before use and in each stream.

Near 1 the radius' u is exact: nowhere are its steps wider than float32's own around the
radius.

The logarithm, sine and cosine are polynomials (fitted by Chebyshev interpolation,
relative error below 2e-7) in sums, products and square roots, which IEEE 754 rounds
alike on every machine; a library's own functions differ by processor. `_box_muller.c`
has the same operations in the same order, for where a C compiler is at hand: the
numbers do not depend on that, the time does (20 ns a number without, about 1 with it).
"""

import functools
from collections.abc import Callable
from ctypes import c_float, c_int64, c_void_p
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from trainables.dp import noise
from trainables.dp.noise import num_extra
from trainables.system import native

F32 = NDArray[np.float32]
U32 = NDArray[np.uint32]

_SOURCE = Path(__file__).with_name("_box_muller.c")
_SMALL = np.uint32(1 << 20)
# Coefficients of (ln(1 + f) - f + f^2 / 2) / f^3, in pairs, of sine and of cosine.
_LOG = np.array(
    [
        (-0.249999896, 0.333333313),
        (-0.166684806, 0.200007081),
        (-0.124110505, 0.142499372),
        (-0.115712009, 0.116615109),
    ],
    dtype=np.float32,
)
_LOG_TOP = np.float32(0.0714975372)
_SIN = np.array([-0.000195879504, 0.0083327489, -0.166666642], dtype=np.float32)
_COS = np.array(
    [2.45479914e-05, -0.00138883037, 0.0416666642, -0.5, 1.0], dtype=np.float32
)
_LN_2 = np.float32(0.693147182)
_TO_ANGLE = np.float32(3.65729530e-10)  # pi / 4 / 2^31


def add_normals(words: U32, half: int, target: F32, std: float) -> None:
    """target = target + std * N(0, 1), `target` of 2 half or 2 half - 1 numbers.

    `words`: radii [half], angles [half], extra [num_extra(half)]. Pair i gives numbers
    i and half + i. `words` and `target` are contiguous.
    """
    compiled = _native_normals()
    if compiled is None:
        _add_in_numpy(words, half, target, std)
    else:
        _add_by(compiled, words, half, target, std)


def _add_in_numpy(words: U32, half: int, target: F32, std: float) -> None:
    radii, turns, extra = np.split(
        words[: 2 * half + num_extra(half)], (half, 2 * half)
    )
    radius = np.sqrt(_minus_two_log(radii, extra))
    made = np.concatenate([radius * part for part in _cosine_and_sine(turns)])
    target += np.float32(std) * made[: len(target)]


noise.accelerate(add_normals)

_Compiled = Callable[[int, int, int, int, float, int, int], None]


def _add_by(
    compiled: _Compiled, words: U32, half: int, target: F32, std: float
) -> None:
    first, rest = target.ctypes.data, len(target) - half
    compiled(
        words.ctypes.data, half, rest, num_extra(half), std, first, first + 4 * half
    )


@functools.cache
def _native_normals() -> _Compiled | None:
    """`add_normals` of the C source; None where it is unavailable or gives other bits,
    small words included.
    """
    library = native.library(_SOURCE)
    if library is None:
        return None
    function = library.add_normals
    function.argtypes = [c_void_p, *3 * [c_int64], c_float, *2 * [c_void_p]]
    function.restype = None
    half = 1 << 12
    words = noise.hard_words(half)
    ours = np.linspace(-1, 1, 2 * half - 1, dtype=np.float32)
    its = ours.copy()
    _add_in_numpy(words, half, ours, 1.3)
    _add_by(function, words, half, its, 1.3)
    return function if bool((ours.view(np.int32) == its.view(np.int32)).all()) else None


def _minus_two_log(words: U32, extra: U32) -> F32:
    """-2 ln(word / 2^32), by ln((1 + f) 2^e) = ln(1 + f) + e ln 2; `extra` has more
    bits of the small words.
    """
    x = words.astype(np.float32)
    small = np.flatnonzero(words < _SMALL)
    more = extra[np.arange(small.size) % extra.size] | np.uint32(1)
    x[small] = words[small].astype(np.float64) + more.astype(np.float64) * 2.0**-32
    bits = x.view(np.int32)
    power = (bits - np.int32(0x3F3504F3)) >> np.int32(23)
    f = (bits - (power << np.int32(23))).view(np.float32) - np.float32(1)
    # Next to 1, where ln u is next to 0: u - 1 exactly.
    f = np.where(
        power == 32, words.view(np.int32).astype(np.float32) * np.float32(2.0**-32), f
    )
    f2 = f * f
    f4 = f2 * f2
    by_pair = [np.polyval(line, f) for line in _LOG]
    low = by_pair[1] * f2 + by_pair[0]
    high = by_pair[3] * f2 + by_pair[2]
    high = (_LOG_TOP * f4 + high) * f4 + low
    high = (high * f - np.float32(0.5)) * f2 + f
    e = (power - np.int32(32)).astype(np.float32)
    return np.asarray((e * _LN_2 + high) * np.float32(-2))


def _cosine_and_sine(turns: U32) -> tuple[F32, F32]:
    """Of the angles: 30 bits in (-pi/4, pi/4), one for the side, one to exchange the
    two.
    """
    y = ((turns << np.uint32(2)) | np.uint32(2)).view(np.int32).astype(
        np.float32
    ) * _TO_ANGLE
    z = y * y
    sine = np.polyval(_SIN, z) * z * y + y
    cosine = np.polyval(_COS, z)
    cosine = np.where(turns >> np.uint32(31), -cosine, cosine)
    turned = (turns & np.uint32(1 << 30)) != 0
    return np.where(turned, sine, cosine), np.where(turned, cosine, sine)
