"""Compressed files and archives, unpacked for as long as they are read."""

import gzip
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

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
    if path.suffix.lower() == ".gz":
        place = folder / path.stem
        with gzip.open(path) as member, place.open("wb") as file:
            while content := member.read(1 << 20):
                file.write(content)
                _require_size(file.tell(), path)
        return place
    with zipfile.ZipFile(path) as archive:  # which writes nothing outside of the folder
        members = [
            each
            for each in archive.infolist()
            if not each.is_dir() and not each.filename.startswith("__MACOSX/")
        ]
        if not 0 < len(members) <= _MOST_FILES:
            raise InvalidData(f"expected 1 to {_MOST_FILES} files in {path}")
        _require_size(sum(each.file_size for each in members), path)
        places = [archive.extract(each, folder) for each in members]
    return Path(places[0]) if len(places) == 1 else folder


def _require_size(size: int, path: Path) -> None:
    if size > _MOST_BYTES:
        raise InvalidData(f"expected at most {_MOST_BYTES} bytes in {path}, got more")
