"""Corpora in the form of aligned files, a user's own and public ones."""

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from trainables.data.configs import FrameFiles
from trainables.data.formats.reading import BIO_NAMES, File
from trainables.data.formats.source import own_utterances
from trainables.data.records import PART_NAMES, Part, Utterance
from trainables.errors import InvalidData


def folders(path: Path) -> dict[Path, Part]:
    """The folders that hold a corpus: its parts, or `path` itself, all of it training
    data.

    Raises: InvalidData where there is none, or one of the three files of a folder is
    missing.
    """
    if not path.is_dir():
        raise InvalidData(
            f"expected a folder with {', '.join(BIO_NAMES)} in {path}, got"
            f" {'a file' if path.exists() else 'nothing there'} (see data.path,"
            f" SWEEP_DATA_DIR)"
        )
    found = {
        path / name: part for name, part in PART_NAMES.items() if (path / name).is_dir()
    }
    if not found:
        found = {path: "train"}
    for folder in found:
        for name in BIO_NAMES:
            if not (folder / name).is_file():
                raise InvalidData(f"expected the file {name} in {folder}, got none")
    return found


class BioFiles(FrameFiles):
    """A corpus in three aligned files, `seq.in`, `seq.out` and `label`, a record a
    line, in one folder or one a part.
    """

    def files(self, path: Path) -> tuple[Path, ...]:
        """As `DataConfig.files`."""
        return tuple(folder / name for folder in folders(path) for name in BIO_NAMES)

    def read(self, path: Path) -> Iterator[Utterance]:
        """All parts. Raises: InvalidData with file and line, see `own_utterances`."""
        return own_utterances(
            File(folder, "bio_folder", part=part)
            for folder, part in folders(path).items()
        )


class BioFolder(BioFiles):
    """A user's own corpus in the form `seq.in` / `seq.out` / `label`, in one folder or
    one a part.
    """

    place = "bio_folder"

    name: Literal["bio_folder"] = "bio_folder"
