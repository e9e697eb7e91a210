"""Files and folders as rows with named fields: which format it is, and what is in each
row.
"""

import codecs
import csv
import io
import json
import re
import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from itertools import chain, islice, takewhile, zip_longest
from pathlib import Path
from typing import Any, NamedTuple

import jmespath

from trainables.data.formats import rasa
from trainables.data.formats.fields import (
    Options,
    fields_of,
    has_text,
    hint,
    is_usual,
)
from trainables.data.formats.names import (
    NAMES,
    TAG,
)
from trainables.data.formats.paths import name_among
from trainables.data.records import PART_NAMES
from trainables.errors import InvalidData, InvalidInput, kind_of, words_of
from trainables.io.documents import DocumentProblem, parse_json
from trainables.io.files import file_lines, file_text, without_problems

_SUFFIXES = {
    **dict.fromkeys((".jsonl", ".ndjson"), "json_lines"),
    **dict.fromkeys((".csv", ".tsv", ".tab"), "table"),
    **dict.fromkeys((".xlsx", ".xlsm"), "excel"),
    **dict.fromkeys((".parquet", ".arrow", ".feather"), "parquet"),
    **dict.fromkeys((".yml", ".yaml", ".md"), "rasa"),
    ".json": "json",
}
_WAYS = {
    ".gz": ", which `gunzip` unpacks",
    ".zip": ", which `unzip` unpacks to a folder",
}
_TEXTS = (
    ".conll",
    ".conllu",
    ".iob",
    ".iob2",
    ".bio",
    ".txt",
    "",
)  # whose content decides
_MOST_BYTES = 1 << 30  # of a file that is held as a whole
MOST_ROWS = 10_000_000
_MOST_FILES, _MOST_LINES = 1_000, 100  # of a folder, of a row
BIO_NAMES = ("seq.in", "seq.out", "label")
_COMMENT = re.compile(r"#\s*(\w+)\s*[:=]\s*(.*?)\s*$")
_COMMENTS = {"intent": "intent", "label": "intent", "part": "part", "split": "part"}
_COMMENTS |= {"group": "group"}
_OWN_PART = re.compile(rf"(?:^|[^a-z])({'|'.join(PART_NAMES)})(?:[^a-z]|$)")
# What Windows-1252 has beside letters, in text.
_SIGNS = frozenset("\xa0¡¢£¥§©«®°±²³´·¹»¼½¾¿×÷€‚„…†‡ˆ‰‹‘’“”•–—˜™›ªº")
_CONVERT = (
    '`frame = pandas.DataFrame(records, columns=["text", "intent"])` and'
    ' `frame.to_json("mine.jsonl", orient="records", lines=True)` write what is read'
)


class Row(NamedTuple):
    """Named fields with their file and line, for messages, and the part that their file
    is.
    """

    where: str
    fields: dict[str, Any]
    part: str | None = None


Rows = Iterator[Row | InvalidData]
Cells = tuple[str, list[str]]  # file and line, values


@dataclass(frozen=True)
class File:
    """One file with its format, the encoding of its text (empty of a binary file) and
    the part that its name says.
    """

    path: Path
    form: str
    encoding: str = "utf-8"
    part: str | None = None
    is_old_mac: bool = False

    def text(self) -> str:
        """The whole file. Raises: InvalidData where it is too long or not in its
        encoding.
        """
        if self.is_old_mac:
            return replace(self, is_old_mac=False).text().replace("\r", "\n")
        if self.encoding == "utf-8":
            return file_text(self.path, max_bytes=_MOST_BYTES)
        if self.path.stat().st_size > _MOST_BYTES:
            raise InvalidData(
                f"expected at most {_MOST_BYTES} bytes in {self.path}, got more"
            )
        try:
            return self.path.read_bytes().decode(self.encoding).removeprefix("\ufeff")
        except UnicodeError:
            raise InvalidData(
                f"expected text in {self.encoding} in {self.path}"
            ) from None

    def lines(self) -> Iterator[tuple[str, str] | InvalidData]:
        """(file and line, line) or a problem."""
        if self.encoding == "utf-8" and not self.is_old_mac:
            return file_lines(self.path)
        return file_lines(
            self.path, opened=lambda _: nullcontext(io.BytesIO(self.text().encode()))
        )


