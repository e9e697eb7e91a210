"""An append-only log of records for several processes, which survives any crash.

A record is one line: CRC-32 of the JSON in eight hex digits, its length in bytes, the JSON. Each
record has, as `previous`, the digest of all lines before it; the head, a separate file, has the
number and the digest of all lines. Removed, repeated, moved or replaced lines are therefore
detected, the last ones included.

An append returns after fsync. A crash can leave a last line without its newline, which was never
acknowledged; readers ignore it and the next append removes it. A crash can leave the head one line
behind. Any other damage is refused until the user `accept`s it, which adds a line that marks the
accepted part of the log.
"""

from __future__ import annotations

import hashlib
import json
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sweep.store.files import write_text
from trainables.documents import parse_written_json
from trainables.errors import InvalidData
from trainables.system.locks import alone

_START = hashlib.sha256(b"").hexdigest()
_ADVICE = "restore the files from a copy; `sweep ledger --check` lists what is missing"


@dataclass(frozen=True, kw_only=True)
class _Position:
    """A position in a log. `digest` is of all lines before."""

    inode: int = 0
    offset: int = 0
    num_lines: int = 0
    digest: str = _START

    def after(self, line: bytes) -> _Position:
        digest = hashlib.sha256(bytes.fromhex(self.digest) + line).hexdigest()
        return replace(
            self,
            offset=self.offset + len(line) + 1,
            num_lines=self.num_lines + 1,
            digest=digest,
        )


