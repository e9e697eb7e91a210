"""BIO folder: `seq.in`, `seq.out` and `label` with a record a line, in one folder or one a part.

Without `label` there are slots alone, without `seq.out` intents alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from itertools import zip_longest
from pathlib import Path
from typing import IO

from trainables.data.bio_files import NAMES
from trainables.data.records import NO_INTENT, Part, Utterance
from trainables.errors import InvalidData
from trainables.file_formats._record import PARTS, Options, Record
from trainables.files import file_lines

LACKS: frozenset[str] = frozenset({"group"})
SUFFIX = ""
_FOLDERS: dict[Part, str] = {"train": "train", "validation": "dev", "test": "test"}
_Line = tuple[str, str] | InvalidData | None


def recognizes(path: Path) -> bool:
    """Whether it is a folder with `seq.in`, or its parts are."""
    return any((folder / NAMES[0]).is_file() for folder in _folders(path))


def read(path: Path, *, options: Options) -> Iterator[Record | InvalidData]:
    """The records of all parts, in the order train, dev, test."""
    for folder, part in _folders(path).items():
        if not (folder / NAMES[0]).is_file():
            continue
        files = [folder / name for name in NAMES]
        if not any(file.is_file() for file in files[1:]):
            yield InvalidData(f"expected {NAMES[1]} or {NAMES[2]} in {folder}, got neither")
            continue
        columns = [file_lines(file) if file.is_file() else None for file in files]
        there = [column for column in columns if column is not None]
        for row in zip_longest(*there):
            found = iter(row)
            cells = [None if column is None else next(found) for column in columns]
            ended = [c is not None and cell is None for c, cell in zip(columns, cells, strict=True)]
            if any(ended):
                short = files[ended.index(True)]
                yield InvalidData(
                    f"expected as many lines in {short} as in the files beside it, it ends before"
                )
                break
            yield _record(cells, part)


def write(path: Path, utterances: Iterable[Utterance], *, slots: bool) -> None:
    """Write a new folder with one folder a part."""
    path.mkdir()
    files: dict[Path, IO[str]] = {}
    with ExitStack() as stack:
        for utterance in utterances:
            folder = path / _FOLDERS[utterance.part]
            folder.mkdir(exist_ok=True)
            lines_of = {NAMES[0]: utterance.tokens}
            if slots:
                lines_of[NAMES[1]] = utterance.tags
            if utterance.intent != NO_INTENT:
                lines_of[NAMES[2]] = (utterance.intent,)
            for name, words in lines_of.items():
                file = folder / name
                if file not in files:
                    opened = file.open("x", encoding="utf-8", newline="\n")
                    files[file] = stack.enter_context(opened)
                files[file].write(" ".join(words) + "\n")


def _folders(path: Path) -> dict[Path, str | None]:
    """Folders of records and the parts that their names give."""
    if not path.is_dir():
        return {}
    parts = {path / name: part for name, part in PARTS.items() if (path / name).is_dir()}
    return dict(parts) if parts else {path: None}


def _record(cells: list[_Line], part: str | None) -> Record | InvalidData:
    bad = next((cell for cell in cells if isinstance(cell, InvalidData)), None)
    if bad is not None:
        return bad
    words, tags, label = (cell if isinstance(cell, tuple) else None for cell in cells)
    assert words is not None  # the first file is there
    return Record(
        where=words[0],
        tokens=tuple(words[1].split()),
        tags=None if tags is None else tuple(tags[1].split()),
        intents=() if label is None else (label[1],),
        part=part,
    )
