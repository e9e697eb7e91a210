"""C sources built with the machine's compiler at first use.

They are optional: every caller has a Python form, and compares the library with it
before use. A library is kept under $XDG_CACHE_HOME (default ~/.cache), named by its
source, compiler and processor. `SWEEP_NATIVE=0` disables all.
"""

import ctypes
import functools
import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from pathlib import Path

from trainables.io.files import make_folder

# No fused products and no reordering: the bits must be those of the Python form.
_FLAGS = (
    "-O3",
    "-fPIC",
    "-shared",
    "-ffp-contract=off",
    "-fno-math-errno",
    "-fno-trapping-math",
)
_SECONDS = 60


def user_cache() -> Path:
    """Where this user keeps what depends on no data. Raises: RuntimeError without a
    home folder.
    """
    return (
        Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        / "dp-nlu-sweep"
    )


@functools.cache
def library(*sources: Path) -> ctypes.CDLL | None:
    """The library of these files, joined in this order; None where it is
    unavailable.
    """
    compiler = shutil.which("cc")
    if os.environ.get("SWEEP_NATIVE") == "0" or compiler is None:
        return None
    try:
        source = "\n".join(path.read_text() for path in sources)
        parts = (source, compiler, *_FLAGS, platform.machine(), _processor())
        name = hashlib.sha256("\n".join(parts).encode()).hexdigest()[:24]
        folder = user_cache()
        path = folder / f"{name}.so"
        make_folder(folder)
        # A library that another user could have written is not loaded.
        if folder.stat().st_uid != os.getuid() or folder.stat().st_mode & 0o022:
            return None
        if not path.exists():
            with tempfile.TemporaryDirectory(dir=folder) as room:
                made = Path(room) / "made.so"
                if not any(
                    _compiles(compiler, source, arch, made) for arch in ("native", "")
                ):
                    return None
                made.replace(path)
        return ctypes.CDLL(str(path))
    except (OSError, RuntimeError):  # no disk space, or no home folder
        return None


def _compiles(compiler: str, source: str, arch: str, made: Path) -> bool:
    flags = [*_FLAGS, *([f"-march={arch}"] if arch else [])]
    command = [compiler, *flags, "-x", "c", "-", "-o", str(made), "-lm"]
    try:
        done = subprocess.run(
            command, input=source.encode(), capture_output=True, timeout=_SECONDS
        )
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0


def _processor() -> str:
    """What -march=native depends on: a home folder may be shared by unlike machines."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return "".join(
        sorted({line for line in lines if line.startswith(("flags", "Features"))})
    )
