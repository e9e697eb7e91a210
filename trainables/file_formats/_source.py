"""A file with its format, its options and the survey of a first pass."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from trainables import catalogue
from trainables.data.records import NO_INTENT, Utterance
from trainables.errors import InvalidData, InvalidInput
from trainables.file_formats._record import Options, Record, SpanUnit, token_spans, utterance_of
from trainables.file_formats._survey import Survey, survey
from trainables.files import TO_UTF_8, file_lines

_SHELF = "file_formats"


@dataclass(frozen=True, kw_only=True)
class Source:
    """A file of utterances. `unit` is the unit of its spans; None without spans."""

    path: Path
    form: str
    options: Options
    survey: Survey
    unit: SpanUnit | None

    @property
    def has_intents(self) -> bool:
        """Whether its records have intents."""
        return self.survey.with_intent > 0

    @property
    def has_slots(self) -> bool:
        """Whether some record is annotated with slots or tags."""
        return self.survey.with_slots > 0

    def utterances(self) -> Iterator[Utterance | InvalidData]:
        """Every record as an utterance, or its problem, in the order of the file."""
        for _, found in self.located_utterances():
            yield found

    def located_utterances(self) -> Iterator[tuple[str, Utterance | InvalidData]]:
        """(file and line, utterance or problem) in the order of the file."""
        for record in records(self.path, self.form, self.options):
            if isinstance(record, InvalidData):
                yield str(self.path), record
                continue
            try:
                yield record.where, self._utterance(record)
            except InvalidData as problem:
                yield record.where, problem

    def _utterance(self, record: Record) -> Utterance:
        utterance = utterance_of(record, options=self.options, unit=self.unit)
        if self.has_intents and utterance.intent == NO_INTENT:
            raise InvalidData(f"expected an intent in {record.where}, as in other records")
        if self.survey.with_group > 0 and utterance.group is None:
            raise InvalidData(f"expected a group in {record.where}, as in other records")
        return utterance

    def num_snapped(self) -> int:
        """Number of slots that begin or end inside a token and are extended to it."""
        if self.unit != "characters":
            return 0
        total = 0
        for record in records(self.path, self.form, self.options):
            if isinstance(record, Record) and record.spans:
                try:
                    total += token_spans(record, tokenize=self.options.tokenize)[1]
                except InvalidData:
                    continue  # reported where it is read
        return total


def open_source(path: Path, *, options: Options, form: str | None = None) -> Source:
    """The source of a file or folder; its format is detected unless given.

    Raises: InvalidInput where no format or several fit, where the file has no record that can be
        read, or where spans can be read in two ways; InvalidData where no format fits text that is
        not UTF-8.
    """
    if not path.exists():
        raise InvalidInput(f"expected a file or folder in {path}, got nothing there")
    name = form or _form_of(path)
    found = survey(records(path, name, options), tokenize=options.tokenize)
    if found.num_records == 0:
        if found.first_problem is not None:
            raise found.first_problem
        raise InvalidInput(f"expected utterances in {path}, got an empty {name} file")
    return Source(
        path=path, form=name, options=options, survey=found, unit=found.unit(options.spans)
    )


def records(path: Path, form: str, options: Options) -> Iterator[Record | InvalidData]:
    """Every record of a file, or its problem."""
    found: Iterator[Record | InvalidData] = catalogue.entry(_SHELF, form).read(
        path, options=options
    )
    return found


def _form_of(path: Path) -> str:
    names = catalogue.names(_SHELF)
    found = [name for name in names if catalogue.entry(_SHELF, name).recognizes(path)]
    if len(found) == 1:
        return found[0]
    if not found and path.is_file():
        _require_utf_8(path)
    said = " and ".join(found) if found else "none"
    raise InvalidInput(
        f"expected {path} to have one of the formats {', '.join(names)}, got {said}"
        " (--format names it)"
    )


def _require_utf_8(path: Path) -> None:
    """Raises: InvalidData that names the first line of a file of text that is not UTF-8. One with
    NUL in its beginning is no text, or in an encoding that has no lines of bytes.
    """
    with path.open("rb") as file:
        is_text = b"\0" not in file.read(1 << 16)
    for found in file_lines(path) if is_text else ():
        if isinstance(found, InvalidData) and str(found).endswith(TO_UTF_8):
            raise found
