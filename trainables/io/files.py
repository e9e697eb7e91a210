"""Files of text, YAML and JSON, and the lines of files and pipes, each read or one
problem that quotes none of it; and files of arrays, written whole.
"""

import gzip
import json
import os
import stat
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from itertools import chain
from pathlib import Path
from typing import IO, Any, TypeVar, cast

from trainables.errors import InvalidData, kind_of, system_words
from trainables.io.documents import (
    DocumentProblem,
    parse_json,
    parse_yaml,
    require_text,
)

TO_UTF_8 = " (if it is Latin-1, `iconv -f LATIN1 -t UTF-8 FILE > NEW` converts it)"
# What reading a damaged archive, compressed file or file of arrays raises.
_OF_PYTHON = (OSError, ValueError, KeyError, EOFError, NotImplementedError)
DAMAGED = (*_OF_PYTHON, zipfile.BadZipFile, zlib.error)
_MAX_BYTES = 1 << 20  # of a file that a person writes
_MAX_LINE_BYTES = 4 << 20

Opener = Callable[[Path], AbstractContextManager[IO[bytes]]]
Line = tuple[int, str | DocumentProblem]
T = TypeVar("T")


def open_packed(path: Path) -> IO[bytes]:
    """The bytes of a file, of one in an archive (`data.zip/train.csv`), or those that a
    file .gz holds.
    """
    is_packed = path.suffix.lower() == ".gz"
    for folder in path.parents:
        if folder.suffix.lower() == ".zip" and folder.is_file():
            with zipfile.ZipFile(folder) as archive:
                file = archive.open(path.relative_to(folder).as_posix())
            return cast(IO[bytes], gzip.open(file)) if is_packed else file
    return cast(IO[bytes], gzip.open(path)) if is_packed else path.open("rb")


def file_text(
    path: str | Path, *, max_bytes: int = _MAX_BYTES, opened: Opener | None = None
) -> str:
    """The text of a UTF-8 file. Raises: InvalidData unless it is a readable UTF-8 file
    of at most `max_bytes`; the first line that is not UTF-8 is named.
    """
    try:
        if opened is None and not stat.S_ISREG(os.stat(path).st_mode):
            raise InvalidData(f"expected {path} to be a file")
        with opened(Path(path)) if opened else Path(path).open("rb") as file:
            content = file.read(max_bytes + 1)
        if len(content) > max_bytes:
            raise InvalidData(f"expected at most {max_bytes} bytes in {path}, got more")
        text = content.decode().removeprefix("\ufeff")
        require_text(text)
    except (OSError, EOFError, zlib.error) as error:
        raise InvalidData(f"cannot read {path}: {_why(error)}") from None
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise InvalidData(f"expected UTF-8 in {path} line {line}{TO_UTF_8}") from None
    except DocumentProblem as problem:
        raise InvalidData(f"{path}: {problem}") from None
    except ValueError:
        raise InvalidData("expected the name of a file without NUL") from None
    return text


def read_yaml(path: Path) -> Any:
    """The plain data in a YAML file. Raises: InvalidData with the line of the
    problem.
    """
    try:
        return parse_yaml(file_text(path))
    except DocumentProblem as problem:
        raise InvalidData(f"expected YAML in {path}{problem.at}: {problem}") from None


def read_json(path: str | Path, *, max_bytes: int = _MAX_BYTES) -> Any:
    """The plain data in a JSON file. Raises: InvalidData with the line, where it is
    known.
    """
    try:
        return parse_json(file_text(path, max_bytes=max_bytes))
    except DocumentProblem as problem:
        raise InvalidData(f"{problem} in {path}{problem.at}") from None


def read_written_json(path: Path) -> Any:
    """The plain data in a JSON file that a program wrote: of any size, infinities and
    NaN included.

    Raises: InvalidData where it is missing or damaged.
    """
    text = file_text(path, max_bytes=1 << 30)
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise InvalidData(f"expected JSON in {path}, got a damaged file") from None


def dump_json(path: Path, value: Any, *, indent: int | None = None) -> None:
    """Write plain data as JSON to `path`, over a file that is there; `indent` blanks a
    level, or all on one line. It is not atomic: write to a folder that appears as a
    whole, or use the event log, where a reader may come in between.
    """
    path.write_text(json.dumps(value, indent=indent), encoding="utf-8")


