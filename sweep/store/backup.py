"""A home in one archive, and back.

The archive is a tar file, compressed by gzip and readable by its owner alone, because
it holds the home's secret key. Its first member is `backup.json` (`Contents`): every
file with its size and the SHA-256 of its content. It has the ledger with its key and
hashes, and the sweeps with their vaults and checkpoints; not the cache, which is made
again, nor MLflow's store, which `sweep resume` fills again.

A restored home that is older than the one it replaces forgets what was spent since,
and nothing inside of it can show that.
"""

from __future__ import annotations

import hashlib
import io
import os
import secrets
import shutil
import tarfile
import time
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path, PurePosixPath

from pydantic import BaseModel, ConfigDict, ValidationError

from sweep.store import sweeps as store
from sweep.store.files import require_new_file
from sweep.store.manifest import FileMark
from trainables.errors import InvalidData, InvalidInput, one_line
from trainables.io.disk import flush
from trainables.io.files import make_folder
from trainables.system import locks

VERSION = 1
_CONTENTS = "backup.json"
_KIND = "dp-nlu-sweep home"
_LARGEST = 1 << 28  # bytes of the list of contents
_LEFT_OUT = ("cache", "mlartifacts", "mlruns")
_LEFT_OUT_PREFIXES = (".", "mlflow.", "mlflow-server.")
_LOCKS = (".lock", "/lock", "/stop")
_CHUNK = 1 << 20


class Contents(BaseModel):
    """The files of a backup by their names under the home; `made` in seconds since
    1970.
    """

    model_config = ConfigDict(frozen=True, strict=True)

    kind: str
    version: int
    made: float
    files: dict[str, FileMark]

    @property
    def num_sweeps(self) -> int:
        """The number of sweeps whose log it has."""
        return sum(
            name.count("/") == 1 and name.endswith(f"/{store.LOG}")
            for name in self.files
        )


def back_up(home: Path, to: Path) -> Contents:
    """Write a new archive of a home, of which no sweep runs meanwhile.

    Raises: InvalidInput for an archive that exists or would be inside of the home, a
        home without a ledger or a sweep, a sweep that runs, and a link.
    """
    require_new_file(to)
    if home.resolve() in to.resolve().parents:
        raise InvalidInput(f"expected a file outside of the home {home}, got {to}")
    fresh = to.with_name(f".{to.name}.{os.getpid()}")
    _require_no_link(home)
    with _at_rest(home):
        files = dict(_files(home))
        if not files:
            raise InvalidInput(f"expected a home with a sweep or a ledger, got {home}")
        marks = {name: _mark(path) for name, path in files.items()}
        contents = Contents(kind=_KIND, version=VERSION, made=time.time(), files=marks)
        try:
            descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                with tarfile.open(fileobj=file, mode="w:gz") as archive:
                    text = contents.model_dump_json().encode()
                    _add(archive, _CONTENTS, len(text), io.BytesIO(text))
                    for name, path in files.items():
                        with path.open("rb") as content:
                            _add(archive, name, marks[name].size, content)
                file.flush()
                os.fsync(file.fileno())
            fresh.replace(to)
        finally:
            fresh.unlink(missing_ok=True)
    flush(to.parent)
    return contents


def _add(archive: tarfile.TarFile, name: str, size: int, content: io.IOBase) -> None:
    info = tarfile.TarInfo(name)
    info.size, info.mode = size, 0o600
    archive.addfile(info, content)


def restore(home: Path, archive: Path) -> Contents:
    """Write the files of a backup into a home that is missing or empty, whole or not at
    all, readable by their owner alone.

    Raises: InvalidInput for a home with files, an archive that is missing, none of a
        home, or of another version; InvalidData for one that is cut or changed, or has
        a name outside of the home.
    """
    if home.exists() and any(home.iterdir()):
        raise InvalidInput(
            f"expected a home that is empty or missing, got {home} with files: set"
            " SWEEP_HOME to a new folder (two ledgers cannot be joined)"
        )
    make_folder(home.parent)
    fresh = home.with_name(f".{home.name}.{secrets.token_hex(8)}")
    try:
        fresh.mkdir(mode=0o700)
        with _members(archive) as (contents, members):
            left = dict(contents.files)
            for name, content in members:
                mark = left.pop(name, None)
                if mark is None:
                    raise _damaged(archive, f"{quoted(name)} is not in its list")
                _extract(content, fresh / name, mark, archive)
            if left:
                raise _damaged(archive, f"{quoted(next(iter(left)))} is missing")
        if home.exists():
            home.rmdir()
        fresh.rename(home)
        flush(home.parent)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
    return contents


