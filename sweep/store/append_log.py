"""A file of records that is only ever added to, by several processes, and survives any crash.

A record is one line: CRC-32 of the JSON in eight hex digits, its length in bytes, the JSON. An
append holds an exclusive lock, ends with fsync and only then returns. A crash can therefore leave
one thing: a last line without its newline. It was never acknowledged; readers leave it out and the
next append removes it. Any other damage is refused, never skipped.
"""

from __future__ import annotations

import fcntl
import json
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sweep.store.files import flush_folder
from trainables.errors import InvalidData


class AppendLog:
    """The log at `path`; the file comes into being with the first append, readable by its owner."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def append(self, record: dict[str, Any]) -> None:
        """Add one record; it is on the disk when this returns.

        Raises: OSError where it could not be written (the log is then as it was).
        """
        line = _line(record)
        with self._locked(os.O_RDWR | os.O_CREAT | os.O_APPEND, fcntl.LOCK_EX) as descriptor:
            end = _end_of_whole_lines(descriptor)
            os.ftruncate(descriptor, end)
            try:
                written = 0
                while written < len(line):
                    written += os.write(descriptor, line[written:])
                os.fsync(descriptor)
            except OSError:
                os.ftruncate(descriptor, end)
                raise
            if end == 0:
                flush_folder(self.path.parent)

    def read(self) -> list[dict[str, Any]]:
        """All records, oldest first; none for no file.

        Raises: InvalidData naming the line that is damaged.
        """
        if not self.path.exists():
            return []
        with self._locked(os.O_RDONLY, fcntl.LOCK_SH) as descriptor:
            content = _content(descriptor)
        return list(_records(content, self.path))

    @contextmanager
    def _locked(self, flags: int, lock: int) -> Iterator[int]:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self.path, flags, 0o600)
        try:
            fcntl.flock(descriptor, lock)
            yield descriptor
        finally:
            os.close(descriptor)


def _line(record: dict[str, Any]) -> bytes:
    body = json.dumps(record, allow_nan=False, separators=(",", ":")).encode()
    return b"%08x %d %b\n" % (zlib.crc32(body), len(body), body)


def _content(descriptor: int) -> bytes:
    pieces = []
    while piece := os.read(descriptor, 1 << 20):
        pieces.append(piece)
    return b"".join(pieces)


def _end_of_whole_lines(descriptor: int) -> int:
    """Where the last whole line ends. Only the end of the file is read.

    A cut line that turns out to be whole but for its newline is cut all the same: nobody was told
    that it was written.
    """
    size = os.fstat(descriptor).st_size
    position = size
    while position:
        start = max(0, position - 65_536)
        piece = os.pread(descriptor, position - start, start)
        newline = piece.rfind(b"\n")
        if newline >= 0:
            return start + newline + 1
        position = start
    return 0


def _records(content: bytes, path: Path) -> Iterator[dict[str, Any]]:
    *lines, _cut = content.split(b"\n")
    for number, line in enumerate(lines, start=1):
        checksum, _, rest = line.partition(b" ")
        length, _, body = rest.partition(b" ")
        if length != b"%d" % len(body) or checksum != b"%08x" % zlib.crc32(body):
            raise InvalidData(
                f"expected whole records in {path}, line {number} is damaged: restore the file from"
                " a copy, what it paid for cannot be known otherwise"
            )
        yield json.loads(body)
