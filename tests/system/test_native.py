"""Where there is a C compiler its libraries are loaded; without one none is, and
nothing fails.
"""

import os
import shutil
from pathlib import Path

import pytest

from trainables.dp import box_muller
from trainables.dp.layers import dropout, gram
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


LIBRARIES = {
    gram: "_native_norms",
    dropout: "_native_factors",
    box_muller: "_native_normals",
}


@pytest.mark.parametrize(
    ("module", "right", "wrong"),
    [
        (gram, "2 * row", "row"),
        (dropout, "b >> 15", "b >> 14"),
        (box_muller, "* -2.0f", "* -2.00001f"),
        (box_muller, "#include <math.h>", "no C"),
    ],
)
def test_a_source_that_is_no_c_or_gives_other_numbers_is_not_used(
    module, right, wrong, tmp_path, monkeypatch
):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    source, text = tmp_path / "other.c", module._SOURCE.read_text()
    source.write_text(text.replace(right, wrong))
    assert source.read_text() != text
    monkeypatch.setattr(module, "_SOURCE", source)
    assert getattr(module, LIBRARIES[module]).__wrapped__() is None


def test_a_library_that_others_could_have_written_is_not_loaded(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (tmp_path / "dp-nlu-sweep").mkdir()
    (tmp_path / "dp-nlu-sweep").chmod(0o777)
    assert native.library.__wrapped__(box_muller._SOURCE) is None
