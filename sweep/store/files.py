"""Atomic file writes that survive a crash (temporary file, flush, rename), private to their owner.
JSON with infinities as text.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
from pathlib import Path
from typing import Any, cast

from pydantic import ValidationError

from sweep.store.kinds import OBJECT, Kind
from trainables import documents
from trainables.documents import one_line
from trainables.errors import InvalidData, InvalidInput
from trainables.privacy.summary import plain
from trainables.system.disk import flush

_MAX_BYTES = 1 << 30


def write_text(path: Path, text: str) -> None:
    """Replace a file by `text` atomically: a reader sees the old content or the new one."""
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(path)
    except OSError:  # a partial file would take space on a full disk
        with contextlib.suppress(OSError):
            fresh.unlink(missing_ok=True)
        raise
    flush(path.parent)


def require_new_file(to: Path) -> None:
    """Raises: InvalidInput where the file exists, or the folder that it would be in does not."""
    if to.exists():
        raise InvalidInput(f"expected a new file, got {to}, which exists")
    if not to.parent.is_dir():
        raise InvalidInput(f"expected a folder to write to, got {to.parent}")


def jsonable(value: Any) -> Any:
    """Plain data that JSON can hold: an infinity is the string "inf", a NaN None.

    >>> jsonable({"epsilon": math.inf, "loss": (0.5, math.nan)})
    {'epsilon': 'inf', 'loss': [0.5, None]}
    """
    return _without_nan(plain(value))


def dump(value: Any) -> str:
    """JSON of plain data, as `jsonable` has it."""
    return json.dumps(jsonable(value), allow_nan=False)


def write_json(path: Path, value: Any) -> None:
    """Replace a file by the JSON of `value`, indented for people."""
    write_text(path, indented_json(value))


def indented_json(value: Any) -> str:
    """JSON as `write_json` writes it."""
    return json.dumps(jsonable(value), allow_nan=False, indent=1) + "\n"


def read_json(path: str | Path) -> Any:
    """The plain data in a JSON file.

    Raises: InvalidData for a file that is missing or damaged.
    """
    return documents.read_json(path, max_bytes=_MAX_BYTES)


def read_object(path: str | Path, kind: Kind) -> dict[str, Any]:
    """The object in a JSON file, whose fields are of a kind (see `kinds`).

    Raises: InvalidData for a file that is missing or damaged.
    """
    found = read_json(path)
    require_kind(found, kind, where=str(path))
    return cast("dict[str, Any]", found)


def require_kind(value: Any, kind: Kind, *, where: str) -> None:
    """Raises: InvalidData where a value is not of a kind, naming its first invalid field."""
    try:
        kind.validate_python(value)
    except ValidationError as error:
        field = ".".join(str(part) for part in error.errors(include_url=False)[0]["loc"][:2])
        what = f"its field {one_line(field, characters=80)}" if field else "what it holds"
        raise InvalidData(f"expected {where} as it was written, got {what} damaged") from None


def exists(path: str | Path) -> bool:
    """Whether the path exists.

    Raises: InvalidData where that cannot be determined.
    """
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise InvalidData(f"cannot read {path}: {error.strerror}") from None
    return True


def append_line(path: Path, value: Any) -> None:
    """Add the JSON of `value` as one line, on the disk when this returns.

    A line that a crash cut in the middle is removed first.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    with os.fdopen(descriptor, "r+b") as file:
        file.seek(0, os.SEEK_END)
        if file.tell():
            file.seek(-1, os.SEEK_END)
            if file.read(1) != b"\n":
                file.seek(0)
                file.truncate(file.read().rfind(b"\n") + 1)
        file.seek(0, os.SEEK_END)
        file.write(dump(value).encode() + b"\n")
        file.flush()
        os.fsync(file.fileno())


def read_lines(path: Path, kind: Kind = OBJECT) -> list[dict[str, Any]]:
    """The objects in a file of JSON lines; none without the file; a truncated last line is ignored.

    Raises: InvalidData for any other damaged line.
    """
    return read_lines_from(path, 0, kind)[0] if exists(path) else []


def read_lines_from(
    path: Path, start: int, kind: Kind = OBJECT
) -> tuple[list[dict[str, Any]], int]:
    """As `read_lines`, from byte `start` on, where a line begins; also returns the byte where the
    next one will begin.
    """
    try:
        with path.open("rb") as file:
            file.seek(start)
            *lines, cut = file.read().split(b"\n")
            end = file.tell() - len(cut)
    except OSError as error:
        raise InvalidData(f"cannot read {path}: {error.strerror}") from None
    rows = []
    for number, line in enumerate(lines, start=1):
        where = f"line {number}" if start == 0 else f"a line after byte {start}"
        try:
            row = documents.parse_json(line.decode())
        except ValueError:
            raise InvalidData(f"expected JSON in {where} of {path}") from None
        require_kind(row, kind, where=f"{where} of {path}")
        rows.append(row)
    return rows, end


def number(value: Any) -> float | None:
    """The float of a figure written by `plain`.

    >>> number("inf"), number(None), number(1)
    (inf, None, 1.0)
    """
    return None if value is None else float(value)


def _without_nan(value: Any) -> Any:
    if isinstance(value, float) and math.isnan(value):
        return None
    if isinstance(value, list):
        return [_without_nan(item) for item in value]
    if isinstance(value, dict):
        return {key: _without_nan(item) for key, item in value.items()}
    return value
