"""Files of a sweep: written whole, and read back equal."""

import json
import math
import os
import stat

import pytest

from sweep.store import files


def test_no_number_is_written_that_json_does_not_have():
    """A NaN says nothing and becomes null, an infinite epsilon stays infinite."""
    value = {
        "loss": math.nan,
        "epsilon": math.inf,
        "each": [math.nan, {"low": -math.inf}],
    }
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
        files.write_text(
            path, "half \ud800"
        )  # cannot be encoded: fails in the middle of writing
    assert path.read_text() == "old"


def test_files_are_their_owners_alone_also_where_they_were_not(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("old")
    path.chmod(0o644)
    files.write_text(path, "new")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
