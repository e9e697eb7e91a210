"""The passes over a flat gradient in C, built with the machine's own compiler at first use.

Nothing needs them: the noise is the same without, at four to ten times the time, and Adam is
torch's then. The library is kept under $XDG_CACHE_HOME (default ~/.cache), named by its source,
compiler and processor. `SWEEP_NATIVE=0` leaves it out. Each function is compared with what it
stands for before it is used.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from trainables.privacy import box_muller

# Parts of one source, in this order.
_SOURCES = tuple(
    Path(__file__).with_name(f"{name}.c") for name in ("_aes", "_adam", "_box_muller", "_noise")
)
# No fused products and no reordering: the bits must be those of the Python form.
_FLAGS = ("-O3", "-fPIC", "-shared", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math")
_SECONDS = 60

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
    """`add_normals` of the C source, or None where it cannot be had or gives other numbers.

    Called with (address of words, half, rest, num_extra, factor, std, addresses of both halves).
    """
    library = _library()
    if library is None:
        return None
    function = library.add_normals
    function.argtypes = [_ADDRESS, *3 * [_SIZE], *2 * [_NUMBER], *2 * [_ADDRESS]]
    function.restype = None
    return function if _makes_our_normals(function) else None


@functools.cache
def add_noise() -> AddNoise | None:
    """`add_noise` of the C source, or None where the processor has no AES instructions, too.

    Called with (key, counter, offset in the stream, address of the target, first and last number,
    factor, std, an `Update` or None); returns the offset behind what was used.
    """
    library = _library()
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
    library = _library()
    if library is None:
        return None
    function = library.adam
    function.argtypes = [_ADDRESS, _SIZE, _ADDRESS]
    function.restype = None
    return function if _is_adam(function) else None


def forget() -> None:
    """Look for the library anew at the next call."""
    for found in (add_normals, add_noise, adam, _library):
        found.cache_clear()


@functools.cache
def _library() -> ctypes.CDLL | None:
    """The library, from the cache where it is there; None where it cannot be built or loaded."""
    compiler = shutil.which("cc")
    if os.environ.get("SWEEP_NATIVE") == "0" or compiler is None:
        return None
    try:
        source = "\n".join(path.read_text() for path in _SOURCES)
        parts = (source, compiler, *_FLAGS, platform.machine(), _processor())
        name = hashlib.sha256("\n".join(parts).encode()).hexdigest()[:24]
        folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "dp-nlu-sweep"
        path = folder / f"{name}.so"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        # A library that somebody else could have put there is not loaded.
        if folder.stat().st_uid != os.getuid() or folder.stat().st_mode & 0o022:
            return None
        if not path.exists():
            with tempfile.TemporaryDirectory(dir=folder) as room:
                made = Path(room) / "made.so"
                if not any(_compiles(compiler, source, arch, made) for arch in ("native", "")):
                    return None
                made.replace(path)
        return ctypes.CDLL(str(path))
    except (OSError, RuntimeError):  # no room to write, or no home
        return None


def _compiles(compiler: str, source: str, arch: str, made: Path) -> bool:
    flags = [*_FLAGS, *([f"-march={arch}"] if arch else [])]
    command = [compiler, *flags, "-x", "c", "-", "-o", str(made), "-lm"]
    try:
        done = subprocess.run(command, input=source.encode(), capture_output=True, timeout=_SECONDS)
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0


def _processor() -> str:
    """What -march=native depends on: a home folder may be shared by unlike machines."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return "".join(sorted({line for line in lines if line.startswith(("flags", "Features"))}))


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
