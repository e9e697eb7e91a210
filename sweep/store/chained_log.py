"""The append-only log of typed entries, for several processes, of ledgers and sweeps.

A line is a JSON object. Its first field is the `digest` of the rest of the line, its
second the digest of the line before (`previous`); the head, a separate file, has the
number of lines and the last digest. Changed, removed, repeated, moved or replaced lines
are therefore detected, the last ones included.

An append returns after fsync. A crash can leave a last line without its newline, which
was never acknowledged; readers ignore it and the next append removes it. A crash can
leave the head one line behind. Any other damage is refused.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Generic, NamedTuple, TypeVar

from pydantic import TypeAdapter, ValidationError

from sweep.store.files import write_text
from trainables.dp.accounting.summary import plain
from trainables.errors import InvalidData, one_line
from trainables.system.locks import alone

_BYTES = 16  # of a digest
_START = "0" * 2 * _BYTES
_DIGEST, _PREVIOUS = b'{"digest":"', b'"previous":"'
_BODY = len(_DIGEST) + 2 * _BYTES + 2  # where the part begins that the digest is of
_FIELDS = len(_PREVIOUS) + 2 * _BYTES + 1  # and behind `previous`, from there
_Entry = TypeVar("_Entry")


class _Position(NamedTuple):
    """A position in a log. `digest` is of the line before."""

    inode: int = 0
    offset: int = 0
    num_lines: int = 0
    digest: str = _START

    def after(self, line: bytes) -> _Position:
        return _Position(
            self.inode,
            self.offset + len(line) + 1,
            self.num_lines + 1,
            line[len(_DIGEST) : _BODY - 2].decode("latin-1"),
        )


class ChainedLog(Generic[_Entry]):
    """The log at `path` of the entries of `kind`, with its head (`.head`) and its lock
    (`.lock`) beside it. The first append creates the files, readable by their owner.
    `advice` is the next step after damage. Not for several threads.
    """

    def __init__(self, path: Path, kind: TypeAdapter[_Entry], *, advice: str) -> None:
        self.path = path
        self._kind = kind
        self._advice = advice
        self._is_alone = False
        self._head = path.with_suffix(".head")
        self._position = _Position()

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Hold the lock for appending. Raises: FileNotFoundError without the log's
        folder.
        """
        with alone(self.path.with_suffix(".lock")):
            self._is_alone = True
            try:
                yield
            finally:
                self._is_alone = False

    def read_new(self) -> list[_Entry]:
        """The entries that this object has not read yet, oldest first; none for no
        file.

        Raises: InvalidData naming the damage; nothing then counts as read.
        """
        if self._found() == (self._position.inode, self._position.offset):
            return []
        try:
            return self._read_new()
        except InvalidData:
            # An append of another process may have been under way.
            if self._is_alone or not self.path.with_suffix(".lock").exists():
                raise
            with self.alone():
                return self._read_new()

    def first(self) -> _Entry:
        """The first entry, read alone. Raises: InvalidData without one, or for a
        damaged one.
        """
        line = _content(self.path, is_line=True) or b""
        return self._entry(line.rstrip(b"\n"), _Position())

    def append(self, entry: _Entry) -> None:
        """Add one entry, which `read_new` then reads; it is on the disk when this
        returns. Only while `alone`, and when everything has been read.

        Raises: OSError where it could not be written (the log is then as it was).
        """
        after = self._position
        fields = plain(self._kind.dump_python(entry, by_alias=True))
        assert self._is_alone
        assert not self._lines(after), "lines that were not read would be cut off"
        line = _line({"previous": after.digest, **fields})
        if not self._head.exists():  # so that a log with lines always has one
            self._write_head(after)
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        with open(descriptor, "ab", buffering=0) as file:
            file.truncate(after.offset)  # a cut line was never acknowledged
            try:
                left = memoryview(line)
                while left:
                    left = left[file.write(left) :]
                os.fsync(descriptor)
            except OSError:
                file.truncate(after.offset)
                raise
        self._write_head(after.after(line[:-1]))

    def _read_new(self) -> list[_Entry]:
        position, (number, last) = self._position, self._read_head()
        inode, _ = self._found()
        if position.inode != inode:
            position = _Position(inode)
        entries, digests = [], {position.num_lines: position.digest}
        for line in self._lines(position):
            entries.append(self._entry(line, position))
            position = position.after(line)
            digests[position.num_lines] = position.digest
        if number < 0 and position.num_lines:
            raise self._damaged(f"{self._head.name} is missing")
        if number > position.num_lines:
            raise self._damaged(
                f"{number} lines were written and {position.num_lines} are there"
            )
        # One that was read before is not read again.
        if digests.get(number, last) != last:
            raise self._damaged(f"line {number} is not the one that was written")
        self._position = position
        return entries

    def _entry(self, line: bytes, position: _Position) -> _Entry:
        """Raises: InvalidData naming the problem of the line after `position`."""
        body = line[_BODY:]
        if not _is_whole(line) or not body.startswith(_PREVIOUS):
            problem = "damaged"
        elif body[len(_PREVIOUS) : _FIELDS - 1] != position.digest.encode("latin-1"):
            problem = "not the one that followed the lines before it"
        else:
            try:
                return self._kind.validate_json(b"{" + body)
            except ValidationError as error:
                place = ".".join(
                    str(part) for part in error.errors(include_url=False)[0]["loc"]
                )
                problem = f"without a valid {one_line(place or 'entry', characters=80)}"
        raise self._damaged(f"line {position.num_lines + 1} is {problem}")

    def _damaged(self, problem: str) -> InvalidData:
        return InvalidData(
            f"expected whole entries in {self.path}, {problem}: {self._advice}"
        )

    def _found(self) -> tuple[int, int]:
        """Inode and bytes of the file; -1 bytes for none, which a head may miss."""
        try:
            found = self.path.stat()
        except FileNotFoundError:
            return 0, -1
        return found.st_ino, found.st_size

    def _lines(self, position: _Position) -> list[bytes]:
        """Whole lines after `position`, without their newlines."""
        content = _content(self.path, after=position.offset)
        if content is None:
            return []
        if self._found()[1] < position.offset:
            raise InvalidData(
                f"expected {self.path} only to grow, got a truncated file:"
                f" {self._advice}"
            )
        return content.split(b"\n")[:-1]  # the last one was cut

    def _read_head(self) -> tuple[int, str]:
        """Number of the lines and digest of the last; number -1 for no head."""
        content = _content(self._head)
        if content is None:
            return -1, ""
        line = content.rstrip(b"\n")
        with suppress(KeyError, TypeError, ValueError, OverflowError):
            if _is_whole(line):
                fields = json.loads(b"{" + line[_BODY:])
                return int(fields["lines"]), str(fields["last"])
        raise InvalidData(f"expected the head of a log in {self._head}: {self._advice}")

    def _write_head(self, position: _Position) -> None:
        """Write the head without a flush, because a head that is behind is no damage
        and a flush takes as long as another append. A new one has its name once it is
        whole, because an empty head is damage. Its length is fixed, so that it is
        replaced atomically.
        """
        content = _line(
            {"lines": f"{position.num_lines:020d}", "last": position.digest}
        )
        if not self._head.exists():
            write_text(self._head, content.decode())
            return
        with self._head.open("r+b", buffering=0) as file:
            file.write(content)


def _line(fields: Mapping[str, object]) -> bytes:
    body = json.dumps(fields, allow_nan=False, separators=(",", ":")).encode()[1:]
    return b'%b%b",%b\n' % (_DIGEST, _digest_of(body), body)


def _is_whole(line: bytes) -> bool:
    return line[:_BODY] == b'%b%b",' % (_DIGEST, _digest_of(line[_BODY:]))


def _digest_of(body: bytes) -> bytes:
    return hashlib.blake2b(body, digest_size=_BYTES).hexdigest().encode()


def _content(path: Path, *, after: int = 0, is_line: bool = False) -> bytes | None:
    """What follows the first `after` bytes of a file, or the line there; None for no
    file.

    Raises: InvalidData where it cannot be read.
    """
    try:
        with path.open("rb") as file:
            file.seek(after)
            return file.readline() if is_line else file.read()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InvalidData(f"cannot read {path}: {error.strerror}") from None
