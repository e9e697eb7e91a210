"""A file with its format, its options and the survey of a first pass."""

import pickle
import re
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any

from trainables.data.formats import reading
from trainables.data.formats.fields import (
    Options,
    Record,
    SpanUnit,
    has_text,
    hint,
    record_of,
)
from trainables.data.formats.label_scheme import (
    Place,
    is_at_words,
    place_of,
    place_once,
    utterance_of,
)
from trainables.data.formats.marks import FORMS
from trainables.data.formats.names import TAG
from trainables.data.formats.paths import Column, leaves
from trainables.data.records import NO_INTENT, PART_NAMES, Part, Utterance
from trainables.data.tokenization import UNSPACED, Tokenization, places
from trainables.errors import InvalidData, InvalidInput
from trainables.io.files import without_problems

_FEW = 2  # records that say nothing about a file
_MOST_PATHS = 1_000  # fields that are followed
_SEEN = 100  # rows of which options are made
_PACKED = 1_000  # records that are kept together
_OWN = Options()
_FIELDS = [
    "text",
    "tokens",
    "tags",
    "slots",
    "intent",
    "part",
    "group",
]  # of our own forms


@dataclass
class Survey:
    """Counts of a file's records. `read` counts records by role and name of a field,
    `units` the spans that fit each unit, `values` those whose given text each unit
    gives, with `text` where the record has it once; `kinds` counts records, and names of
    slots, that look as if they were misread.
    """

    num_records: int = 0
    first_problem: InvalidData | None = None
    with_intent: int = 0
    with_slots: int = 0
    with_annotation: int = 0
    with_group: int = 0
    parts: set[Part] = field(default_factory=set)
    num_spans: int = 0
    units: Counter[SpanUnit] = field(default_factory=Counter)
    values: Counter[SpanUnit] = field(default_factory=Counter)
    nothing: Counter[str] = field(default_factory=Counter)
    kinds: Counter[str] = field(default_factory=Counter)
    read: Counter[tuple[str, str]] = field(default_factory=Counter)
    unread: dict[str, Column] = field(default_factory=dict)
    notes: Counter[str] = field(default_factory=Counter)

    @property
    def ignored(self) -> list[str]:
        """Names of the fields that are not read, sorted."""
        return sorted(self.unread)

    @property
    def overlooked(self) -> dict[str, Column]:
        """Fields that look like labels and are not read."""
        found = sorted(self.unread.items())
        return {name: each for name, each in found if each.option is not None}

    def unit(self, declared: SpanUnit | None) -> SpanUnit | None:
        """The unit of spans: as declared, else the one in which all of them have their
        given text, else `text` where each text is in its record once, else the unit of
        most, else the only one that fits all. Raises: InvalidInput where both do.
        """
        if declared is not None or self.num_spans == 0:
            return declared
        if self.values:
            best = max(_UNITS, key=lambda unit: self.values[unit])
            is_text = self.values[best] < self.num_spans == self.values["text"]
            return "text" if is_text else best
        tokens, characters = self.units["tokens"], self.units["characters"]
        if tokens == self.num_spans and characters == self.num_spans:
            raise InvalidInput(
                f"expected --spans tokens or --spans characters: both readings fit the"
                f" {self.num_spans} slots"
            )
        return "tokens" if tokens == self.num_spans else "characters"

    def add(self, record: Record, options: Options) -> None:
        """One record."""
        tokenize = options.tokenize
        self.num_records += 1
        self.with_intent += bool("".join(record.intents).strip())
        self.with_annotation += record.tags is not None or "slots" in record.read
        self.with_slots += bool(record.spans) or any(
            tag not in "Oo" for tag in record.tags or ()
        )
        self.with_group += record.group is not None
        self.nothing.update(record.nothing)
        part = (record.part or "").strip().lower()
        self.parts.add(PART_NAMES.get(part, "train"))
        self.read.update(record.read.items())
        for name, value in leaves(record.unread):
            if name not in self.unread:
                is_read = any(_is_part(name, given) for given in record.read.values())
                if is_read or len(self.unread) == _MOST_PATHS:
                    continue
                self.unread[name] = Column(name)
            self.unread[name].add(value)
        text = record.spaced_text
        words = text.split() if record.tokens is None else record.tokens
        self.kinds.update(_kinds(record, text, words, tokenize))
        if not record.spans:
            return
        self.num_spans += len(record.spans)
        found: list[Place] = []
        for span in record.spans:
            _, start, end, value = span
            self.units["tokens"] += 0 <= start < end <= len(words)
            if value is None:
                self.units["characters"] += 0 <= start < end <= len(text) and (
                    is_at_words((start, end), text, tokenize)
                )
                continue
            found, given = found or places(text), value.split()
            is_right = False
            for unit in _UNITS[: 3 if text.isascii() else 5]:
                place = place_of(span, text, found, unit)
                if place and text[slice(*place)].split() == given:
                    self.values[unit] += 1
                    is_right = True
            if place_once(value, text):
                self.values["text"] += 1
            self.notes["synonyms"] += not is_right and value.strip() not in text


