"""CSV or TSV with columns for text and intent, and perhaps BIO tags or spans.

text,intent,tags
call ann,call,O B-contact
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from trainables.data.records import NO_INTENT, Utterance
from trainables.errors import InvalidData, InvalidInput
from trainables.file_formats._fields import has_text, record_of
from trainables.file_formats._lines import first_line
from trainables.file_formats._record import Options, Record
from trainables.file_formats._rows import rows

LACKS: frozenset[str] = frozenset()
SUFFIX = ".csv"
_SUFFIXES = (".csv", ".tsv", ".tab")
_DELIMITERS = "\t,;|"
_COLUMNS = ("text", "intent", "tags", "slots", "part", "group")


def recognizes(path: Path) -> bool:
    """Whether the file's name ends in a known suffix."""
    return path.is_file() and path.suffix.lower() in _SUFFIXES


def read(path: Path, *, options: Options) -> Iterator[Record | InvalidData]:
    """A record a row.

    Raises: InvalidInput where no column is known to contain the text, or where the first line may
        be a record; InvalidData where the names of the columns cannot be read.
    """
    names: list[str] | None = None
    supposed: dict[int, str] = {}  # names by column, where no option says that there are names
    for found in rows(path, delimiter=_delimiter(path, first_line(path))):
        if isinstance(found, InvalidData):
            if names is None and options.header is not False:  # a record would be read as names
                raise found
            yield found
            continue
        where, row = found
        if not any(cell.strip() for cell in row):
            continue
        if names is None:
            has_names = _has_names(row, options, path)
            names = _names(row) if has_names else [str(n) for n in range(1, len(row) + 1)]
            if options.header is None and has_names:
                supposed = {place: name for place, name in enumerate(names) if _usual(name)}
            options = _by_name(options, names)
            if not has_text(dict.fromkeys(names), options):
                raise InvalidInput(_unknown(path, len(names)))
            if has_names:
                continue
        if len(row) != len(names):
            yield InvalidData(f"expected {len(names)} columns in {where}, got {len(row)}")
            continue
        if any(row[place].strip().lower() == name for place, name in supposed.items()):
            raise InvalidInput(
                f"expected --header or --no-header for {path}: a word of its first line, which may"
                f" be a column's name, comes again in {where}"
            )
        yield record_of(dict(zip(names, row, strict=True)), where=where, options=options)


def write(path: Path, utterances: Iterable[Utterance], *, slots: bool) -> None:
    """Write a new file with a header; a column that no record needs is left empty."""
    delimiter = "," if path.suffix.lower() == ".csv" else "\t"
    with path.open("x", encoding="utf-8", newline="") as file:
        out = csv.writer(file, delimiter=delimiter, lineterminator="\n")
        out.writerow(["tokens", *(["tags"] if slots else []), "intent", "part", "group"])
        for utterance in utterances:
            intent = "" if utterance.intent == NO_INTENT else utterance.intent
            tags = [" ".join(utterance.tags)] if slots else []
            words = " ".join(utterance.tokens)
            if words.startswith("["):  # which would be read as a list
                words = json.dumps(utterance.tokens, ensure_ascii=False)
            out.writerow([words, *tags, intent, utterance.part, utterance.group or ""])


def _delimiter(path: Path, first: str) -> str:
    if path.suffix.lower() != ".csv":
        return "\t"
    return max(_DELIMITERS, key=first.count) if any(d in first for d in _DELIMITERS) else ","


def _has_names(row: list[str], options: Options, path: Path) -> bool:
    """Whether the first line has the columns' names.

    Raises: InvalidInput where that is ambiguous, because names are printed and a record must not
        be mistaken for them.
    """
    if options.header is not None:
        return options.header
    if any(_usual(cell) for cell in row) or options.text in row:
        return True
    if options.text is not None:
        raise InvalidInput(
            f"expected --header or --no-header for {path}: no column of its first line has a usual"
            " name"
        )
    raise InvalidInput(_unknown(path, len(row)))


def _names(row: list[str]) -> list[str]:
    return [cell.strip().lower() if _usual(cell) else cell.strip() for cell in row]


def _usual(cell: str) -> bool:
    return has_text({cell.strip().lower(): ""}, Options()) or cell.strip().lower() in (
        "intent",
        "intents",
        "label",
        "category",
        "tags",
        "slots",
        "entities",
        "part",
        "split",
        "group",
    )


def _by_name(options: Options, names: list[str]) -> Options:
    """The names of columns that are given by number."""
    changed: dict[str, str] = {}
    for role in _COLUMNS:
        given: str | None = getattr(options, role)
        if given is None or given in names:
            continue
        if given.isdecimal() and 1 <= int(given) <= len(names):
            changed[role] = names[int(given) - 1]
        else:
            raise InvalidInput(
                f"expected --{role} to be a column's name or its number from 1 to {len(names)},"
                f" got {given!r}"
            )
    return replace(options, **changed)  # type: ignore[arg-type]


def _unknown(path: Path, count: int) -> str:
    # The first line may be a private record: it is not quoted.
    return (
        f"expected --text COLUMN (a name, or a number from 1 to {count}) for {path}, none of whose"
        " columns is named text, utterance or the like (--intent, --tags and --slots; --no-header"
        " where the first line is a record)"
    )