def find(
    path: Path, options: Options, form: str | None, notes: Counter[str]
) -> list[File]:
    """The files to read: a file itself; of a folder those whose names say a part, or
    its only one, or all of Rasa NLU. `notes` counts the others.

    Raises: InvalidInput that says what was seen where no format fits, or several files
    do.
    """
    if form not in (None, *READERS):
        raise InvalidInput(
            f"expected --format to be one of {', '.join(READERS)}, got {form!r}"
        )
    if not path.exists():
        raise InvalidInput(f"expected a file or folder in {path}, got nothing there")
    if path.is_file():
        return [_file(path, options, form)]
    inside = sorted(islice(path.rglob("*"), _MOST_FILES + 1))
    if len(inside) > _MOST_FILES:
        raise InvalidInput(f"expected at most {_MOST_FILES} files in {path}, got more")
    folders = [file.parent for file in inside if file.name == BIO_NAMES[0]]
    if folders:
        files = [
            File(each, "bio_folder", part=_part_of(each, path)) for each in folders
        ]
        return sorted(files, key=_in_order)
    files, others = [], 0
    for each in inside:
        if not each.is_file() or each.name.startswith((".", "cache-")):
            continue
        try:
            if each.suffix.lower() == ".md" or each.name in _OF_TOOLS:
                raise InvalidInput("a description")
            files.append(replace(_file(each, options, form), part=_part_of(each, path)))
        except InvalidInput:
            others += 1
    if any(file.part for file in files):
        kept = [
            file
            for file in files
            if file.part or not any(f.part == "train" for f in files)
        ]
        others, files = others + len(files) - len(kept), kept
    elif len(files) > 1 and any(file.form != "rasa" for file in files):
        named = ", ".join(file.path.name for file in files[:5])
        raise InvalidInput(
            f"expected one file in {path}, or files named train, validation and test,"
            f" got {named}"
        )
    if not files:
        raise InvalidInput(
            f"expected a file of utterances in {path}, got {others} others"
        )
    notes["other files"] += others
    return sorted(files, key=_in_order)


_OF_TOOLS = (
    "dataset_info.json",
    "dataset_dict.json",
    "state.json",
    "dataset_infos.json",
)


def _in_order(file: File) -> tuple[int, Path]:
    parts = ["train", "validation", "test"]
    return parts.index(PART_NAMES[file.part]) if file.part else 0, file.path


def _part_of(file: Path, folder: Path) -> str | None:
    """The part that the name of a file or of a folder around it says, the nearest
    first.
    """
    for name in (file.stem, *reversed(file.relative_to(folder).parts[:-1])):
        if match := _OWN_PART.search(name.lower()):
            return match[1]
    return None


def _file(path: Path, options: Options, form: str | None) -> File:
    """Raises: InvalidInput with what was seen where no format fits."""
    suffix = path.suffix.lower()
    found = form or _SUFFIXES.get(suffix)
    if found in ("excel", "parquet"):
        return File(path, found, encoding="")
    file = File(path, found or "", options.encoding or _encoding(path))
    with path.open("rb") as opened:
        head = opened.read(1 << 16)
    file = replace(file, is_old_mac=b"\r" in head and b"\n" not in head)
    if found == "rasa" and form is None and not rasa.recognizes(file.text()):
        found, seen = None, f"a file {suffix} without nlu"
    elif found is None and suffix in _TEXTS:
        found, seen = _form_of_text(file), "text in no known form"
    elif found is None:
        seen = f"a file {suffix}{_WAYS.get(suffix, '')}"
    if found is None:
        seen = (
            "bytes that are no text" if b"\0" in head and suffix not in _WAYS else seen
        )
        raise InvalidInput(
            f"expected {path} to be one of {', '.join(READERS)}, got {seen} (--format"
            f" names it; {_CONVERT})"
        )
    if found == "json" and form is None and _is_json_lines(file):
        found = "json_lines"
    return replace(file, form=found)