@lru_cache(maxsize=10_000)
def _is_part(path: str, given: str) -> bool:
    """Whether an expression, or a field's name, reads what is at a path."""
    name = path.strip('"')
    return (
        name == given
        or path.startswith(f"{given}.")
        or bool(re.search(rf"(?<![\w.]){re.escape(path)}(?!\w)", given))
    )


def _kinds(
    record: Record, text: str, words: Sequence[str], tokenize: Tokenization
) -> Iterator[str]:
    """What a record looks like, where it may be misread: `counting` words, a `word`
    with tags (of those `tagged`), `unspaced` script in one token, `marks ...` in it,
    and `BIO names` of slots.
    """
    if words and words[0] in ("0", "1"):
        first = int(words[0])
        if list(words) == [str(first + n) for n in range(len(words))]:
            yield "counting"
    if record.tags is not None:
        yield "tagged"
        if len(words) == 1:
            yield "word"
        yield from ("BIO names" for tag in record.tags if TAG.fullmatch(tag[2:]))
    yield from ("BIO names" for span in record.spans if TAG.fullmatch(span.name))
    if record.tokens is None and tokenize != "characters" and not text.isascii():
        longest = max(words, key=len, default="")
        if len(longest) >= _LONG and UNSPACED.search(longest):
            yield "unspaced"
    if record.tokens is None and ("[" in text or "<" in text or "{" in text):
        for form, (_, pattern) in FORMS.items():
            if pattern.search(text):
                yield f"marks {form}"


_LONG = 8  # letters of a script without spaces, of which most words have two
# Of text in ASCII the first ones alone: the others count characters there.
_UNITS: tuple[SpanUnit, ...] = ("characters", "tokens", "last-token", "utf-16", "bytes")


@dataclass(frozen=True, kw_only=True)
class Source:
    """A file of utterances. `unit` is the unit of its spans; None without spans.
    `adjusted` counts the slots that the last pass extended or trimmed. `packed` holds
    the records of the survey in a quarter of their size, because reading them again
    costs three times as much.
    """

    path: Path
    files: list[reading.File]
    options: Options
    survey: Survey
    unit: SpanUnit | None
    packed: list[bytes] = field(repr=False)
    adjusted: Counter[str] = field(default_factory=Counter)

    @property
    def form(self) -> str:
        """The names of its formats."""
        return ", ".join(dict.fromkeys(file.form for file in self.files))

    @property
    def encodings(self) -> tuple[str, ...]:
        """The encodings of its files of text."""
        return tuple(
            dict.fromkeys(file.encoding for file in self.files if file.encoding)
        )

    @property
    def has_intents(self) -> bool:
        """Whether its records have intents."""
        return self.survey.with_intent > 0

    @property
    def has_slots(self) -> bool:
        """Whether some record is annotated with slots or tags."""
        return self.survey.with_annotation > 0

    def utterances(self) -> Iterator[Utterance | InvalidData]:
        """Every record as an utterance, or its problem, in the order of the file."""
        for _, found in self.located_utterances():
            yield found

    def located_utterances(self) -> Iterator[tuple[str, Utterance | InvalidData]]:
        """(file and line, utterance or problem) in the order of the file."""
        self.adjusted.clear()
        for record in _unpacked(self.packed):
            if isinstance(record, InvalidData):
                yield str(self.path), record
                continue
            where = record.where
            try:
                found = utterance_of(
                    record, options=self.options, unit=self.unit, adjusted=self.adjusted
                )
                if self.has_intents and found.intent == NO_INTENT:
                    raise InvalidData(
                        f"expected an intent in {where}, as in other records"
                    )
                if self.survey.with_group > 0 and found.group is None:
                    raise InvalidData(
                        f"expected a group in {where}, as in other records"
                    )
                yield where, found
            except InvalidData as problem:
                yield where, problem


