"""Recognises errors of a full, read-only or missing disk, whatever library raised
them.
"""

import errno
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from trainables.errors import StorageFailed
from trainables.io.files import make_folder

_FULL, _READ_ONLY, _GONE = "is full", "is read-only", "does not answer"
_BY_NUMBER = {
    errno.ENOSPC: _FULL,
    errno.EDQUOT: _FULL,
    errno.EROFS: _READ_ONLY,
    **dict.fromkeys(
        (errno.EIO, errno.ESTALE, errno.ENOTCONN, errno.ENODEV, errno.ENXIO), _GONE
    ),
}
# Messages of libraries with other error classes: SQLite, SQLAlchemy, MLflow,
# safetensors.
_BY_WORDS = {
    "no space left on device": _FULL,
    "database or disk is full": _FULL,
    "disk quota exceeded": _FULL,
    "read-only file system": _READ_ONLY,
    "readonly database": _READ_ONLY,
    "stale file handle": _GONE,
    "disk i/o error": _GONE,
    "input/output error": _GONE,
    "unable to open database file": _GONE,
}
_PROBE = b"\0" * 65_536
_MEGABYTE = 1e6


def failure_of(error: BaseException, folder: Path) -> StorageFailed | None:
    """The failure of the disk of `folder` (or of the file that `error` names); None
    where `error` has another cause.

    >>> failure_of(ValueError("z0"), Path("/")) is None
    True
    """
    for cause in _chain(error):
        if isinstance(cause, StorageFailed):
            return cause
        state = _state_of(cause)
        if state is not None:
            place = _place_of(cause, folder)
            if state is _GONE:  # libraries report a full disk like this, too
                state = _state_by_trial(place) or state
            return StorageFailed(_sentence(state, place))
    return None


def flush(path: Path) -> None:
    """Force a file's content, or a folder's list of names, to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def flush_tree(folder: Path) -> None:
    """Force every file of a folder, and the names of all, to the disk: after a power
    failure a folder that has its final name is whole.
    """
    for path in (*folder.rglob("*"), folder):
        if not path.is_symlink():  # it has no content of its own
            flush(path)


def require_writable(folder: Path) -> None:
    """Create `folder` where it is missing, and check that a file can be written there.

    Raises: StorageFailed where the disk fails; OSError for any other reason.
    """
    try:
        make_folder(folder)
        _write_probe(folder)
    except OSError as error:
        failure = failure_of(error, folder)
        if failure is None:
            raise
        raise failure from None


def _chain(error: BaseException) -> Iterator[BaseException]:
    """An error and its chain of causes and contexts."""
    seen: set[int] = set()
    waiting: list[BaseException | None] = [error]
    while waiting:
        cause = waiting.pop(0)
        if cause is None or id(cause) in seen:
            continue
        seen.add(id(cause))
        yield cause
        waiting += [cause.__cause__, cause.__context__]


def _state_of(error: BaseException) -> str | None:
    if isinstance(error, OSError) and error.errno is not None:
        return _BY_NUMBER.get(error.errno)
    text = str(error).lower()
    return next((state for words, state in _BY_WORDS.items() if words in text), None)


def _place_of(error: BaseException, folder: Path) -> Path:
    """The nearest folder that exists, of the file that the error names."""
    named = getattr(error, "filename", None)
    place = (
        Path(os.fsdecode(named)) if isinstance(named, str | bytes) and named else folder
    )
    return next((part for part in (place, *place.parents) if part.is_dir()), folder)


def _state_by_trial(folder: Path) -> str | None:
    try:
        _write_probe(folder)
    except OSError as error:
        return _BY_NUMBER.get(error.errno or 0)
    return None


def _write_probe(folder: Path) -> None:
    probe = folder / f".probe.{os.getpid()}"
    try:
        with probe.open("wb") as file:
            file.write(_PROBE)
    finally:
        probe.unlink(missing_ok=True)


def _sentence(state: str, place: Path) -> str:
    try:
        usage = shutil.disk_usage(place)
    except OSError:
        return f"the disk of {place} {state}"
    free, total = usage.free / _MEGABYTE, usage.total / _MEGABYTE
    return f"the disk of {place} {state} ({free:.1f} of {total:.1f} MB are free)"