def _encoding(path: Path) -> str:
    """UTF-8 also where some lines are damaged; UTF-16; Windows-1252 where nothing
    contradicts.
    """
    with path.open("rb") as opened:
        head = opened.read(1 << 16)
        if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            return "utf-16"
        for encoding, zeros in (("utf-16-le", head[1::2]), ("utf-16-be", head[::2])):
            if (
                zeros
                and zeros.count(0) > 0.6 * len(zeros)
                and head.count(0) < 1.1 * zeros.count(0)
            ):
                return encoding
    with (
        suppress(UnicodeDecodeError),
        path.open(encoding="utf-8", newline="\n") as lines,
    ):
        for _ in lines:
            pass
        return "utf-8"
    with path.open("rb") as opened:
        content = opened.read(_MOST_BYTES)
    high = content.translate(None, bytes(range(128)))
    if 0 in content or re.search(rb"[\xc2-\xf4][\x80-\xbf]", content):
        return "utf-8"
    try:
        signs = high.decode("cp1252")
    except UnicodeDecodeError:
        return "utf-8"
    is_western = all(
        (sign.isalpha() and sign != "ÿ") or sign in _SIGNS for sign in signs
    )
    return "cp1252" if is_western and 3 * len(high) < len(content) else "utf-8"


def _head(file: File, number: int = 20) -> list[str]:
    """The first lines that are not blank, up to one that cannot be read."""
    head: list[str] = []
    with suppress(InvalidData):
        for _, line in without_problems(file.lines()):
            head += [line] if line.strip() else []
            if len(head) == number:
                break
    return head


def _form_of_text(file: File) -> str | None:
    head = _head(file)
    first = next((x for x in head if not _is_comment(x) and _DOCUMENT not in x), "")
    row = _columns(first)
    if len(row) > 1 and TAG.fullmatch(row[-1]):
        return "conll"
    if first.startswith(_LABEL):
        return "fasttext"
    if first.lstrip().startswith(("{", "[")):
        return "json"
    return (
        "table" if "\t" in first and len({x.count("\t") for x in head}) == 1 else None
    )


def _is_json_lines(file: File) -> bool:
    head = _head(file, 2)
    try:
        return len(head) == 2 and all(
            isinstance(parse_json(line), dict) for line in head
        )
    except DocumentProblem:
        return False


def rows(files: Iterable[File], options: Options, notes: Counter[str]) -> Rows:
    """Every row of the files, or its problem, in order; `notes` counts what is not
    read.
    """
    for file in files:
        read = READERS[file.form](file, options, notes)
        if file.part is None:
            yield from read
            continue
        for row in read:
            yield (
                row._replace(part=row.part or file.part)
                if isinstance(row, Row)
                else row
            )


# ---- JSON


def _json_lines(file: File, options: Options, notes: Counter[str]) -> Rows:
    for found in file.lines():
        if isinstance(found, InvalidData):
            yield found
        elif found[1].strip():
            where, line = found
            try:
                yield _json_row(parse_json(line), where)
            except DocumentProblem as problem:
                yield InvalidData(f"expected a JSON object in {where}: {problem}")


def _json_row(
    value: Any, where: str, intent: str | None = None, part: str | None = None
) -> Row | InvalidData:
    try:
        fields = fields_of(value)
    except InvalidData as problem:
        return InvalidData(f"{problem} in {where}")
    if fields is None:
        return InvalidData(f"expected a JSON object in {where}, got {kind_of(value)}")
    return Row(where, fields if intent is None else {"intent": intent, **fields}, part)


