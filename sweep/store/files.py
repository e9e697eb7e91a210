"""Atomic writes of files that are private to their owner; JSON with infinities as
text.
"""

import contextlib
import json
import os
from pathlib import Path
from typing import Any

from trainables.dp.accounting.summary import plain
from trainables.errors import InvalidInput
from trainables.io import files
from trainables.io.disk import flush

MAX_BYTES = 1 << 30


def write_text(path: Path, text: str) -> None:
    """As `write_bytes`."""
    write_bytes(path, text.encode())


def write_bytes(path: Path, content: bytes) -> None:
    """Replace a file by `content` atomically: a reader sees the old content or the new
    one.
    """
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(path)
    except OSError:  # a partial file would take space on a full disk
        with contextlib.suppress(OSError):
            fresh.unlink()
        raise
    flush(path.parent)


def require_new_file(to: Path) -> None:
    """Raises: InvalidInput where the file exists, or the folder that it would be in
    does not.
    """
    if to.exists():
        raise InvalidInput(f"expected a new file, got {to}, which exists")
    if not to.parent.is_dir():
        raise InvalidInput(f"expected a folder to write to, got {to.parent}")


def write_json(path: Path, value: Any) -> None:
    """Replace a file by the JSON of `value`, indented for people."""
    write_text(path, indented_json(value))


def indented_json(value: Any) -> str:
    """JSON as `write_json` writes it."""
    return json.dumps(plain(value), allow_nan=False, indent=1) + "\n"


def read_json(path: str | Path) -> Any:
    """The data in a JSON file. Raises: InvalidData for one that is missing or
    damaged.
    """
    return files.read_json(path, max_bytes=MAX_BYTES)
