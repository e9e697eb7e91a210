"""CoNLL: a token a line with its tag in the last column, an empty line between records.

    # intent: call
    call    O
    ann     B-contact

The comments intent, part and group are optional; other comments are not read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from trainables.data.records import NO_INTENT, Utterance
from trainables.errors import InvalidData, InvalidInput
from trainables.file_formats._lines import first_lines
from trainables.file_formats._record import Options, Record
from trainables.files import file_lines

LACKS: frozenset[str] = frozenset()
SUFFIX = ".conll"
_SUFFIXES = (".conll", ".iob", ".iob2", ".bio", ".txt")
_COMMENT = re.compile(r"#\s*(\w+)\s*[:=]\s*(.*?)\s*$")
_READ = ("intent", "label", "part", "split", "group")
_TAG = re.compile(r"O|[BI]-\S+")
_DOCUMENT = "-DOCSTART-"


def recognizes(path: Path) -> bool:
    """Whether its first token has a BIO tag in its last column."""
    if path.suffix.lower() not in _SUFFIXES:
        return False
    for line in first_lines(path):
        if not _is_comment(line) and _DOCUMENT not in line:
            columns = _columns(line)
            return len(columns) > 1 and _TAG.fullmatch(columns[-1]) is not None
    return False


def read(path: Path, *, options: Options) -> Iterator[Record | InvalidData]:
    """The records in the order of the file; `where` is a record's first line. A record with a line
    that cannot be read is left out as a whole.
    """
    text, tag = (
        _place(name, given) for name, given in (("text", options.text), ("tags", options.tags))
    )
    said: dict[str, str] = {}
    rows: list[list[str]] = []
    where = f"{path} line 1"
    is_whole = True
    for found in file_lines(path):
        if isinstance(found, InvalidData):
            yield found
            is_whole = False
            continue
        at, line = found
        if not line.strip():
            if rows and is_whole:
                yield _record(rows, said, where, text, tag)
            rows, said, is_whole = [], {}, True
        elif _is_comment(line):
            if match := _COMMENT.match(line):
                said[match[1].lower()] = match[2]
        elif not line.startswith(_DOCUMENT):
            where = where if rows else at
            rows.append(_columns(line))
    if rows and is_whole:
        yield _record(rows, said, where, text, tag)


def write(path: Path, utterances: Iterable[Utterance], *, slots: bool) -> None:
    """Write a new file; without `slots` every tag is O."""
    with path.open("x", encoding="utf-8", newline="\n") as file:
        for utterance in utterances:
            if utterance.intent != NO_INTENT:
                file.write(f"# intent: {utterance.intent}\n")
            file.write(f"# part: {utterance.part}\n")
            if utterance.group is not None:
                file.write(f"# group: {utterance.group}\n")
            rows = zip(utterance.tokens, utterance.tags, strict=True)
            file.write("".join(f"{token}\t{tag}\n" for token, tag in rows) + "\n")


def _place(option: str, given: str | None) -> int:
    """The column of tokens or tags: the first and the last, or by number from 1."""
    if given is None:
        return 0 if option == "text" else -1
    if not given.isdecimal() or int(given) == 0:
        raise InvalidInput(f"expected --{option} to be a column's number from 1, got {given!r}")
    return int(given) - 1


def _is_comment(line: str) -> bool:
    if not line.startswith("#") or "\t" in line:
        return False
    known = _COMMENT.match(line)
    # The token "#" has a tag behind it; a group may be called like one.
    return (known is not None and known[1].lower() in _READ) or not _TAG.fullmatch(line.split()[-1])


def _columns(line: str) -> list[str]:
    return [cell.strip() for cell in line.split("\t")] if "\t" in line else line.split()


def _record(
    rows: list[list[str]], said: dict[str, str], where: str, text: int, tag: int
) -> Record | InvalidData:
    widths = {len(row) for row in rows}
    if len(widths) > 1 or max(text, tag) >= min(widths) or min(widths) < 2:
        return InvalidData(f"expected the same columns for each token of the record at {where}")
    intent = said.get("intent") or said.get("label")
    return Record(
        where=where,
        tokens=tuple(row[text] for row in rows),
        tags=tuple(row[tag] for row in rows),
        intents=(intent,) if intent else (),
        part=said.get("part") or said.get("split") or None,
        group=said.get("group") or None,
    )