def make_folder(path: Path) -> None:
    """Make the folder `path`, and those above it, where it is missing, so that its
    owner alone can open it (mode 0700 as far as the umask allows): folders of a home
    hold private text and keys. One that is there stays as it is.
    """
    path.mkdir(parents=True, exist_ok=True, mode=0o700)


def write_arrays(path: Path, arrays: Mapping[str, Any]) -> None:
    """Write NumPy's arrays as a file .npz; it appears whole or not at all."""
    import numpy as np  # here, because a command line reads files without it

    partial = path.with_suffix(".partial.npz")
    np.savez_compressed(partial, allow_pickle=False, **arrays)
    os.replace(partial, path)


def line_groups(
    file: IO[bytes], *, max_bytes: int = _MAX_LINE_BYTES
) -> Iterator[list[Line]]:
    """(number from 1, line without its end) or the problem of a line (too long, no
    UTF-8, a NUL), in groups of those that are available, so that a pipe is answered
    line by line. Only a line feed ends a line. Needs the memory of one line.
    """
    number, rest, content = 0, b"", b"\n"
    read = getattr(file, "read1", file.read)  # what is there already
    while content:
        content = read(1 << 16)
        *whole, rest = (rest + content).split(b"\n")
        if rest and not content:
            whole = [rest]
        rest = rest[: max_bytes + 1]  # longer ones are refused
        if whole:
            yield [
                (at, _text(line, at, max_bytes))
                for at, line in enumerate(whole, number + 1)
            ]
            number += len(whole)


def text_lines(file: IO[bytes], *, max_bytes: int = _MAX_LINE_BYTES) -> Iterator[Line]:
    """As `line_groups`, line by line."""
    return chain.from_iterable(line_groups(file, max_bytes=max_bytes))


def _text(line: bytes, number: int, max_bytes: int) -> str | DocumentProblem:
    if len(line) > max_bytes:
        return DocumentProblem(f"expected lines of at most {max_bytes} bytes")
    if b"\0" in line:
        return DocumentProblem("expected text without NUL")
    try:
        return line.decode("utf-8-sig" if number == 1 else "utf-8").removesuffix("\r")
    except UnicodeDecodeError:
        return DocumentProblem("expected UTF-8", advice=TO_UTF_8)


def file_lines(
    path: Path, *, opened: Opener | None = None
) -> Iterator[tuple[str, str] | InvalidData]:
    """(file and line, for messages; line without its end) of every line, or its
    problem. The first line that is not UTF-8 is named with how to convert the file.

    Raises: InvalidData for a file that cannot be read.
    """
    said = ""
    try:
        with opened(path) if opened else path.open("rb") as file:
            for number, line in text_lines(file):
                where = f"{path} line {number}"
                if isinstance(line, str):
                    yield where, line
                else:
                    yield InvalidData(f"{line} in {where}{'' if said else line.advice}")
                    said = said or line.advice
    except DAMAGED as error:
        raise InvalidData(f"cannot read {path}: {_why(error)}") from None


def _why(error: Exception) -> str:
    """Why a file cannot be read; a library may quote the file."""
    return (isinstance(error, OSError) and system_words(error)) or "the file is damaged"


def object_lines(
    path: Path, *, opened: Opener | None = None
) -> Iterator[tuple[str, dict[str, Any]] | InvalidData]:
    """(file and line, JSON object) of every line that is not blank, or its problem.

    Raises: InvalidData for a file that cannot be read.
    """
    for found in file_lines(path, opened=opened):
        if isinstance(found, InvalidData):
            yield found
        elif found[1].strip():
            where, line = found
            try:
                value = parse_json(line)
            except DocumentProblem as problem:
                yield InvalidData(f"expected a JSON object in {where}: {problem}")
                continue
            got = f"expected a JSON object in {where}, got {kind_of(value)}"
            yield (where, value) if isinstance(value, dict) else InvalidData(got)


def without_problems(found: Iterable[T | InvalidData]) -> Iterator[T]:
    """What is found, up to the first problem. Raises: that InvalidData."""
    for each in found:
        if isinstance(each, InvalidData):
            raise each
        yield each