def _json(file: File, options: Options, notes: Counter[str]) -> Rows:
    """The only list of records in the document, or a list a part, or an intent as Snips
    has them.

    Raises: InvalidData for a document without such lists, with what was seen.
    """
    try:
        document = parse_json(file.text())
    except DocumentProblem as problem:
        raise InvalidData(f"{problem} in {file.path}{problem.at}") from None
    if isinstance(document, dict) and has_text(document, options):
        document = [document]
    lists = list(_lists(document, (), lambda each: _is_record(each, options)))
    if document != [] and not lists:
        seen = kind_of(document)
        if isinstance(document, dict):
            seen = f"an object with the keys {_shown(document)}"
        elif isinstance(document, list) and isinstance(document[0], dict):
            seen = f"a list of objects with the keys {_shown(document[0])}"
        raise InvalidData(
            f"expected a list of records with a text in {file.path}, got {seen}"
            f"{hint(options, _objects(document))} ({_CONVERT})"
        )
    ends = [
        next((k for k in reversed(keys) if k != "utterances"), "") for keys, _ in lists
    ]
    parts = [_OWN_PART.search(end.lower()) for end in ends]
    in_parts = len(lists) > 1 and all(parts)
    firsts = [listed[:1] for _, listed in lists]
    by_intent = all(
        isinstance(each, dict) and isinstance(each.get("data"), list)
        for [each] in firsts
    )
    if len(lists) > 1 and not in_parts and not by_intent:
        shown = _shown([".".join(keys) for keys, _ in lists])
        raise InvalidData(
            f"expected one list of records in {file.path}, got {shown} ({_CONVERT})"
        )
    for (trail, listed), end, named in zip(lists, ends, parts, strict=True):
        at = " ".join((str(file.path), ".".join(trail))).strip()
        for number, value in enumerate(listed, start=1):
            intent, part = (
                end if by_intent and trail else None,
                named[1] if in_parts and named else None,
            )
            yield _json_row(value, f"{at} object {number}", intent, part)


def _shown(keys: Collection[str]) -> str:
    """Some keys, or their number where they may be texts of records."""
    is_plain = len(keys) <= 20 and all(
        re.fullmatch(r"[\w.:-]{1,40}", key) for key in keys
    )
    return ", ".join(list(keys)[:5]) if is_plain else f"({len(keys)} of them)"


def _lists(
    value: Any, keys: tuple[str, ...], accepts: Callable[[Any], bool]
) -> Iterator[tuple[tuple[str, ...], list[Any]]]:
    """Lists some of whose first items are accepted, with the keys to them."""
    if isinstance(value, list) and any(map(accepts, value[:20])):
        yield keys, value
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from _lists(inner, (*keys, key), accepts)


def _is_record(value: Any, options: Options) -> bool:
    try:
        fields = fields_of(value)
    except InvalidData:
        return False
    return fields is not None and has_text(fields, options)


def _objects(document: Any) -> list[Any]:
    """The longest list of objects in a document, or the document itself."""
    lists = _lists(document, (), lambda each: isinstance(each, dict))
    return max((listed for _, listed in lists), key=len, default=[document])


# ---- tables


def _table(file: File, options: Options, notes: Counter[str]) -> Rows:
    """A row of values a record. A quote that is never closed costs its own line: a
    parser of CSV alone takes everything behind it for one value, and records would be
    merged in silence.
    """
    return _with_names(_cells(file), file.path, options)


def _with_names(
    cells: Iterator[Cells | InvalidData], path: Path, options: Options
) -> Rows:
    """Rows by the names in the first one, or by number.

    Raises: InvalidInput where no column is known to contain the text, or where the
        first line may be a record; InvalidData where the names of the columns cannot be
        read.
    """
    names: list[str] | None = None
    supposed: dict[
        int, str
    ] = {}  # names by column, where no option says that there are names
    for found in cells:
        if isinstance(found, InvalidData):
            if (
                names is None and options.header is not False
            ):  # a record would be read as names
                raise found
            yield found
            continue
        where, row = found
        if not any(cell.strip() for cell in row):
            continue
        if names is None:
            has_names = _has_names(row, options, path)
            names = [str(number) for number in range(1, len(row) + 1)]
            if has_names:
                names = [cell.strip() for cell in row]
            if len(
                {name.lower() for name in names if is_usual(name)}
                | {name for name in names if not is_usual(name)}
            ) < len(names):
                raise InvalidInput(
                    f"expected each column of {path} to have a name of its own"
                )
            if options.header is None and has_names:
                supposed = {
                    place: name for place, name in enumerate(names) if is_usual(name)
                }
            _require_columns(options, tuple(names))
            if not has_text(dict.fromkeys(names), options):
                heads = (cell for cell in cells if isinstance(cell, tuple))
                some = [dict(zip(names, row, strict=False)) for _, row in heads]
                way = hint(options, some if has_names else ())
                raise InvalidInput(_unknown(path, len(names), way))
            if has_names:
                continue
        if len(row) != len(names):
            yield InvalidData(
                f"expected {len(names)} columns in {where}, got {len(row)}"
            )
        elif any(
            row[place].strip().lower() == name.lower()
            for place, name in supposed.items()
        ):
            raise InvalidInput(
                f"expected --header or --no-header for {path}: a word of its first"
                f" line, which may be a column's name, comes again in {where}"
            )
        else:
            yield Row(where, dict(zip(names, row, strict=True)))