def open_source(path: Path, *, options: Options, form: str | None = None) -> Source:
    """The source of a file or folder; its format is detected unless given.

    Raises: InvalidInput where no format fits, where the file has no record that can be
        read, or where spans can be read in two ways.
    """
    survey = Survey()
    files = reading.find(path, options, form, survey.notes)
    unread: list[dict[str, Any]] = []
    packed = list(_pack(_records(files, options, survey, unread)))
    if survey.num_records == 0:
        if survey.first_problem is not None:
            way = hint(options, unread) if unread else ""
            raise InvalidData(f"{survey.first_problem}{way}")
        raise InvalidInput(
            f"expected utterances in {path}, got an empty {files[0].form} file"
        )
    survey.notes += Counter()  # without zeros
    _require_words(path, survey, options)
    return Source(
        path=path,
        files=files,
        options=options,
        survey=survey,
        unit=survey.unit(options.spans),
        packed=packed,
    )


def _require_words(path: Path, survey: Survey, options: Options) -> None:
    """Raises: InvalidInput where what is taken for texts are numbers of words, or
    single words of texts, and where an option finds nothing in any record.
    """
    counting, tagged = survey.kinds["counting"], survey.kinds["tagged"]
    if 2 * counting > survey.num_records:
        raise InvalidInput(
            f"expected words in {path}, got 1, 2, 3 and so on in {counting} of"
            f" {survey.num_records} records (--text 2 names another column)"
        )
    if tagged > _FEW and survey.kinds["word"] == tagged:
        raise InvalidInput(
            f"expected sentences in {path}, got one word in each of {tagged} records"
            " with tags: the unit of privacy would be a word (a column numbers the"
            " sentences: `pandas.read_csv(FILE, sep=None, engine='python',"
            " na_values='', keep_default_na=False).ffill().groupby("
            "'COLUMN', sort=False).agg(list).to_json('mine.jsonl',"
            " orient='records', lines=True)` writes a sentence a line)"
        )
    for role, found in survey.nothing.items():
        if survey.num_records == found:
            raise InvalidInput(
                f"expected values of --{role} {getattr(options, role)} in {path}, got"
                f" none in {found} records"
            )


def own_utterances(files: Iterable[reading.File]) -> Iterator[Utterance]:
    """The utterances of files in forms of this project, in which spans count tokens and
    every field has its own name: all have an intent or a group, or none has. Raises:
    InvalidData with file and line for the first record that is not so, and for an empty
    file.
    """
    first: Utterance | None = None
    for file in files:
        is_empty = True
        for where, fields, part in without_problems(reading.rows([file])):
            if unknown := len(fields.keys() - {*_FIELDS}):
                raise InvalidData(
                    f"expected only the fields {', '.join(_FIELDS)} in {where}, got"
                    f" {unknown} more"
                )
            if ("text" in fields) == ("tokens" in fields):
                raise InvalidData(f"expected either text or tokens in {where}")
            if {"tags", "slots"} <= fields.keys():
                raise InvalidData(f"expected either tags or slots in {where}")
            record = record_of(
                fields, where=where, options=_OWN, notes=Counter(), part=part
            )
            utterance = utterance_of(
                record, options=_OWN, unit="tokens", adjusted=Counter()
            )
            first, is_empty = first or utterance, False
            for name in ("group", "intent"):
                if bool(getattr(first, name)) != bool(getattr(utterance, name)):
                    raise InvalidData(
                        f"expected {name} for every record or for none, {where} differs"
                        " from the records before"
                    )
            yield utterance
        if is_empty:
            raise InvalidData(f"expected utterances in {file.path}, got an empty file")


def _pack(records: Iterator[Record | InvalidData]) -> Iterator[bytes]:
    while some := list(islice(records, _PACKED)):
        yield zlib.compress(pickle.dumps(some), 1)


def _unpacked(packed: list[bytes]) -> Iterator[Record | InvalidData]:
    for some in packed:
        yield from pickle.loads(zlib.decompress(some))


def _records(
    files: list[reading.File],
    options: Options,
    survey: Survey,
    unread: list[dict[str, Any]],
) -> Iterator[Record | InvalidData]:
    """Every record of the files without its unread fields, or its problem, each added
    to the survey; `unread` receives some rows without a text.
    """
    for row in reading.rows(files):
        try:
            if isinstance(row, InvalidData):
                raise row
            where, fields, part = row
            if fields.get("answer") in ("reject", "ignore"):
                survey.notes["records whose answer is reject or ignore"] += 1
                continue
            record = record_of(
                fields, where=where, options=options, notes=survey.notes, part=part
            )
        except InvalidData as problem:
            survey.first_problem = survey.first_problem or problem
            if isinstance(row, reading.Row) and not has_text(row.fields, options):
                unread += [row.fields][: _SEEN - len(unread)]
            yield problem.with_traceback(None)
            continue
        survey.add(record, options)
        record.unread = {}
        if survey.num_records > reading.MOST_ROWS:
            raise InvalidInput(f"expected at most {reading.MOST_ROWS} records")
        yield record
