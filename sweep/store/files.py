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
    """Replace a file by `text` in UTF-8, atomically and readable by its owner alone: as
    `write_bytes`.

    Raises: OSError where it cannot be written; the old content then stays.
    """
    write_bytes(path, text.encode())


def write_bytes(path: Path, content: bytes) -> None:
    """Replace a file by `content` atomically: a reader sees the old content or the new
    one, also after a crash. The new file is readable by its owner alone and is on the
    disk when this returns.

    Raises: OSError where it cannot be written; the old content then stays.
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
    """Require a place at which a new file can be written, before work for it begins.

    Raises: InvalidInput where the file exists, or the folder that it would be in does
    not.
    """
    if to.exists():
        raise InvalidInput(f"expected a new file, got {to}, which exists")
    if not to.parent.is_dir():
        raise InvalidInput(f"expected a folder to write to, got {to.parent}")


def write_json(path: Path, value: Any) -> None:
    """Replace a file by the JSON of `value`, indented for people, atomically: as
    `write_bytes`. Infinities become text, as in `plain`; a NaN is not written.

    Raises: OSError where it cannot be written.
    """
    write_text(path, indented_json(value))


def indented_json(value: Any) -> str:
    """The JSON of a value as `write_json` writes it: indented by one space, infinities
    as text, with a newline at the end.
    """
    return json.dumps(plain(value), allow_nan=False, indent=1) + "\n"


def read_json(path: str | Path) -> Any:
    """The data in a JSON file of at most 1 GiB (`MAX_BYTES`).

    Raises: InvalidData for one that is missing, larger or damaged, naming the file.
    """
    return files.read_json(path, max_bytes=MAX_BYTES)