def quoted(name: str) -> str:
    """A name in a message."""
    return one_line(name, characters=100)


@contextmanager
def _members(
    place: Path,
) -> Iterator[tuple[Contents, Iterator[tuple[str, io.BufferedIOBase]]]]:
    """The list of an archive, and its other members, each with its content.

    Raises: InvalidInput, InvalidData as `restore`.
    """
    try:
        with tarfile.open(place, mode="r|gz") as archive:
            first = archive.next()
            if first is None or first.name != _CONTENTS or first.size > _LARGEST:
                raise InvalidInput(
                    f"expected a backup of a home (`sweep home backup`), got {place}"
                )
            content = archive.extractfile(first)
            contents = _contents(content.read() if content else b"", place)
            yield contents, _content_of(archive, place)
    except FileNotFoundError as missing:
        raise InvalidInput(f"no file {missing.filename}") from None
    except (
        *(tarfile.TarError, EOFError, zlib.error),
        *(FileExistsError, NotADirectoryError),  # a name below a file's
    ) as problem:
        raise _damaged(place, one_line(str(problem), characters=100)) from None


def _content_of(
    archive: tarfile.TarFile, place: Path
) -> Iterator[tuple[str, io.BufferedIOBase]]:
    while (member := archive.next()) is not None:
        content = archive.extractfile(member) if member.isreg() else None
        if content is None:
            raise _damaged(place, f"{quoted(member.name)} is no file")
        yield member.name, content  # type: ignore[misc]


def _contents(text: bytes, place: Path) -> Contents:
    try:
        found = Contents.model_validate_json(text)
    except ValidationError:
        raise _damaged(place, f"its {_CONTENTS}") from None
    if found.kind != _KIND or found.version != VERSION:
        raise InvalidInput(
            f"expected a backup of version {VERSION}, got {found.version} in {place}:"
            " restore it with the version of sweep that made it, then `sweep home"
            " upgrade`"
        )
    for name in found.files:
        parts = PurePosixPath(name).parts
        if not parts or name.startswith("/") or ".." in parts or "\0" in name:
            raise _damaged(place, f"{quoted(name)} is outside of the home")
    return found


def _extract(
    content: io.BufferedIOBase, to: Path, mark: FileMark, archive: Path
) -> None:
    for folder in reversed(to.parents):  # each for its owner alone
        folder.mkdir(mode=0o700, exist_ok=True)
    digest, size = hashlib.sha256(), 0
    descriptor = os.open(to, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        while size <= mark.size and (part := content.read(_CHUNK)):
            size += len(part)
            digest.update(part)
            file.write(part)
        file.flush()
        os.fsync(file.fileno())
    if size != mark.size or digest.hexdigest() != mark.sha256:
        raise _damaged(archive, f"{quoted(to.name)} has another content")


def _damaged(place: Path, problem: str) -> InvalidData:
    return InvalidData(
        f"expected a whole backup in {place}, got a cut or changed one ({problem}):"
        " nothing was restored; take another copy of it"
    )


@contextmanager
def _at_rest(home: Path) -> Iterator[None]:
    """Hold the locks of the sweeps of a home, then that of its ledger.

    Raises: InvalidInput where a sweep runs.
    """
    with ExitStack() as held:
        for folder in store.sweeps(home):
            folder.require_at_rest()
            with suppress(InvalidData):  # a damaged sweep is backed up as it is
                held.enter_context(folder.hold_lock())
        if (home / "ledger.jsonl").exists():
            held.enter_context(locks.alone(home / "ledger.lock"))
        yield


def _require_no_link(home: Path) -> None:
    """Raises: InvalidInput for a link, behind which other files are."""
    for name, path in _paths(home):
        if path.is_symlink():
            raise InvalidInput(
                f"expected files and folders in {home}, got the link {quoted(name)}:"
                " move what it leads to into the home"
            )


def _files(home: Path) -> Iterator[tuple[str, Path]]:
    """The files of a backup by their names, sorted."""
    for name, path in _paths(home):
        is_lock = name.endswith(_LOCKS)
        if path.is_file() and not is_lock and "/vault/cache/" not in f"/{name}":
            yield name, path


def _paths(home: Path) -> Iterator[tuple[str, Path]]:
    for top in sorted(home.iterdir()) if home.is_dir() else ():
        if top.name in _LEFT_OUT or top.name.startswith(_LEFT_OUT_PREFIXES):
            continue
        for path in [top, *sorted(top.rglob("*"))] if top.is_dir() else [top]:
            name = path.relative_to(home).as_posix()
            yield name, path


def _mark(path: Path) -> FileMark:
    with path.open("rb", buffering=0) as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return FileMark(size=path.stat().st_size, sha256=digest)
