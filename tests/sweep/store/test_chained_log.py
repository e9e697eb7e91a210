"""An append-only log: every other change is detected."""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sweep.store.chained_log import ChainedLog
from trainables.errors import InvalidData


def line(record: dict[str, Any]) -> bytes:
    """A line with a right checksum, as a forger writes it."""
    body = json.dumps(record, separators=(",", ":")).encode()
    return b"%08x %d %b\n" % (zlib.crc32(body), len(body), body)


def add(log: ChainedLog, *records: dict[str, Any]) -> None:
    for record in records:
        with log.alone():
            log.read_new()
            log.append(record)


def numbers(path: Path) -> list[int]:
    return [record["n"] for record in ChainedLog(path, required=("n",)).read_new()]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A log of five records."""
    add(ChainedLog(tmp_path / "log.jsonl"), *({"n": n} for n in range(5)))
    return tmp_path / "log.jsonl"


def test_what_is_new_is_read_once(path: Path) -> None:
    reader, writer = ChainedLog(path), ChainedLog(path)
    assert [record["n"] for record in reader.read_new()] == [0, 1, 2, 3, 4]
    assert reader.read_new() == []
    add(writer, {"n": 5}, {"n": 6})
    assert [record["n"] for record in reader.read_new()] == [5, 6]


def test_the_head_is_on_the_disk_before_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An empty head, as a kill or a power failure may leave one, is damage. A later head may be
    behind.
    """
    lines, head = (tmp_path / f"log.{name}" for name in ("jsonl", "head"))
    flushed: list[tuple[int, bool]] = []
    flush = os.fsync

    def note(descriptor: int) -> None:
        flushed.append((os.fstat(descriptor).st_ino, head.exists()))
        flush(descriptor)

    monkeypatch.setattr(os, "fsync", note)
    log = ChainedLog(lines)
    add(log, {"n": 0})
    inodes = [place.stat().st_ino for place in (head, tmp_path, lines)]
    assert flushed == list(zip(inodes, (False, True, True), strict=True))
    flushed.clear()
    add(log, {"n": 1})
    assert flushed == [(lines.stat().st_ino, True)]


DAMAGES: dict[str, Callable[[list[bytes]], list[bytes]]] = {
    "first removed": lambda lines: lines[1:],
    "one removed": lambda lines: [*lines[:2], *lines[3:]],
    "last removed": lambda lines: lines[:-1],
    "all removed": lambda lines: [],
    "last cut by its newline": lambda lines: [*lines[:-1], lines[-1][:-1]],
    "one doubled": lambda lines: [*lines[:3], lines[2], *lines[3:]],
    "last doubled": lambda lines: [*lines, lines[-1]],
    "two swapped": lambda lines: [lines[1], lines[0], *lines[2:]],
    "last two swapped": lambda lines: [*lines[:3], lines[4], lines[3]],
    "one emptied": lambda lines: [*lines[:2], line({}), *lines[3:]],
    "last emptied": lambda lines: [*lines[:-1], line({})],
    "one replaced": lambda lines: [*lines[:2], line({"n": 9}), *lines[3:]],
    "one added by hand": lambda lines: [*lines, line({"n": 9})],
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_every_damage_is_refused(path: Path, damage: str) -> None:
    path.write_bytes(b"".join(DAMAGES[damage](path.read_bytes().splitlines(keepends=True))))
    damaged = path.read_bytes()
    with pytest.raises(InvalidData, match="expected whole records"):
        numbers(path)
    with pytest.raises(InvalidData, match="expected whole records"):
        add(ChainedLog(path), {"n": 7})
    assert path.read_bytes() == damaged, "nothing is added to what is damaged"


@settings(max_examples=150, deadline=None)
@given(position=st.integers(0, 10_000), bit=st.integers(0, 7))
def test_every_flipped_bit_is_refused(
    tmp_path_factory: pytest.TempPathFactory, position: int, bit: int
) -> None:
    path = tmp_path_factory.mktemp("log") / "log.jsonl"
    add(ChainedLog(path), *({"n": n} for n in range(3)))
    content = bytearray(path.read_bytes())
    content[position % len(content)] ^= 1 << bit
    path.write_bytes(content)
    with pytest.raises(InvalidData, match="expected whole records"):
        numbers(path)


def test_a_lost_or_damaged_head_is_refused(path: Path) -> None:
    head = path.with_suffix(".head")
    content = head.read_bytes()
    head.write_bytes(content[:20])
    with pytest.raises(InvalidData, match="expected the head of a log"):
        numbers(path)
    for fields in ({"lines": "three", "digest": ""}, {"lines": [3], "digest": ""}, {"lines": 3}):
        body = json.dumps(fields).encode()  # whole, but no head
        head.write_bytes(b"%08x %d %b\n" % (zlib.crc32(body), len(body), body))
        with pytest.raises(InvalidData, match="expected the head of a log"):
            numbers(path)
    head.unlink()
    with pytest.raises(InvalidData, match=r"log.head is missing"):
        numbers(path)
    head.write_bytes(content)
    path.unlink()
    with pytest.raises(InvalidData, match="5 lines were written and 0 are there"):
        numbers(path)


def test_what_a_person_accepts_is_read_and_nothing_is_removed(path: Path) -> None:
    """One line gone, one emptied, one cut: what is whole counts, the rest is left out."""
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([lines[0], line({}), b"half a line\n", lines[4]]))
    before = path.read_bytes()
    log = ChainedLog(path, required=("n",))
    with log.alone():
        log.accept()
    assert path.read_bytes().startswith(before)
    assert numbers(path) == [0, 4]
    add(ChainedLog(path), {"n": 5})
    assert numbers(path) == [0, 4, 5]
    path.write_bytes(path.read_bytes().replace(b"half a line", b"halt a line"))
    with pytest.raises(InvalidData, match="expected whole records"):
        numbers(path)


def test_a_failed_write_leaves_the_log_as_it_was(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = path.read_bytes()

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", full)
        with pytest.raises(OSError, match="No space left"):
            add(ChainedLog(path), {"n": 5})
    assert path.read_bytes() == before
    add(ChainedLog(path), {"n": 5})
    assert numbers(path) == [0, 1, 2, 3, 4, 5]
