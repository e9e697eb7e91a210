"""Files with a record on each line, read with the memory of one line."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import IO

from trainables.documents.bounds import DocumentProblem, require_text

MAX_LINE_BYTES = 4 << 20
_AT_ONCE = 1 << 16

Line = tuple[int, str | DocumentProblem]


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
        return DocumentProblem("expected UTF-8")
    except DocumentProblem as problem:
        return problem
    return text.removesuffix("\r")


def _too_long(max_bytes: int) -> DocumentProblem:
    return DocumentProblem(f"expected lines of at most {max_bytes} bytes")
