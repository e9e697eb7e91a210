"""The C form of `box_muller`, built with the machine's own compiler at first use, where it has one.

Nothing needs it: the numbers are the same without, at four times the time. The library is
kept under $XDG_CACHE_HOME (default ~/.cache), named by its source, compiler and processor.
`SWEEP_NATIVE=0` leaves it out.
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

import numpy as np

from trainables.privacy import box_muller

_SOURCE = Path(__file__).with_name("_box_muller.c")
# No fused products and no reordering: the bits must be those of the Python form.
_FLAGS = ("-O3", "-fPIC", "-shared", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math")
_SECONDS = 60

AddNormals = Callable[[int, int, int, int, float, float, int, int], None]


@functools.cache
def add_normals() -> AddNormals | None:
    """`add_normals` of the C source, or None where it cannot be had or gives other numbers.

    Called with (address of words, half, rest, num_extra, factor, std, addresses of both halves).
    """
    compiler = shutil.which("cc")
    if os.environ.get("SWEEP_NATIVE") == "0" or compiler is None or not _SOURCE.exists():
        return None
    library = _built(compiler)
    if library is None:
        return None
    function = library.add_normals
    size, number, address = ctypes.c_int64, ctypes.c_float, ctypes.c_void_p
    function.argtypes = [address, size, size, size, number, number, address, address]
    function.restype = None
    return function if _agrees(function) else None


def _built(compiler: str) -> ctypes.CDLL | None:
    """The library, from the cache where it is there; None where it cannot be built or loaded."""
    parts = (_SOURCE.read_text(), compiler, *_FLAGS, platform.machine(), _processor())
    name = hashlib.sha256("\n".join(parts).encode()).hexdigest()[:24]
    try:
        folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "dp-nlu-sweep"
        path = folder / f"{name}.so"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        # A library that somebody else could have put there is not loaded.
        if folder.stat().st_uid != os.getuid() or folder.stat().st_mode & 0o022:
            return None
        if not path.exists():
            with tempfile.TemporaryDirectory(dir=folder) as room:
                made = Path(room) / "made.so"
                if not any(_compiles(compiler, arch, made) for arch in ("-march=native", "")):
                    return None
                made.replace(path)
        return ctypes.CDLL(str(path))
    except (OSError, RuntimeError):  # no room to write, or no home
        return None


def _compiles(compiler: str, arch: str, made: Path) -> bool:
    command = [compiler, *_FLAGS, *([arch] if arch else []), str(_SOURCE), "-o", str(made), "-lm"]
    try:
        return subprocess.run(command, capture_output=True, timeout=_SECONDS).returncode == 0
    except subprocess.TimeoutExpired:
        return False


def _processor() -> str:
    """What -march=native depends on: a home folder may be shared by unlike machines."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return "".join(sorted({line for line in lines if line.startswith(("flags", "Features"))}))


def _agrees(function: AddNormals) -> bool:
    """Whether the library gives the bits of the Python form, small words included."""
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
