"""The passes over a flat gradient in C, where available (see `trainables.system.native`).

Without them the noise is the same at four to ten times the time, and Adam is torch's. Each function
is compared with its Python form before it is used.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from trainables.privacy import box_muller
from trainables.system import native

# Parts of one source, in this order.
_SOURCES = tuple(
    Path(__file__).with_name(f"{name}.c") for name in ("_aes", "_adam", "_box_muller", "_noise")
)

AddNormals = Callable[[int, int, int, int, float, float, int, int], None]
AddNoise = Callable[[bytes, bytes, int, int, int, int, float, float, Any], int]
Adam = Callable[[int, int, Any], None]

_SIZE, _NUMBER, _ADDRESS, _BYTES = (
    ctypes.c_int64,
    ctypes.c_float,
    ctypes.c_void_p,
    ctypes.c_char_p,
)


class Update(ctypes.Structure):
    """`struct update` of `_adam.c`."""

    _fields_ = (
        ("num", _SIZE),
        *((name, _ADDRESS) for name in ("starts", "parameters", "exp_avg", "exp_avg_sq")),
        *(
            (name, _NUMBER)
            for name in ("share", "keep1", "new1", "keep2", "new2", "size", "epsilon")
        ),
    )


@functools.cache
def add_normals() -> AddNormals | None:
    """`add_normals` of the C source, or None where it is unavailable or gives other numbers.

    Called with (address of words, half, rest, num_extra, factor, std, addresses of both halves).
    """
    library = native.library(*_SOURCES)
    if library is None:
        return None
    function = library.add_normals
    function.argtypes = [_ADDRESS, *3 * [_SIZE], *2 * [_NUMBER], *2 * [_ADDRESS]]
    function.restype = None
    return function if _makes_our_normals(function) else None


@functools.cache
def add_noise() -> AddNoise | None:
    """`add_noise` of the C source, or None, also where the processor has no AES instructions.

    Called with (key, counter, offset in the stream, address of the target, first and last number,
    factor, std, an `Update` or None); returns the next unused offset.
    """
    library = native.library(*_SOURCES)
    if add_normals() is None or library is None or not library.cipher_lanes():
        return None
    if not _is_the_cipher(library.key_stream):
        return None
    function = library.add_noise
    function.argtypes = [*2 * [_BYTES], _SIZE, _ADDRESS, *2 * [_SIZE], *2 * [_NUMBER], _ADDRESS]
    function.restype = _SIZE
    return function


@functools.cache
def adam() -> Adam | None:
    """`adam` of the C source: (address of the gradient, its size, an `Update`), or None."""
    library = native.library(*_SOURCES)
    if library is None:
        return None
    function = library.adam
    function.argtypes = [_ADDRESS, _SIZE, _ADDRESS]
    function.restype = None
    return function if _is_adam(function) else None


def forget() -> None:
    """Search the library again at the next call."""
    for found in (add_normals, add_noise, adam, native.library):
        found.cache_clear()


def _makes_our_normals(function: AddNormals) -> bool:
    """Whether it gives the bits of the Python form, small words included."""
    half = 1 << 12
    words = np.random.default_rng(0).integers(
        2**32, size=2 * half + box_muller.num_extra(half), dtype=np.uint32
    )
    words[:64] >>= np.arange(64, dtype=np.uint32) // 2
    words[64:96] = np.uint32(0xFFFFFFFF) - np.arange(32, dtype=np.uint32)
    ours = np.linspace(-1, 1, 2 * half - 1, dtype=np.float32)
    its = ours.copy()
    box_muller.add_normals(words, half, ours, factor=0.7, std=1.3)
    address = its.ctypes.data
    function(
        words.ctypes.data, half, half - 1, box_muller.num_extra(half), 0.7, 1.3, address,
        address + 4 * half,
    )  # fmt: skip
    return bool((ours.view(np.int32) == its.view(np.int32)).all())


def _is_the_cipher(function: Any) -> bool:
    """Whether it gives the bytes of AES-256-CTR, also where half of the counter runs over."""
    function.argtypes = [*2 * [_BYTES], *2 * [_SIZE], _ADDRESS]
    function.restype = None
    key = bytes(range(3, 35))
    for counter in (bytes(16), b"\xff" * 16, b"\x07" * 8 + b"\xff" * 7 + b"\xf0"):
        right = Cipher(algorithms.AES(key), modes.CTR(counter)).encryptor().update(bytes(10_000))
        for begin in (0, 1236):
            found = np.zeros(8_000, dtype=np.uint8)
            function(key, counter, begin, len(found), found.ctypes.data)
            if found.tobytes() != right[begin : begin + len(found)]:
                return False
    return True


def _is_adam(function: Adam) -> bool:
    """Whether it gives the bits of the same float32 operations in NumPy, over two parameters."""
    one, g, m, p = np.random.default_rng(1).normal(size=(4, 1001)).astype(np.float32)
    v = one**2
    first, second = p[:700].copy(), p[700:].copy()
    starts = np.array([0, 700, 1001], dtype=np.int64)
    places = np.array([first.ctypes.data, second.ctypes.data], dtype=np.uint64)
    f32 = np.float32
    share, keep1, new1, keep2, new2, size, epsilon = map(
        f32, (0.3, 0.9, 0.1, 0.99, 0.01, 0.2, 1e-6)
    )
    its = [values.copy() for values in (g, m, v)]
    addresses = [values.ctypes.data for values in (starts, places, *its[1:])]
    update = Update(2, *addresses, share, keep1, new1, keep2, new2, size, epsilon)
    function(its[0].ctypes.data, len(g), ctypes.addressof(update))
    g = g * share
    m = m + (g - m) * new1
    v = v * keep2 + g * g * new2
    p = p - size * m / (np.sqrt(v) + epsilon)
    found = (*its, np.concatenate([first, second]))
    return all(
        bool((a.view(np.int32) == b.view(np.int32)).all())
        for a, b in zip((g, m, v, p), found, strict=True)
    )
