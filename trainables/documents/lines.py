"""Files with a record on each line, read in memory that one line bounds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO

from trainables.documents.bounds import DocumentProblem, require_text

MAX_LINE_BYTES = 4 << 20


def text_lines(file: IO[bytes]) -> Iterator[tuple[int, str | DocumentProblem]]:
    """(number from 1, line without its end), or what is wrong with it: too long, no UTF-8, a NUL.
    Only a line feed ends a line.

    >>> import io
    >>> list(text_lines(io.BytesIO(b"a\\r\\nb")))
    [(1, 'a'), (2, 'b')]
    """
    number = 0
    while line := file.readline(MAX_LINE_BYTES + 1):
        number += 1
        if len(line) > MAX_LINE_BYTES:
            while line and not line.endswith(b"\n"):  # the rest of it
                line = file.readline(MAX_LINE_BYTES)
            yield number, DocumentProblem(f"expected lines of at most {MAX_LINE_BYTES} bytes")
            continue
        try:
            text = line.decode("utf-8-sig" if number == 1 else "utf-8")
            require_text(text)
        except UnicodeDecodeError:
            yield number, DocumentProblem("expected UTF-8")
        except DocumentProblem as problem:
            yield number, problem
        else:
            yield number, text.rstrip("\r\n")
