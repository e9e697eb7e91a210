"""Conversion of a file of utterances to another format."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from trainables import catalogue
from trainables.data.records import Part, Utterance
from trainables.errors import InvalidInput
from trainables.file_formats import Source


def convert(
    source: Source, to: Path, *, form: str, only: Part | None, skip_invalid: bool
) -> dict[str, Any]:
    """Write all records of a source, or one part; returns counts, and fields that the format lacks.

    Raises: InvalidInput for records that cannot be read, unless they are to be skipped, and for
        text that the format cannot represent; no file is then left.
    """
    entry = catalogue.entry("file_formats", form)
    counts = {"num_records": 0, "num_invalid": 0}
    fresh = to.with_name(f".{to.name}.partial{to.suffix}")
    try:
        records = _records(source, counts, only=only, skip_invalid=skip_invalid)
        entry.write(fresh, records, slots=source.has_slots)
        fresh.replace(to)
    finally:
        _remove(fresh)
    survey = source.survey
    had = {"part": survey.with_part, "group": survey.with_group}
    return {**counts, "lost": sorted(name for name in entry.LACKS if had.get(name))}


def _records(
    source: Source, counts: dict[str, int], *, only: Part | None, skip_invalid: bool
) -> Iterator[Utterance]:
    for found in source.utterances():
        if isinstance(found, Utterance):
            if only not in (None, found.part):
                continue
            counts["num_records"] += 1
            yield found
        elif skip_invalid:
            counts["num_invalid"] += 1
        else:
            raise InvalidInput(
                f"{found} (--skip-invalid leaves such records out; `sweep data check` lists them)"
            )


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
