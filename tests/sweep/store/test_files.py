"""Files of a sweep: written whole, read back equal, and damage is named by its place."""

from __future__ import annotations

import json
import math
import os
import stat
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sweep.store import files
from sweep.store.kinds import ABOUT, EPOCH, OBJECT, RESULT
from trainables.errors import InvalidData

# No text of a sweep has a surrogate or NUL: readers of every document refuse them.
_TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=8)
_PLAIN: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False) | _TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXT, inner, max_size=3),
    max_leaves=8,
)


def without_infinity(value: Any) -> Any:
    """Plain data as they are read back: an infinity is text on the disk."""
    if isinstance(value, float) and math.isinf(value):
        return "inf" if value > 0 else "-inf"
    if isinstance(value, list):
        return [without_infinity(each) for each in value]
    if isinstance(value, dict):
        return {key: without_infinity(each) for key, each in value.items()}
    return value


@settings(max_examples=25)
@given(value=_PLAIN)
def test_plain_data_come_back_equal(tmp_path_factory: pytest.TempPathFactory, value: Any) -> None:
    path = tmp_path_factory.getbasetemp() / "value.json"
    files.write_json(path, value)
    assert files.read_json(path) == without_infinity(value)
    assert path.read_text(encoding="utf-8") == files.indented_json(value)


@settings(max_examples=25)
@given(rows=st.lists(st.dictionaries(_TEXT, _PLAIN, max_size=3), max_size=4), cut=st.integers(1, 9))
def test_lines_come_back_in_order_and_a_cut_one_is_as_if_never_written(
    tmp_path_factory: pytest.TempPathFactory, rows: list[dict[str, Any]], cut: int
) -> None:
    """Wherever a crash cuts the last line; the next line takes its place."""
    path = tmp_path_factory.getbasetemp() / "rows.jsonl"
    path.unlink(missing_ok=True)
    for row in rows:
        files.append_line(path, row)
    whole = [without_infinity(row) for row in rows]
    assert files.read_lines(path) == whole
    line = files.dump({"lost": 1, "more": 2}).encode() + b"\n"
    with path.open("ab") as file:
        file.write(line[:-cut])
    assert files.read_lines(path) == whole
    files.append_line(path, {"next": 1})
    assert files.read_lines(path) == [*whole, {"next": 1}]


def test_no_number_is_written_that_json_does_not_have() -> None:
    """A NaN says nothing and becomes null, an infinite epsilon stays infinite."""
    value = {"loss": math.nan, "epsilon": math.inf, "each": [math.nan, {"low": -math.inf}]}
    for text in (files.dump(value), files.indented_json(value)):
        assert json.loads(text) == {
            "loss": None,
            "epsilon": "inf",
            "each": [None, {"low": "-inf"}],
        }


@pytest.mark.parametrize("value", [None, "inf", "-inf", 0, 1.5])
def test_a_figure_is_read_as_it_was(value: Any) -> None:
    found = files.number(value)
    assert found is None if value is None else found == float(value)


def test_new_lines_are_read_from_where_the_last_reading_ended(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    files.append_line(path, {"n": 1})
    rows, end = files.read_lines_from(path, 0)
    assert rows == [{"n": 1}]
    files.append_line(path, {"n": 2})
    with path.open("ab") as file:
        file.write(b'{"n": 3')
    rows, end = files.read_lines_from(path, end)
    assert rows == [{"n": 2}]
    files.append_line(path, {"n": 4})
    assert files.read_lines_from(path, end) == ([{"n": 4}], path.stat().st_size)


def test_a_damaged_line_is_named_by_its_number_or_its_place(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b'{"n": 1}\n{"secret": word}\n{"n": 3}\n')
    with pytest.raises(InvalidData, match=r"^expected JSON in line 2 of .*rows\.jsonl$"):
        files.read_lines(path)
    with pytest.raises(InvalidData, match=r"a line after byte 9 of .*rows\.jsonl"):
        files.read_lines_from(path, 9)
    path.write_bytes(b'{"n": 1}\n[1]\n')
    with pytest.raises(InvalidData, match=r"expected line 2 of .* damaged"):
        files.read_lines(path)


def test_a_missing_file_has_no_lines_and_an_unreadable_one_is_no_missing_one(
    tmp_path: Path,
) -> None:
    assert files.read_lines(tmp_path / "none.jsonl") == []
    assert not files.exists(tmp_path / "none")
    assert not files.exists(tmp_path / "none" / "inner")
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    assert files.exists(tmp_path / "link"), "a link is there, whatever it points to"
    with pytest.raises(InvalidData, match="cannot read"):
        files.exists(tmp_path / ("x" * 300))
    (tmp_path / "folder").mkdir()
    with pytest.raises(InvalidData, match=r"^cannot read .*folder: Is a directory$"):
        files.read_lines_from(tmp_path / "folder", 0)


def test_a_failed_write_leaves_the_old_file_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.txt"
    files.write_text(path, "old")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        files.write_text(path, "new")
    assert [(each.name, each.read_text()) for each in tmp_path.iterdir()] == [("a.txt", "old")]


def test_files_are_their_owners_alone_also_where_they_were_not(tmp_path: Path) -> None:
    path, lines = tmp_path / "a.txt", tmp_path / "rows.jsonl"
    path.write_text("old")
    path.chmod(0o644)
    files.write_text(path, "new")
    files.append_line(lines, {})
    for each in (path, lines):
        assert stat.S_IMODE(each.stat().st_mode) == 0o600


_EPOCH = {"epochs_done": 1, "seconds": 0.5, "metrics": {"epsilon": "inf", "ser": None}}
_RESULT = {
    "epochs_done": 3,
    "metrics": {"ser": 0.25},
    "notes": [],
    "privacy": None,
    "reason": None,
    "seconds": {},
    "stopped_early": False,
}


@pytest.mark.parametrize(
    ("kind", "value", "field", "damage"),
    [
        (EPOCH, _EPOCH, "epochs_done", -1),
        (EPOCH, _EPOCH, "epochs_done", 1.0),
        (EPOCH, _EPOCH, "epochs_done", 10**12),
        (EPOCH, _EPOCH, "metrics", {"ser": "much"}),
        (RESULT, _RESULT, "stopped_early", "perhaps"),
        (RESULT, _RESULT, "notes", "one"),
        (RESULT, _RESULT, "privacy", {"epsilon": []}),
        (ABOUT, {"id": "a", "created": 1.0}, "created", "yesterday"),
        (ABOUT, {"id": "a"}, "id", 4),
    ],
)
def test_the_first_damaged_field_is_named(
    tmp_path: Path, kind: Any, value: dict[str, Any], field: str, damage: Any
) -> None:
    """And a missing one; a field of a later version is kept."""
    path = tmp_path / "file.json"
    files.write_json(path, {**value, "of_a_later_version": 1})
    assert files.read_object(path, kind)["of_a_later_version"] == 1
    files.write_json(path, {**value, field: damage})
    with pytest.raises(InvalidData, match=f"as it was written, got its field {field}"):
        files.read_object(path, kind)
    if kind is ABOUT and field == "created":
        return  # that of a vault has none
    files.write_json(path, {k: v for k, v in value.items() if k != field})
    with pytest.raises(InvalidData, match=f"its field {field} damaged"):
        files.read_object(path, kind)


def test_what_is_no_object_is_damaged_whole(tmp_path: Path) -> None:
    path = tmp_path / "file.json"
    files.write_json(path, [1])
    with pytest.raises(InvalidData, match="got what it holds damaged"):
        files.read_object(path, OBJECT)
