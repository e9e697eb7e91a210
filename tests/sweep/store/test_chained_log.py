"""An append-only log: every other change is detected."""

import json
import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter
from typing_extensions import TypedDict

from sweep.store.chained_log import ChainedLog
from tests.refusals import refused
from tests.sweep.logs import START, chained, line
from trainables.errors import InvalidData


class Number(TypedDict):
    n: int


def log_at(path):
    return ChainedLog(path, TypeAdapter(Number), advice="restore it")


def forged(after=b"", **fields):
    """A line with a right digest, of the start or `after` another line."""
    previous = json.loads(after)["digest"] if after else START
    return chained(json.dumps(fields, separators=(",", ":")).encode(), previous)


def add(log, *numbers):
    for number in numbers:
        with log.alone():
            log.read_new()
            log.append({"n": number})


def numbers(path):
    return [entry["n"] for entry in log_at(path).read_new()]


@pytest.fixture
def path(tmp_path):
    """A log of five entries."""
    add(log_at(tmp_path / "log.jsonl"), *range(5))
    return tmp_path / "log.jsonl"


def test_what_is_new_is_read_once(path):
    reader, writer = log_at(path), log_at(path)
    assert [entry["n"] for entry in reader.read_new()] == [0, 1, 2, 3, 4]
    assert reader.read_new() == []
    add(writer, 5, 6)
    assert [entry["n"] for entry in reader.read_new()] == [5, 6]
    assert [entry["n"] for entry in writer.read_new()] == [6], (
        "its own are read as well"
    )
    assert writer.first() == {"n": 0}
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert [row["previous"] for row in rows[1:]] == [row["digest"] for row in rows[:-1]]


def test_the_head_is_on_the_disk_before_its_name(tmp_path, monkeypatch):
    """An empty head, as a kill or a power failure may leave one, is damage. A later
    head may be behind.
    """
    lines, head = (tmp_path / f"log.{name}" for name in ("jsonl", "head"))
    flushed = []
    flush = os.fsync

    def note(descriptor):
        flushed.append((os.fstat(descriptor).st_ino, head.exists()))
        flush(descriptor)

    monkeypatch.setattr(os, "fsync", note)
    log = log_at(lines)
    add(log, 0)
    inodes = [place.stat().st_ino for place in (head, tmp_path, lines)]
    assert flushed == list(zip(inodes, (False, True, True), strict=True))
    flushed.clear()
    add(log, 1)
    assert flushed == [(lines.stat().st_ino, True)]


@pytest.mark.parametrize("is_head_behind", [False, True])
def test_a_crash_at_any_byte_leaves_whole_entries(path, is_head_behind):
    """The torn line is not read, and the next append takes its place. The head may be
    as it was before the append.
    """
    head = path.with_suffix(".head")
    before, old = path.read_bytes(), head.read_bytes()
    add(log_at(path), 5)
    content, new = path.read_bytes(), head.read_bytes()
    for offset in range(len(before), len(content) + 1):
        is_whole = offset == len(content)
        if not is_whole and not is_head_behind:
            continue  # the head is written last
        path.write_bytes(content[:offset])
        head.write_bytes(old if is_head_behind else new)
        kept = [0, 1, 2, 3, 4, 5][: 6 if is_whole else 5]
        assert numbers(path) == kept
        add(log_at(path), 9)
        assert numbers(path) == [*kept, 9]


DAMAGES = {
    "first removed": lambda lines: lines[1:],
    "one removed": lambda lines: [*lines[:2], *lines[3:]],
    "last removed": lambda lines: lines[:-1],
    "all removed": lambda lines: [],
    "last cut by its newline": lambda lines: [*lines[:-1], lines[-1][:-1]],
    "one cut": lambda lines: [*lines[:2], lines[2][:40] + b"\n", *lines[3:]],
    "last doubled": lambda lines: [*lines, lines[-1]],
    "last two swapped": lambda lines: [*lines[:3], lines[4], lines[3]],
    "last emptied": lambda lines: [*lines[:-1], line(b"{}")],
    "one replaced": lambda lines: [*lines[:2], forged(n=9), *lines[3:]],
    "last replaced": lambda lines: [*lines[:-1], forged(lines[-2], n=9)],
    "one added by hand": lambda lines: [*lines, forged(n=9)],
    "one of another form": lambda lines: [*lines, forged(lines[-1], n="nine")],
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_every_damage_is_refused(path, damage):
    path.write_bytes(
        b"".join(DAMAGES[damage](path.read_bytes().splitlines(keepends=True)))
    )
    damaged = path.read_bytes()
    for use in (numbers, lambda path: add(log_at(path), 7)):
        with refused(rf"expected whole entries in {path}, .*: restore it", InvalidData):
            use(path)
    assert path.read_bytes() == damaged, "nothing is added to what is damaged"


@settings(max_examples=150, deadline=None)
@given(position=st.integers(0, 10_000), bit=st.integers(0, 7))
def test_every_flipped_bit_is_refused(tmp_path_factory, position, bit):
    path = tmp_path_factory.mktemp("log") / "log.jsonl"
    add(log_at(path), *range(3))
    content = bytearray(path.read_bytes())
    content[position % len(content)] ^= 1 << bit
    path.write_bytes(content)
    with refused("expected whole entries", InvalidData):
        numbers(path)


def test_a_lost_or_damaged_head_is_refused(path):
    head = path.with_suffix(".head")
    content = head.read_bytes()
    whole_but_no_heads = (
        {"lines": "three", "last": ""},
        {"lines": [3], "last": ""},
        {"lines": 3},
    )
    forged_heads = [line(json.dumps(each).encode()) for each in whole_but_no_heads]
    for damaged in (content[:20], b"", *forged_heads):
        head.write_bytes(damaged)
        with refused(r"expected the head of a log .*: restore it", InvalidData):
            numbers(path)
    head.unlink()
    with refused(r"log.head is missing", InvalidData):
        numbers(path)
    head.write_bytes(content)
    path.unlink()
    with refused("5 lines were written and 0 are there", InvalidData):
        numbers(path)
    path.mkdir()
    for read in (log_at(path).read_new, log_at(path).first):
        with refused(f"cannot read {path}: Is a directory", InvalidData):
            read()


def test_a_log_that_became_shorter_is_refused_by_who_has_read_it(path):
    log = log_at(path)
    log.read_new()
    path.write_bytes(path.read_bytes().splitlines(keepends=True)[0])
    with refused("only to grow, got a truncated file: restore it", InvalidData):
        log.read_new()


def test_a_failed_write_leaves_the_log_as_it_was(path, monkeypatch):
    before = path.read_bytes()

    def full(descriptor):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", full)
        with pytest.raises(OSError, match="No space left"):
            add(log_at(path), 5)
    assert path.read_bytes() == before
    add(log_at(path), 5)
    assert numbers(path) == [0, 1, 2, 3, 4, 5]
