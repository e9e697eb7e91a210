"""Writes a source of utterances as a corpus in this project's format, and counts its
records.

Where a file has no parts, a record's part depends on its text or its group alone. A
record that is added later moves no other one, equal texts are never in two parts, and a
group is never split.
"""

import csv
import hashlib
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TextIO

from sweep.imports.inspection import Inspection, inspect
from trainables.data.bio import slots_lenient
from trainables.data.datasets.json_lines import line
from trainables.data.formats import Source
from trainables.data.records import Part, Utterance
from trainables.data.storage import PARTS, normalise
from trainables.errors import InvalidData, InvalidInput

_PERSON = b"own data parts"  # separates this use of the hash from others
_SHARE = 10  # percent of the records for a part that the file lacks


def write_corpus(source: Source, path: Path, *, skip_invalid: bool) -> Inspection:
    """Write all records of a source as JSON lines; a missing part is split off the
    training part.

    Raises: as `write_lines`.
    """
    validation, test = (
        0 if part in source.survey.parts else _SHARE for part in PARTS[1:]
    )

    def with_part(utterance: Utterance) -> Utterance:
        if utterance.part != "train":
            return utterance
        part = part_of(utterance, validation=validation, test=test)
        return utterance if part == "train" else replace(utterance, part=part)

    return write_lines(
        source.located_utterances(),
        path,
        with_part,
        slots=source.has_slots,
        skip_invalid=skip_invalid,
    )


def write_lines(
    located: Iterable[tuple[str, Utterance | InvalidData]],
    path: Path,
    change: Callable[[Utterance], Utterance | None],
    *,
    slots: bool,
    skip_invalid: bool,
) -> Inspection:
    """Write records as JSON lines, or as a table by the name of the file, each as
    `change` makes it (None: it is left out), without tags unless there are slots; their
    counts.

    Raises: InvalidInput for records that cannot be read, unless they are to be skipped;
        no file is then left.
    """
    fresh = path.with_name(f".{path.name}.partial")

    def written(file: TextIO) -> Iterator[tuple[str, Utterance | InvalidData]]:
        table = csv.writer(file, lineterminator="\n")
        is_table = path.suffix.lower() == ".csv"
        if is_table:
            table.writerow(("text", "intent", "slots", "part", "group"))
        for where, found in located:
            changed = found if isinstance(found, InvalidData) else change(found)
            if isinstance(changed, Utterance) and is_table:
                table.writerow(_cells(changed))
            elif isinstance(changed, Utterance):
                file.write(line(changed, slots=slots))
            if changed is not None:
                yield where, changed

    try:
        with fresh.open("x", encoding="utf-8", newline="\n") as file:
            counted = inspect(written(file))
        if counted.num_problems and not skip_invalid:
            first, more = (
                next(iter(counted.problems.values()))[0],
                counted.num_problems - 1,
            )
            rest = f" (and {more} more; `sweep data check` lists them)" if more else ""
            raise InvalidInput(f"{first}{rest} (--skip-invalid leaves them out)")
        fresh.replace(path)
    finally:
        fresh.unlink(missing_ok=True)
    return counted


def _cells(utterance: Utterance) -> list[str]:
    """Text, intent, slots (name, first character, one past the last, text), part and
    group.
    """
    text, spans = " ".join(utterance.tokens), []
    for name, start, end in slots_lenient(utterance.tags):
        before, inside = utterance.tokens[:start], " ".join(utterance.tokens[start:end])
        first = len(" ".join((*before, "")))
        spans.append([name, first, first + len(inside), inside])
    slots = json.dumps(spans, ensure_ascii=False)
    return [text, utterance.intent, slots, utterance.part, utterance.group or ""]


def cut_of(source: Source) -> str:
    """Where the parts of a written corpus come from, in words."""
    parts = source.survey.parts
    missing = [part for part in PARTS if part not in parts]
    if not missing:
        return "as in the data"
    of = "all records" if set(parts) == {"train"} else "the training records"
    cut = " and ".join(
        f"{_SHARE} % of {of} for {part}" for part in missing if part != "train"
    )
    return f"{cut}, by a hash of each text or group"


def part_of(utterance: Utterance, *, validation: int, test: int) -> Part:
    """The part of a record: `validation` and `test` are percent of all, the rest
    trains.

    >>> part_of(Utterance(("hi",), ("O",), "greet"), validation=0, test=100)
    'test'
    """
    key = utterance.group
    text = f"text {normalise(utterance.tokens)}" if key is None else f"group {key}"
    digest = hashlib.blake2b(text.encode(), digest_size=8, person=_PERSON).digest()
    share = int.from_bytes(digest, "little") % 10_000 / 100
    if share < test:
        return "test"
    return "validation" if share < test + validation else "train"
