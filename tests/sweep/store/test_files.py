"""Files of a sweep: written whole, and read back equal."""

import json
import math
import os
import stat

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sweep.store import files

# No text of a sweep has a surrogate or NUL: readers of every document refuse them.
_TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=8)
_PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | _TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXT, inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=25)
@given(value=_PLAIN)
def test_plain_data_come_back_equal(tmp_path_factory, value):
    path = tmp_path_factory.getbasetemp() / "value.json"
    files.write_json(path, value)
    assert files.read_json(path) == value
    assert path.read_text() == files.indented_json(value)


def test_no_number_is_written_that_json_does_not_have():
    """A NaN says nothing and becomes null, an infinite epsilon stays infinite."""
    value = {"loss": math.nan, "epsilon": math.inf, "each": [math.nan, {"low": -math.inf}]}
    found = json.loads(files.indented_json(value))
    assert found == {"loss": None, "epsilon": "inf", "each": [None, {"low": "-inf"}]}


def test_a_failed_write_leaves_the_old_file_and_no_other(tmp_path, monkeypatch):
    path = tmp_path / "a.txt"
    files.write_text(path, "old")

    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        files.write_text(path, "new")
    with pytest.raises(ValueError, match="surrogates"):
        files.write_text(path, "half \ud800")  # cannot be encoded: fails in the middle of writing
    assert path.read_text() == "old"


def test_files_are_their_owners_alone_also_where_they_were_not(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("old")
    path.chmod(0o644)
    files.write_text(path, "new")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
