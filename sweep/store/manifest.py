"""The manifest of the folder of an ended trial or of an export: the SHA-256 of every
final file, so that damage and edits are detected.
"""

import hashlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from sweep.store.files import MAX_BYTES, write_json
from trainables.errors import InvalidData, one_line
from trainables.io.disk import flush_tree
from trainables.io.files import file_text, make_folder

FILE = "manifest.json"
# Scores by the other trials; the page of an export, which people edit.
_LATER = frozenset({FILE, "attack_scores.npz", "README.md"})
_TRANSIENT = ("checkpoint", ".")
_LOOKED_AT = "privacy_card.json"  # what tables read


class FileMark(BaseModel):
    """A file's size in bytes and the SHA-256 of its content, in hex."""

    model_config = ConfigDict(frozen=True, strict=True)

    size: int
    sha256: str


class Manifest(BaseModel):
    """Files by their path under the folder, with `/` between names."""

    model_config = ConfigDict(frozen=True)

    files: dict[str, FileMark]


def write(folder: Path) -> None:
    """Write the manifest of all files in `folder`, once they are final and on the disk:
    their sizes and the SHA-256 of their content. Checkpoints, hidden files and scores
    that later trials change are left out.
    """
    flush_tree(folder)
    files = {
        name: {"size": path.stat().st_size, "sha256": _digest_of(path)}
        for name, path in _files(folder)
    }
    write_json(folder / FILE, {"files": files})


def exists(folder: Path) -> bool:
    """Whether `folder` has a manifest, as the folder of an ended trial and of an export
    has.
    """
    return (folder / FILE).is_file()


def differences(folder: Path, *, thorough: bool = True) -> tuple[str, ...]:
    """Differences from the manifest of `folder`, a phrase each. `thorough` False reads
    no large file: it compares sizes, and the content of the card, which tables read.

    Raises: InvalidData for a damaged manifest.
    """
    if not exists(folder):
        return (f"{FILE} is missing",)
    found = []
    for name, mark in _read(folder).items():
        path = os.path.join(folder, name)  # a Path costs ten times as much
        problem = ""
        if not os.path.isfile(path):  # nor is a name that is too long, or has NUL
            problem = "is missing"
        elif os.path.getsize(path) != mark.size:
            problem = "has another size"
        elif (thorough or name == _LOOKED_AT) and _digest_of(path) != mark.sha256:
            problem = "has another content"
        if problem:
            found.append(f"{one_line(name, characters=300)} {problem}")
    return tuple(found)


def unlisted(folder: Path, part: str) -> tuple[str, ...]:
    """Files under the subfolder `part` that the manifest of `folder` lacks: a loader
    may read them. Hidden ones are left out, and base weights, which users put there
    (`models._hub_lm`); none without a manifest.
    """
    if not exists(folder):
        return ()
    listed = _read(folder)
    return tuple(
        name
        for name, path in _files(folder)
        if name.startswith(f"{part}/")
        and not name.startswith(f"{part}/base/")
        and not path.name.startswith(".")
        and name not in listed
    )


def copy(folder: Path, target: Path) -> None:
    """Copy the files that the manifest of `folder` lists, and the manifest, into
    `target`, which gets them as they are listed or is not there. Files keep their
    modes.

    Raises: InvalidData as `require_whole`, for the copy.
    """
    fresh = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        make_folder(fresh)
        for name in (*_read(folder), FILE):
            make_folder((fresh / name).parent)
            shutil.copy(folder / name, fresh / name)
        require_whole(fresh)
        fresh.rename(target)
    except FileNotFoundError:
        require_whole(folder)
        raise
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def require_whole(folder: Path) -> None:
    """Require every file of `folder` to be as its manifest says, by size and content.

    Raises: InvalidData naming the first file that differs, or for a manifest that is
    missing or damaged.
    """
    found = differences(folder)
    if found:
        more = f" and {len(found) - 1} more" if len(found) > 1 else ""
        raise InvalidData(
            f"expected the files of {folder} as {FILE} has them, got a difference:"
            f" {found[0]}{more}; restore them from a copy"
        )


def _read(folder: Path) -> dict[str, FileMark]:
    place = folder / FILE
    try:
        files = Manifest.model_validate_json(
            file_text(place, max_bytes=MAX_BYTES)
        ).files
    except ValidationError:
        raise InvalidData(
            f"expected a manifest in {place}, got a damaged one: restore it from a copy"
        ) from None
    for name in files:
        if name.startswith("/") or ".." in name.split("/"):
            raise InvalidData(
                f"expected names under the folder in {place}, got another"
            )
    return files


def _files(folder: Path) -> Iterator[tuple[str, Path]]:
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder)
        top = name.parts[0]
        if path.is_file() and top not in _LATER and not top.startswith(_TRANSIENT):
            yield name.as_posix(), path


def _digest_of(path: str | Path) -> str:
    with open(path, "rb", buffering=0) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