def _has_names(row: list[str], options: Options, path: Path) -> bool:
    """Whether the first line has the columns' names. Raises: InvalidInput where that is
    ambiguous, because names are printed and a record must not be mistaken for them.
    """
    if options.header is not None:
        return options.header
    given = options.text or options.tokens
    if any(map(is_usual, row)) or (
        given and not given.isdecimal() and name_among(given, tuple(row))
    ):
        return True
    if options.text is not None:
        raise InvalidInput(
            f"expected --header or --no-header for {path}: no column of its first line"
            " has a usual name"
        )
    raise InvalidInput(_unknown(path, len(row)))


def _require_columns(options: Options, names: tuple[str, ...]) -> None:
    """Raises: InvalidInput for an option that is no column."""
    for role in NAMES:
        given: str | None = getattr(options, role, None)
        if given is not None and name_among(given, names) is None:
            raise InvalidInput(
                f"expected --{role} to be a column's name or its number from 1 to"
                f" {len(names)}, got {given!r}"
            )


def _unknown(path: Path, count: int, way: str = "") -> str:
    # The first line may be a private record: it is not quoted.
    return (
        f"expected --text COLUMN (a name, or a number from 1 to {count}) for {path},"
        " none of whose columns is named text, utterance or the like (--intent, --tags"
        f" and --slots; --no-header where the first line is a record){way}"
    )


def _cells(file: File) -> Iterator[Cells | InvalidData]:
    """(file and first line, values) of every row, in order, or the problem of a line. A
    quoted value may have line breaks, but not whole rows.
    """
    csv.field_size_limit(sys.maxsize)
    head = next(iter(_head(file, 1)), "")
    delimiter = (
        max(",\t;|", key=head.count) if file.path.suffix.lower() == ".csv" else "\t"
    )
    lines = list(file.lines())
    start = 0
    if said := re.fullmatch("sep=(.)", head):  # of Excel
        delimiter, start = said[1], 1
    while start < len(lines):
        first, cells = lines[start], None
        if isinstance(first, InvalidData):
            yield first
        else:
            near = takewhile(
                lambda each: isinstance(each, tuple), lines[start : start + _MOST_LINES]
            )
            with suppress(csv.Error):
                text = (f"{each[1]}\n" for each in near)  # type: ignore[index]
                cells = next(csv.reader(text, delimiter=delimiter, strict=True))
            if cells is not None and not _holds_rows(cells, delimiter):
                yield first[0], cells
                start += sum(cell.count("\n") for cell in cells)
            else:
                yield InvalidData(
                    f"expected a row of values in {first[0]}, got a quote that does not"
                    f" end a value"
                    " (a value with a quote is quoted, and the quote in it doubled)"
                )
        start += 1


def _holds_rows(cells: list[str], delimiter: str) -> bool:
    """Whether a value with line breaks reads as the rest of a row, and whole rows,
    before the beginning of one. People put a space behind a comma, rows of values do
    not.
    """
    for place, cell in enumerate(cells):
        first, *others = cell.split("\n")
        if not others:
            continue
        *whole, last = others
        counts = [line.count(delimiter) for line in (first, *whole, last)]
        expected = [len(cells) - 1 - place, *(len(cells) - 1 for _ in whole), place]
        if counts == expected and f"{delimiter} " not in cell:
            return True
    return False


