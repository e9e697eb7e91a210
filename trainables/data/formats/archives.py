"""Compressed files and archives, unpacked for as long as they are read."""

import gzip
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from trainables.errors import InvalidData, InvalidInput
from trainables.io.files import DAMAGED

_MOST_BYTES = 2 << 30  # unpacked
_MOST_FILES = 1_000


@contextmanager
def unpacked(path: Path) -> Iterator[Path]:
    """The file in `path.gz`, or the folder in `path.zip` (its file, where there is only
    one); else the path itself. Problems name the archive instead of the place where it
    is unpacked.

    Raises: InvalidData for a damaged one, or one with too many bytes or files.
    """
    suffix = path.suffix.lower()
    if suffix not in (".gz", ".zip") or not path.is_file():
        yield path
        return
    with tempfile.TemporaryDirectory() as folder:
        try:
            inside = _unpack(path, Path(folder))
        except (*DAMAGED, RuntimeError):  # the latter of one with a password
            raise InvalidData(f"expected an archive without damage in {path}") from None
        try:
            yield inside
        except InvalidInput as problem:
            raise type(problem)(str(problem).replace(folder, str(path))) from None


def _unpack(path: Path, folder: Path) -> Path:
    """The file or folder in an archive, written under `folder`."""
    with ExitStack() as stack:
        members: dict[str, Any]
        if path.suffix.lower() == ".gz":
            members = {path.stem: stack.enter_context(gzip.open(path))}
        else:
            archive = stack.enter_context(zipfile.ZipFile(path))
            names = [
                each.filename
                for each in archive.infolist()
                if not each.is_dir() and not each.filename.startswith("__MACOSX/")
            ]
            if len(names) > _MOST_FILES:
                raise InvalidData(f"expected at most {_MOST_FILES} files in {path}")
            members = {name: stack.enter_context(archive.open(name)) for name in names}
        if not members:
            raise InvalidData(f"expected a file in {path}, got an empty archive")
        room = _MOST_BYTES
        for name, member in members.items():
            place = (folder / name).resolve()
            if not place.is_relative_to(folder.resolve()):
                raise InvalidData(f"expected no paths out of the archive in {path}")
            place.parent.mkdir(parents=True, exist_ok=True)
            with place.open("wb") as file:
                while content := member.read(1 << 20):
                    room -= len(content)
                    if room < 0:
                        raise InvalidData(
                            f"expected at most {_MOST_BYTES} bytes in {path}, got more"
                        )
                    file.write(content)
    return place if len(members) == 1 else folder
