"""The common form `seq.in` / `seq.out` / `label`: three aligned files, one utterance a line."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path

from trainables.data.records import Part, Utterance, size_problem
from trainables.errors import InvalidData
from trainables.files import file_lines, without_problems

NAMES = ("seq.in", "seq.out", "label")
_Line = tuple[str, str]  # file and line, for messages; its text
# Folders of the official parts, by the names that the field gives them.
PART_FOLDERS: dict[str, Part] = {
    "train": "train",
    "dev": "validation",
    "valid": "validation",
    "validation": "validation",
    "test": "test",
}


def folders(path: Path) -> dict[Path, Part]:
    """The folders that hold a corpus: its parts, or `path` itself, all of it training data.

    Raises: InvalidData where there is none, or one of the three files of a folder is missing.
    """
    if not path.is_dir():
        raise InvalidData(
            f"expected a folder with {', '.join(NAMES)} in {path}, got"
            f" {'a file' if path.exists() else 'nothing there'} (see data.path, SWEEP_DATA_DIR)"
        )
    found = {path / name: part for name, part in PART_FOLDERS.items() if (path / name).is_dir()}
    if not found:
        found = {path: "train"}
    for folder in found:
        for name in NAMES:
            if not (folder / name).is_file():
                raise InvalidData(f"expected the file {name} in {folder}, got none")
    return found


def files(path: Path) -> tuple[Path, ...]:
    """All files of the corpus in `path`, in the order in which they are read."""
    return tuple(folder / name for folder in folders(path) for name in NAMES)


def read(path: Path) -> Iterator[Utterance]:
    """The utterances of all parts, in the order train, dev, test.

    Raises: InvalidData with file and line for files of different length, a line without tokens or
    with another number of tags than tokens, a tag that is not BIO, bad UTF-8, an empty file.
    """
    for folder, part in folders(path).items():
        columns = (without_problems(file_lines(folder / name)) for name in NAMES)
        number = 0
        for number, row in enumerate(zip_longest(*columns), start=1):
            if None in row:
                short = NAMES[row.index(None)]
                raise InvalidData(
                    f"expected as many lines in {folder / short} as in the files beside it,"
                    f" it ends before line {number}"
                )
            yield _utterance(*row, part=part)
        if number == 0:
            raise InvalidData(f"expected utterances in {folder / NAMES[0]}, got an empty file")


def _utterance(text: _Line, tag_line: _Line, label: _Line, *, part: Part) -> Utterance:
    tokens, tags, intent = text[1].split(), tag_line[1].split(), label[1].strip()
    if not tokens:
        raise InvalidData(f"expected tokens in {text[0]}, got an empty line")
    if (problem := size_problem(tokens)) is not None:
        raise InvalidData(f"{problem} in {text[0]}")
    if len(tags) != len(tokens):
        raise InvalidData(
            f"expected {len(tokens)} tags in {tag_line[0]}, one per token, got {len(tags)}"
        )
    if not intent:
        raise InvalidData(f"expected an intent in {label[0]}, got none")
    require_bio(tags, where=tag_line[0])
    return Utterance(tuple(tokens), tuple(tags), intent, part)


def require_bio(tags: list[str], *, where: str) -> None:
    """Raises: InvalidData where a tag is neither O nor B- or I- with a name."""
    for position, tag in enumerate(tags, start=1):
        if tag != "O" and not (tag[:2] in ("B-", "I-") and len(tag) > 2):
            raise InvalidData(
                f"expected O, B-name or I-name in {where}, tag {position} is none of them"
            )