def _excel(file: File, options: Options, notes: Counter[str]) -> Rows:
    """The only sheet with values, or a sheet a part.

    Raises: InvalidInput where the reader is not installed or there are several sheets.
    """
    import pandas as pd

    try:
        sheets = pd.read_excel(
            file.path,
            sheet_name=None,
            header=None,
            dtype=object,
            na_filter=False,
            engine="openpyxl",
        )
    except ImportError:
        raise InvalidInput(
            f"expected a reader of Excel files for {file.path} (pip install"
            " 'openpyxl>=3.1'), or the same table as CSV"
        ) from None
    except Exception as error:  # noqa: BLE001  whatever its reader raises for a damaged file
        raise InvalidData(
            f"expected an Excel file in {file.path}, got {type(error).__name__}"
        ) from None
    sheets = {str(name): sheet for name, sheet in sheets.items() if not sheet.empty}
    in_parts = all(name.lower() in PART_NAMES for name in sheets)
    if len(sheets) > 1 and not in_parts:
        named = ", ".join(list(sheets)[:5])
        raise InvalidInput(
            f"expected one sheet in {file.path}, or a sheet a part, got {named}"
        )
    for name, sheet in sheets.items():
        listed = enumerate(sheet.itertuples(index=False), start=1)
        cells = (
            (f"{file.path} {name} row {n}", [_cell(cell) for cell in row])
            for n, row in listed
        )
        for row in _with_names(cells, file.path, options):
            yield (
                row._replace(part=name if in_parts else None)
                if isinstance(row, Row)
                else row
            )


def _cell(value: Any) -> str:
    """A value as a sheet shows it: TRUE, a whole number, a day without a time."""
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value).removesuffix(" 00:00:00")


def _parquet(file: File, options: Options, notes: Counter[str]) -> Rows:
    """The rows of a Parquet or Arrow file; class labels of Hugging Face by their
    names.
    """
    import pyarrow
    import pyarrow.parquet

    number = 0
    try:
        if file.path.suffix.lower() == ".parquet":
            opened = pyarrow.parquet.ParquetFile(file.path)
            _require_rows(opened.metadata.num_rows, file.path)
            table = opened.read()
        else:
            mapped = pyarrow.memory_map(str(file.path))
            is_file = mapped.read(6) == b"ARROW1"
            mapped.seek(0)
            opened = (
                pyarrow.ipc.open_file(mapped)
                if is_file
                else pyarrow.ipc.open_stream(mapped)
            )
            table = opened.read_all()
            _require_rows(table.num_rows, file.path)
        classes = _classes(table.schema.metadata or {})
        for batch in table.to_batches(max_chunksize=1_000):
            for values in batch.to_pylist():
                number += 1
                named = {k: _class_name(v, classes.get(k)) for k, v in values.items()}
                yield Row(f"{file.path} row {number}", named)
    except (OSError, ValueError, pyarrow.ArrowException) as error:
        said = type(error).__name__ if number else words_of(error).split("\n")[0][:200]
        raise InvalidData(
            f"expected Parquet or Arrow in {file.path}, got {said}"
        ) from None


def _require_rows(number: int, path: Path) -> None:
    """Raises: InvalidInput for a small file of many equal rows, before they are read."""
    if number > MOST_ROWS:
        raise InvalidInput(
            f"expected at most {MOST_ROWS} rows in {path}, got {number}: a part of them"
            " is read from a file of its own"
        )


def _classes(metadata: dict[bytes, bytes]) -> dict[str, list[str]]:
    """The names of class labels by column, of single ones and of lists; of Hugging
    Face.
    """
    try:
        features = json.loads(metadata[b"huggingface"])["info"]["features"]
        found = {column: _NAMES.search(each) for column, each in features.items()}
    except (KeyError, ValueError, TypeError, AttributeError):
        return {}
    return {column: each for column, each in found.items() if isinstance(each, list)}


_NAMES = jmespath.compile("names || feature.names || [0].names")


def _class_name(value: Any, names: list[str] | None) -> Any:
    if names is None:
        return value
    if isinstance(value, list):
        return [_class_name(each, names) for each in value]
    if isinstance(value, int) and not isinstance(value, bool):
        return names[value] if 0 <= value < len(names) else None
    return value


# ---- lines of tokens


