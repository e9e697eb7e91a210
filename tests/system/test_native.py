"""Where there is a C compiler its libraries are loaded; without one none is, and nothing fails."""

import os
import shutil
from pathlib import Path

import pytest

from trainables.layers import dropout, gram
from trainables.privacy import box_muller
from trainables.system import native

COMPILES = shutil.which("cc") is not None and os.environ.get("SWEEP_NATIVE") != "0"
LOADERS = (
    box_muller._native_normals,
    dropout._native_factors,
    gram._native_norms,
    lambda: native.library(gram._SOURCE),
)


def _loaded():
    """Libraries of this project in this process."""
    maps = Path("/proc/self/maps")
    if not maps.exists():
        pytest.skip("the system does not list a process' libraries")
    return [line for line in maps.read_text().splitlines() if "dp-nlu-sweep/" in line]


@pytest.mark.parametrize("loader", LOADERS)
def test_a_library_is_loaded_exactly_where_there_is_a_compiler(loader):
    assert (loader() is not None) == COMPILES
    assert bool(_loaded()) == COMPILES


def test_without_a_compiler_a_library_made_before_is_not_loaded(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    source = tmp_path / "one.c"
    source.write_text("int one(void) { return 1; }")
    assert (native.library.__wrapped__(source) is not None) == COMPILES
    monkeypatch.setenv("PATH", str(tmp_path))
    assert native.library.__wrapped__(source) is None
