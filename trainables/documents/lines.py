"""Files with a record on each line, read with the memory of one line."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from itertools import chain
from pathlib import Path
from typing import IO, Any, TypeVar

from trainables.documents.bounds import TO_UTF_8, DocumentProblem, require_text
from trainables.documents.files import DAMAGED
from trainables.documents.json_text import parse_json
from trainables.documents.quoting import kind_of
from trainables.errors import InvalidData

MAX_LINE_BYTES = 4 << 20
_AT_ONCE = 1 << 16

Line = tuple[int, str | DocumentProblem]
Opener = Callable[[Path], AbstractContextManager[IO[bytes]]]
T = TypeVar("T")


def _plain(path: Path) -> IO[bytes]:
    return path.open("rb")


def file_lines(path: Path, *, opened: Opener = _plain) -> Iterator[tuple[str, str] | InvalidData]:
    """(file and line, for messages; line without its end) of every line, or its problem. The first
    line that is not UTF-8 is named with how to convert the file.

    Raises: InvalidData for a file that cannot be read.
    """
    said = ""
    for where, line in _placed_lines(path, opened):
        if isinstance(line, DocumentProblem):
            advice = "" if line.advice == said else line.advice
            said = line.advice or said
            yield InvalidData(f"{line} in {where}{advice}")
        else:
            yield where, line


def _placed_lines(path: Path, opened: Opener) -> Iterator[tuple[str, str | DocumentProblem]]:
    try:
        with opened(path) as file:
            for number, line in text_lines(file):
                yield f"{path} line {number}", line
    except DAMAGED as error:
        raise InvalidData(
            f"expected a file that can be read in {path}, got {type(error).__name__}"
        ) from None


def object_lines(
    path: Path, *, opened: Opener = _plain
) -> Iterator[tuple[str, dict[str, Any]] | InvalidData]:
    """(file and line, JSON object) of every line that is not blank, or its problem.

    Raises: InvalidData for a file that cannot be read.
    """
    for found in file_lines(path, opened=opened):
        if isinstance(found, InvalidData):
            yield found
            continue
        where, line = found
        if not line.strip():
            continue
        try:
            value = parse_json(line)
        except DocumentProblem as problem:
            yield InvalidData(f"expected a JSON object in {where}: {problem}")
            continue
        if isinstance(value, dict):
            yield where, value
        else:
            yield InvalidData(f"expected a JSON object in {where}, got {kind_of(value)}")


def require_utf_8(path: Path) -> None:
    """Raises: InvalidData that names the first line of a file of text that is not UTF-8.

    A file with NUL in its beginning is no text, or in an encoding that has no lines of bytes.
    """
    with path.open("rb") as file:
        if b"\0" in file.read(_AT_ONCE):
            return
    for where, line in _placed_lines(path, _plain):
        if isinstance(line, DocumentProblem) and line.advice == TO_UTF_8:
            raise InvalidData(f"{line} in {where}{TO_UTF_8}")


def without_problems(found: Iterable[T | InvalidData]) -> Iterator[T]:
    """What is found, up to the first problem. Raises: that InvalidData."""
    for each in found:
        if isinstance(each, InvalidData):
            raise each
        yield each


def text_lines(file: IO[bytes], *, max_bytes: int = MAX_LINE_BYTES) -> Iterator[Line]:
    """(number from 1, line without its end), or the problem of a line: too long, no UTF-8, a NUL.
    Only a line feed ends a line.

    >>> import io
    >>> list(text_lines(io.BytesIO(b"a\\r\\nb")))
    [(1, 'a'), (2, 'b')]
    """
    return chain.from_iterable(line_groups(file, max_bytes=max_bytes))


def line_groups(file: IO[bytes], *, max_bytes: int = MAX_LINE_BYTES) -> Iterator[list[Line]]:
    """As `text_lines`, in groups of the lines available so far, so that a program that writes line
    by line into a pipe gets its results line by line.
    """
    number, rest, is_long = 0, b"", False  # `is_long`: `rest` is the end of a line cut already
    read = getattr(file, "read1", file.read)  # what is there already
    while content := read(_AT_ONCE):
        *whole, rest = (rest + content).split(b"\n")
        group: list[Line] = []
        for line in whole:
            number += 1
            found = _too_long(max_bytes) if is_long else _text(line, number, max_bytes)
            group.append((number, found))
            is_long = False
        if len(rest) > max_bytes:
            rest, is_long = b"", True
        if group:
            yield group
    if rest or is_long:
        number += 1
        yield [(number, _too_long(max_bytes) if is_long else _text(rest, number, max_bytes))]


def _text(line: bytes, number: int, max_bytes: int) -> str | DocumentProblem:
    if len(line) > max_bytes:
        return _too_long(max_bytes)
    try:
        text = line.decode("utf-8-sig" if number == 1 else "utf-8")
        require_text(text)
    except UnicodeDecodeError:
        return DocumentProblem("expected UTF-8", advice=TO_UTF_8)
    except DocumentProblem as problem:
        return problem
    return text.removesuffix("\r")


def _too_long(max_bytes: int) -> DocumentProblem:
    return DocumentProblem(f"expected lines of at most {max_bytes} bytes")