def _conll(file: File, options: Options, notes: Counter[str]) -> Rows:
    """A token a line with its tag in the last column, an empty line between records;
    comments intent, part and group. A record with a line that cannot be read is left
    out as a whole.
    """
    said: dict[str, Any] = {}
    tokens: list[list[str]] = []
    where, is_whole = "", True
    for found in chain(file.lines(), [("", "")]):
        if isinstance(found, InvalidData):
            yield found
            is_whole = False
            continue
        at, line = found
        if not line.strip():
            if tokens and is_whole:
                yield _of_tokens(tokens, said, where, options)
            tokens, said, is_whole = [], {}, True
        elif _is_comment(line):
            match = _COMMENT.match(line)
            if match and match[1].lower() in _COMMENTS and match[2]:
                said[_COMMENTS[match[1].lower()]] = match[2]
        elif not line.startswith(_DOCUMENT):
            where = where if tokens else at
            tokens.append(_columns(line))


_DOCUMENT, _LABEL = "-DOCSTART-", "__label__"


def _is_comment(line: str) -> bool:
    if not line.startswith("#") or "\t" in line:
        return False
    known = _COMMENT.match(line)
    # The token "#" has a tag behind it; a group may be called like one.
    return (known is not None and known[1].lower() in _COMMENTS) or not TAG.fullmatch(
        line.split()[-1]
    )


def _columns(line: str) -> list[str]:
    return [cell.strip() for cell in line.split("\t")] if "\t" in line else line.split()


def _of_tokens(
    tokens: list[list[str]],
    said: dict[str, Any],
    where: str,
    options: Options,
) -> Row | InvalidData:
    width = len(tokens[0])
    if width < 2 or any(len(row) != width for row in tokens):
        return InvalidData(
            f"expected the same columns for each token of the record at {where}"
        )
    names = [str(number) for number in range(1, width + 1)]
    if options.text is None and options.tokens is None:
        names[0] = "tokens"
    if options.tags is None:
        names[-1] = "tags"
    return Row(
        where,
        {**dict(zip(names, map(list, zip(*tokens, strict=True)), strict=True)), **said},
    )


def _fasttext(file: File, options: Options, notes: Counter[str]) -> Rows:
    for found in file.lines():
        if isinstance(found, InvalidData):
            yield found
        elif found[1].strip():
            names = re.findall(rf"{_LABEL}(\S+)", found[1])
            text = re.sub(rf"{_LABEL}\S+", "", found[1]).strip()
            yield Row(found[0], {"text": text, "intent": names})


def _bio_folder(file: File, options: Options, notes: Counter[str]) -> Rows:
    """`seq.in`, `seq.out` and `label` with a record a line, the latter two where they
    are there.
    """
    paths = dict(zip(("tokens", "tags", "intent"), BIO_NAMES, strict=True))
    there = {
        role: file.path / name
        for role, name in paths.items()
        if (file.path / name).is_file()
    }
    if len(there) == 1:
        yield InvalidData(f"expected seq.out or label in {file.path}, got neither")
        return
    found = zip_longest(*map(file_lines, there.values()))
    for number, lines in enumerate(found, start=1):
        read = {
            role: line[1]
            for role, line in zip(there, lines, strict=True)
            if isinstance(line, tuple)
        }
        if None in lines:
            short = list(there.values())[lines.index(None)]
            yield InvalidData(
                f"expected as many lines in {short} as in the files beside it, it ends"
                f" before line {number}"
            )
            return
        if len(read) < len(there):
            yield next(line for line in lines if isinstance(line, InvalidData))
        else:
            yield Row(f"{file.path / BIO_NAMES[0]} line {number}", read)


def _rasa(file: File, options: Options, notes: Counter[str]) -> Rows:
    for found in rasa.examples(file.path, file.text(), notes):
        yield found if isinstance(found, InvalidData) else Row(*found)


READERS: dict[str, Callable[[File, Options, Counter[str]], Rows]] = {
    "json_lines": _json_lines,
    "json": _json,
    "table": _table,
    "excel": _excel,
    "parquet": _parquet,
    "conll": _conll,
    "rasa": _rasa,
    "fasttext": _fasttext,
    "bio_folder": _bio_folder,
}
