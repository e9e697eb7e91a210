"""Documents in files. Errors name the file and the line."""

from __future__ import annotations

import codecs
import os
import stat
import zipfile
import zlib
from pathlib import Path
from typing import Any

from trainables.documents.bounds import (
    MAX_BYTES,
    TO_UTF_8,
    DocumentProblem,
    require_text,
)
from trainables.documents.json_text import parse_json, parse_written_json
from trainables.documents.yaml_text import parse_yaml
from trainables.errors import InvalidData

_MAX_BYTES_WRITTEN = 1 << 30
_PART = 1 << 24  # bytes

# What reading a damaged archive, compressed file or file of arrays raises.
DAMAGED = (
    OSError,
    ValueError,
    KeyError,
    EOFError,
    NotImplementedError,
    zipfile.BadZipFile,
    zlib.error,
)


def file_text(path: str | Path, *, max_bytes: int = MAX_BYTES) -> str:
    """The text of a UTF-8 file.

    Raises: InvalidData unless it is a readable UTF-8 file of at most `max_bytes`; the first line
        that is not UTF-8 is named.
    """
    try:
        content = _content(path, max_bytes + 1)
    except OSError as error:
        raise InvalidData(f"cannot read {path}: {error.strerror}") from None
    except ValueError:  # a name with NUL
        raise InvalidData("expected the name of a file without NUL") from None
    if len(content) > max_bytes:
        raise InvalidData(f"expected at most {max_bytes} bytes in {path}, got more")
    try:
        text = content.removeprefix(codecs.BOM_UTF8).decode()
        require_text(text)
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise InvalidData(f"expected UTF-8 in {path} line {line}{TO_UTF_8}") from None
    except DocumentProblem as problem:
        raise InvalidData(f"{path}: {problem}") from None
    return text


def _content(path: str | Path, most: int) -> bytes:
    """At most `most` bytes of a file. A file object would ask the system four times more about each
    file, which takes longer than reading a small one.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # a named pipe must not wait
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise InvalidData(f"expected {path} to be a file")
        # Reading allocates as many bytes as are requested.
        content = os.read(descriptor, min(found.st_size + 1, most))
        while len(content) < most and len(content) != found.st_size:  # it is long, or has grown
            more = os.read(descriptor, min(most - len(content), _PART))
            if not more:
                break
            content += more
    finally:
        os.close(descriptor)
    return content


def read_yaml(path: Path, *, max_bytes: int = MAX_BYTES) -> Any:
    """The plain data in a YAML file.

    Raises: InvalidData with the line of the problem.
    """
    try:
        return parse_yaml(file_text(path, max_bytes=max_bytes))
    except DocumentProblem as problem:
        raise InvalidData(f"expected YAML in {path}{_at(problem)}: {problem}") from None


def read_json(path: str | Path, *, max_bytes: int = MAX_BYTES) -> Any:
    """The plain data in a JSON file.

    Raises: InvalidData with the line of the problem.
    """
    try:
        return parse_json(file_text(path, max_bytes=max_bytes))
    except DocumentProblem as problem:
        said = "" if str(problem) == "expected JSON" else f": {problem}"
        raise InvalidData(f"expected JSON in {path}{_at(problem)}{said}") from None


def read_written_json(path: Path) -> Any:
    """The plain data in a JSON file that a program wrote: of any size, infinities and NaN included.

    Raises: InvalidData where it is missing or damaged.
    """
    try:
        return parse_written_json(file_text(path, max_bytes=_MAX_BYTES_WRITTEN))
    except DocumentProblem:
        raise InvalidData(f"expected JSON in {path}, got a damaged file") from None


def _at(problem: DocumentProblem) -> str:
    return "" if problem.line is None else f", line {problem.line}"