class ChainedLog:
    """The log at `path`, with its head (`.head`) and its lock (`.lock`) beside it. The first append
    creates the files, readable by their owner. Every record has the fields `required`.

    It remembers its read position. Not for several threads.
    """

    def __init__(self, path: Path, *, required: tuple[str, ...] = ()) -> None:
        self.path = path
        self._required = required
        self._is_alone = False
        self._head = path.with_suffix(".head")
        self._position = _Position()

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Hold the lock for appending."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with alone(self.path.with_suffix(".lock")):
            self._is_alone = True
            try:
                yield
            finally:
                self._is_alone = False

    def read_new(self) -> list[dict[str, Any]]:
        """The records that this object has not read yet, oldest first; none for no file.

        Raises: InvalidData naming the damage; nothing then counts as read.
        """
        try:
            return self._read_new()
        except InvalidData:
            # An append of another process may have been under way.
            if self._is_alone or not self.path.with_suffix(".lock").exists():
                raise
            with self.alone():
                return self._read_new()

    def append(self, record: dict[str, Any]) -> None:
        """Add one record; it is on the disk when this returns. Only while `alone`, and when
        everything has been read.

        Raises: OSError where it could not be written (the log is then as it was).
        """
        before = self._position
        assert self._is_alone
        assert not self._lines(before), "lines that were not read would be cut off"
        line = _line({**record, "previous": before.digest})
        if not self._head.exists():  # so that a log with chained lines always has one
            self._write_head()
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            os.ftruncate(descriptor, before.offset)  # a cut line was never acknowledged
            try:
                _write(descriptor, line)
                os.fsync(descriptor)
            except OSError:
                os.ftruncate(descriptor, before.offset)
                raise
            inode = os.fstat(descriptor).st_ino
        finally:
            os.close(descriptor)
        self._position = replace(before.after(line[:-1]), inode=inode)
        self._write_head()

    def accept(self) -> None:
        """Accept the present content of the log in spite of damage; `read_new` reads the rest. Only
        while `alone`. Nothing is removed: a line is added that covers all before it.
        """
        position = _Position()
        for line in self._lines(position):
            position = position.after(line)
        self._position = position
        self.append({"accepted": position.num_lines})

    def _read_new(self) -> list[dict[str, Any]]:
        position, head = self._position, self._read_head()
        inode = self._inode()
        if position.inode != inode:
            position = _Position(inode=inode)
        records: list[dict[str, Any]] = []
        problem, met_head = "", head is None or head[0] < position.num_lines
        if head is not None and head[0] == position.num_lines:
            met_head = head[1] == position.digest
        for line in self._lines(position):
            fields = _fields(line)
            wrong = self._wrong(fields, position)
            if wrong and not problem:
                problem = f"line {position.num_lines + 1} is {wrong}"
            elif not wrong and fields is not None and "accepted" in fields:
                problem = ""
            position = position.after(line)
            if head is not None and head[0] == position.num_lines:
                met_head = True
                if head[1] != position.digest and not problem:
                    problem = f"line {position.num_lines} is not the one that was written"
            if fields is not None and fields.keys() >= {*self._required}:
                records.append(fields)
        if not problem and not met_head and head is not None:
            problem = f"{head[0]} lines were written and {position.num_lines} are there"
        if not problem and head is None and position.num_lines:
            problem = f"{self._head.name} is missing"
        if problem:
            raise InvalidData(f"expected whole records in {self.path}, {problem}: {_ADVICE}")
        self._position = position
        return records

    def _wrong(self, fields: dict[str, Any] | None, position: _Position) -> str:
        """The problem of the record after `position`; empty where it is intact."""
        if fields is None:
            return "damaged"
        if fields.get("previous") != position.digest:
            return "not the one that followed the lines before it"
        missing = [name for name in self._required if name not in fields]
        return f"without {missing[0]}" if missing and "accepted" not in fields else ""

    def _inode(self) -> int:
        try:
            return self.path.stat().st_ino
        except FileNotFoundError:
            return 0

    def _lines(self, position: _Position) -> list[bytes]:
        """Whole lines after `position`, without their newlines."""
        try:
            with self.path.open("rb") as file:
                size = file.seek(0, os.SEEK_END)
                if size < position.offset:
                    raise InvalidData(
                        f"expected {self.path} only to grow, got a truncated file: {_ADVICE}"
                    )
                file.seek(position.offset)
                *lines, _cut = file.read().split(b"\n")
                return lines
        except FileNotFoundError:
            return []

    def _read_head(self) -> tuple[int, str] | None:
        """Number and digest of the lines; None for no head."""
        try:
            content = self._head.read_bytes()
        except FileNotFoundError:
            return None
        fields = _fields(content.rstrip(b"\n")) or {}
        try:
            return int(fields["lines"]), str(fields["digest"])
        except (KeyError, TypeError, ValueError, OverflowError):
            raise InvalidData(f"expected the head of a log in {self._head}: {_ADVICE}") from None

    def _write_head(self) -> None:
        """Write the head without a flush, because a head that is behind is no damage and a flush
        takes as long as another append. A new one has its name once it is whole, because an empty
        head is damage. Its length is fixed, so that it is replaced atomically.
        """
        lines = f"{self._position.num_lines:020d}"
        content = _line({"lines": lines, "digest": self._position.digest})
        if not self._head.exists():
            write_text(self._head, content.decode())
            return
        descriptor = os.open(self._head, os.O_WRONLY)
        try:
            os.pwrite(descriptor, content, 0)
        finally:
            os.close(descriptor)


def _line(record: dict[str, Any]) -> bytes:
    body = json.dumps(record, allow_nan=False, separators=(",", ":")).encode()
    return b"%08x %d %b\n" % (zlib.crc32(body), len(body), body)


def _write(descriptor: int, content: bytes) -> None:
    written = 0
    while written < len(content):
        written += os.write(descriptor, content[written:])


def _fields(line: bytes) -> dict[str, Any] | None:
    """The record in a line; None for one that is damaged."""
    checksum, _, rest = line.partition(b" ")
    length, _, body = rest.partition(b" ")
    if length != b"%d" % len(body) or checksum != b"%08x" % zlib.crc32(body):
        return None
    try:
        fields = parse_written_json(body.decode())
    except ValueError:
        return None
    return fields if isinstance(fields, dict) else None
