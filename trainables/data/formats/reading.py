"""Files and folders as rows with named fields: which format it is, and what is in each
row.
"""

import codecs
import csv
import io
import json
import re
import sys
import zipfile
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import chain, groupby, islice, takewhile, tee, zip_longest
from pathlib import Path
from typing import IO, Any, NamedTuple

import jmespath

from trainables.data.formats import rasa
from trainables.data.formats.fields import Options, has_text, hint, is_usual, numbered
from trainables.data.formats.names import EITHER, NAMES, SENTENCE, TAG, listed
from trainables.data.formats.paths import name_among, suggested
from trainables.data.formats.shapes import records_of
from trainables.data.records import PART_NAMES
from trainables.errors import InvalidData, InvalidInput, kind_of, words_of
from trainables.io.documents import DocumentProblem, parse_json
from trainables.io.files import (
    DAMAGED,
    file_lines,
    file_text,
    open_packed,
    without_problems,
)

_SUFFIXES = {
    suffix: form
    for form, suffixes in {
        "json_lines": ".jsonl .ndjson",
        "table": ".csv .tsv .tab",
        "excel": ".xlsx .xlsm",
        "parquet": ".parquet .arrow .feather",
        "rasa": ".yml .yaml .md",
        "json": ".json",
        "brat": ".ann",
    }.items()
    for suffix in suffixes.split()
}
# Whose content decides.
_TEXTS = {"", *[".conll", ".conllu", ".iob", ".iob2", ".bio", ".txt"]}
_MOST_BYTES = 1 << 30  # of a file that is held as a whole
MOST_ROWS = 10_000_000
_MOST_FILES, _MOST_LINES = 10_000, 100  # of a folder, of a row
# Folders of Dialogflow (ES and CX) and Lex with a file an intent, which its path says.
_OF_AN_INTENT = re.compile(
    r"([^/]+)(?:_usersays_[\w-]+|/trainingPhrases/[\w-]+|/Intent)\.json$"
)
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


_USUAL = Options()


@dataclass(frozen=True)
class File:
    """One file with its format, the encoding of its text (empty of a binary file), the
    part that its name says and how it is read; `notes` counts what is not read.
    """

    path: Path
    form: str
    encoding: str = "utf-8"
    part: str | None = None
    is_old_mac: bool = False
    options: Options = _USUAL
    notes: Counter[str] = field(default_factory=Counter)

    def open(self, path: Path | None = None) -> IO[bytes]:
        """Its bytes, of text in UTF-8 with line feeds; or those of a file beside it."""
        file = open_packed(path or self.path)
        if self.encoding in ("", "utf-8") and not self.is_old_mac:
            return file
        try:
            with file:
                text = _bounded(file, self.path).decode(self.encoding)
        except UnicodeError:
            raise InvalidData(
                f"expected text in {self.encoding} in {self.path}"
            ) from None
        return io.BytesIO(
            (text.replace("\r", "\n") if self.is_old_mac else text).encode()
        )

    def text(self) -> str:
        """The whole file. Raises: InvalidData where it is too long or not in its
        encoding.
        """
        return file_text(self.path, max_bytes=_MOST_BYTES, opened=self.open)

    def lines(self) -> Iterator[tuple[str, str] | InvalidData]:
        """(file and line, line) or a problem."""
        return file_lines(self.path, opened=self.open)


def _bounded(file: IO[bytes], path: Path) -> bytes:
    """The whole content. Raises: InvalidData where it is too long."""
    content = file.read(_MOST_BYTES + 1)
    if len(content) > _MOST_BYTES:
        raise _too_long(path)
    return content


def _too_long(path: Path) -> InvalidData:
    return InvalidData(f"expected at most {_MOST_BYTES} bytes in {path}, got more")


def find(
    path: Path, options: Options, form: str | None, notes: Counter[str]
) -> list[File]:
    """The files to read: a file itself; of a folder or an archive those whose names say
    a part, or its only one, or all of Rasa NLU, of BRAT, or of intents. `notes` counts
    the others.

    Raises: InvalidInput that says what was seen where no format fits, or several files
    do.
    """
    if form not in (None, *READERS):
        raise InvalidInput(
            f"expected --format to be one of {', '.join(READERS)}, got {form!r}"
        )
    if not path.exists():
        raise InvalidInput(f"expected a file or folder in {path}, got nothing there")
    given = File(path, form or "", options=options, notes=notes)
    if path.is_file() and path.suffix.lower() != ".zip":
        return [_detected(given)]
    inside = _inside(path)
    folders = [file.parent for file in inside if file.name == BIO_NAMES[0]]
    if folders:
        files = [
            replace(given, path=each, form="bio_folder", part=_part_of(each, path))
            for each in folders
        ]
        return sorted(files, key=_in_order)
    some = [each for each in inside if _OF_AN_INTENT.search(each.as_posix())]
    if annotated := [each for each in inside if each.suffix == ".ann"]:
        some, inside = annotated, [x for x in inside if x.suffix != ".txt"]
    if some:
        notes["other files"] += len(inside) - len(some)
        return [_detected(replace(given, path=each)) for each in some]
    files = []
    for each in inside:
        with suppress(InvalidInput):
            if each.suffix.lower() != ".md" and each.name not in _OF_TOOLS:
                part = _part_of(each, path)
                files.append(_detected(replace(given, path=each, part=part)))
    in_parts = [file for file in files if file.part]
    if any(file.part == "train" for file in files):
        files = in_parts
    elif len(files) > 1 and not in_parts and {x.form for x in files} != {"rasa"}:
        named = ", ".join(file.path.name for file in files[:5])
        raise InvalidInput(
            f"expected one file in {path}, or files named train, validation and test,"
            f" got {named}"
        )
    others = len(inside) - len(files)
    if not files:
        raise InvalidInput(
            f"expected a file of utterances in {path}, got {others} others"
        )
    notes["other files"] += others
    return sorted(files, key=_in_order)


def _inside(path: Path) -> list[Path]:
    """The files in a folder or an archive .zip."""
    try:
        if path.is_dir():
            found = (each for each in path.rglob("*") if each.is_file())
        else:
            with zipfile.ZipFile(path) as archive:
                names = archive.namelist()
            found = (path / x.lstrip("/") for x in names if not x.endswith("/"))
        files = sorted(islice(found, _MOST_FILES + 1))
    except DAMAGED as error:
        raise InvalidData(f"cannot read {path}: {type(error).__name__}") from None
    if len(files) > _MOST_FILES:
        raise InvalidInput(f"expected at most {_MOST_FILES} files in {path}, got more")
    hidden = (".", "cache-", "__MACOSX")
    return [
        file
        for file in files
        if not any(x.startswith(hidden) for x in file.relative_to(path).parts)
    ]


_OF_TOOLS = [
    "dataset_info.json",
    "dataset_dict.json",
    "state.json",
    "dataset_infos.json",
]


def _in_order(file: File) -> tuple[int, Path]:
    parts = ["train", "validation", "test"]
    return parts.index(PART_NAMES[file.part]) if file.part else 0, file.path


def _part_of(file: Path, folder: Path) -> str | None:
    """The part that the name of a file or of a folder around it says, the nearest
    first.
    """
    names = (file.stem, *reversed(file.relative_to(folder).parts[:-1]))
    return next(filter(None, map(_part_in, names)), None)


def _part_in(name: str) -> str | None:
    match = _OWN_PART.search(name.lower())
    return match[1] if match else None


def _detected(file: File) -> File:
    """A file with its format, unless given, and its encoding.

    Raises: InvalidInput with what was seen where no format fits.
    """
    path, suffix, given = file.path, _suffix(file.path), file.form
    found = given or _SUFFIXES.get(suffix)
    if found in ("excel", "parquet"):
        return replace(file, form=found, encoding="")
    try:
        with open_packed(path) as opened:
            head = opened.read(1 << 16)
        encoding = file.options.encoding or _encoding(path, head)
    except DAMAGED as error:
        raise InvalidData(f"cannot read {path}: {type(error).__name__}") from None
    is_old_mac = b"\r" in head and b"\n" not in head
    file = replace(file, encoding=encoding, is_old_mac=is_old_mac)
    seen = f"a file {suffix}"
    if not given and found == "rasa" and not rasa.recognizes(file.text()):
        found, seen = None, f"a file {suffix} without nlu"
    elif found is None and suffix in _TEXTS:
        found, seen = _form_of_text(file), "text in no known form"
    if found is None:
        seen = "bytes that are no text" if b"\0" in head else seen
        raise InvalidInput(
            f"expected {path} to be one of {', '.join(READERS)}, got {seen} (--format"
            f" names it; {_CONVERT})"
        )
    if found == "json" and not given and _is_json_lines(file):
        found = "json_lines"
    return replace(file, form=found)


def _suffix(path: Path) -> str:
    """The end of its name, which says its format; without .gz."""
    lowered = Path(path.name.lower())
    return (Path(lowered.stem) if lowered.suffix == ".gz" else lowered).suffix


def _encoding(path: Path, head: bytes) -> str:
    """UTF-8 also where some lines are damaged; UTF-16; Windows-1252 where nothing
    contradicts.
    """
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    for encoding, zeros in (("utf-16-le", head[1::2]), ("utf-16-be", head[::2])):
        number = zeros.count(0)
        if number > 0.6 * len(zeros) and head.count(0) < 1.1 * number:
            return encoding
    is_packed = _suffix(path) != path.suffix.lower() or not path.is_file()
    with suppress(UnicodeDecodeError), open_packed(path) as opened:
        text = io.TextIOWrapper(opened, "utf-8", newline="")
        while text.read(1 << 20):
            if is_packed and opened.tell() > _MOST_BYTES:
                raise _too_long(path)
        return "utf-8"
    with open_packed(path) as opened:
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
    if len(row) > 1 and (TAG.fullmatch(row[-1]) or _is_universal(row)):
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


def rows(files: Iterable[File]) -> Rows:
    """Every row of the files, or its problem, in order."""
    for file in files:
        yield from _of_part(READERS[file.form](file), file.part)


def _of_part(rows: Rows, part: str | None) -> Rows:
    """Rows of a file or a sheet, with the part that it is unless they say their own."""
    for row in rows:
        if part is not None and isinstance(row, Row) and row.part is None:
            row = row._replace(part=part)
        yield row


# ---- JSON


def _each_line(file: File, read: Callable[[str, str], Rows]) -> Rows:
    """What `read` makes of each line that is not blank."""
    for found in file.lines():
        if isinstance(found, InvalidData):
            yield found
        elif found[1].strip():
            yield from read(*found)


def _json_lines(file: File) -> Rows:
    def read(where: str, line: str) -> Rows:
        try:
            yield from _json_rows(parse_json(line), where)
        except DocumentProblem as problem:
            yield InvalidData(f"expected a JSON object in {where}: {problem}")

    return _each_line(file, read)


def _json_rows(
    value: Any,
    where: str,
    intent: str = "",
    part: str | None = None,
) -> Rows:
    try:
        found = records_of(value)
    except InvalidData as problem:
        yield InvalidData(f"{problem} in {where}")
        return
    if found is None:
        yield InvalidData(f"expected a JSON object in {where}, got {kind_of(value)}")
        return
    for fields in found:
        yield Row(where, {"intent": intent, **fields} if intent else fields, part)


def _json(file: File) -> Rows:
    """The only list of records in the document, or a list a part, or an intent as Snips
    has them.

    Raises: InvalidData for a document without such lists, with what was seen.
    """
    options = file.options
    try:
        document = parse_json(file.text())
    except DocumentProblem as problem:
        raise InvalidData(f"{problem} in {file.path}{problem.at}") from None
    if isinstance(document, dict) and _is_record(document, options):
        document = [document]
    classes = _classes(document)
    of_path = _OF_AN_INTENT.search(file.path.as_posix())
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
    # The last key to a list may be the name of a part, or of an intent as of Snips.
    ends = [next((k for k in keys[::-1] if k != "utterances"), "") for keys, _ in lists]
    parts = [_part_in(end) for end in ends]
    in_parts = len(lists) > 1 and all(parts)
    by_intent = all(
        isinstance(first, dict) and isinstance(first.get("data"), list)
        for _, (first, *_) in lists
    )
    if len(lists) > 1 and not in_parts and not by_intent:
        shown = _shown([".".join(keys) for keys, _ in lists])
        raise InvalidData(
            f"expected one list of records in {file.path}, got {shown} ({_CONVERT})"
        )
    for (keys, values), end, part in zip(lists, ends, parts, strict=True):
        at = " ".join((str(file.path), ".".join(keys))).strip()
        intent = of_path[1] if of_path else end if by_intent else ""
        for number, value in enumerate(values, start=1):
            where = f"{at} object {number}"
            for row in _json_rows(value, where, intent, part if in_parts else None):
                yield _with_classes(row, classes)


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
        found = records_of(value)
    except InvalidData:
        return False
    return found is not None and all(has_text(each, options) for each in found)


def _objects(document: Any) -> list[Any]:
    """The longest list of objects in a document, or the document itself."""
    lists = _lists(document, (), lambda each: isinstance(each, dict))
    return max((listed for _, listed in lists), key=len, default=[document])


# ---- tables


def _table(file: File) -> Rows:
    """A row of values a record. A quote that is never closed costs its own line: a
    parser of CSV alone takes everything behind it for one value, and records would be
    merged in silence.
    """
    return _sentences(_with_names(_cells(file), file), file.options)


def _sentences(rows: Rows, options: Options) -> Rows:
    """Rows of a table; where one column numbers sentences and others have a word and
    its tag, a row a sentence. An empty number is that of the row before.
    """
    rows, ahead = tee(rows)
    first = next((row for row in ahead if isinstance(row, Row)), None)
    del ahead  # it keeps every row
    names = tuple(first.fields) if first else ()
    sentence = _column(names, None, SENTENCE)
    word = _column(names, options.tokens or options.text, NAMES["tokens"])
    tag = _column(names, options.tags, (*NAMES["tags"], *EITHER))
    if not (first and sentence and word and tag) or " " in first.fields[word]:
        yield from rows
        return
    number = ""

    def key(row: Row | InvalidData) -> str:
        nonlocal number
        if isinstance(row, Row):
            number = row.fields[sentence].strip() or number
        return number

    for _, group in groupby(rows, key):
        found = list(group)
        tokens = [row for row in found if isinstance(row, Row)]
        yield from (row for row in found if isinstance(row, InvalidData))
        if len(tokens) == len(found):
            fields = {**tokens[0].fields, word: [row.fields[word] for row in tokens]}
            del fields[tag]
            fields[options.tags or "tags"] = [row.fields[tag] for row in tokens]
            yield tokens[0]._replace(fields=fields)


def _column(
    names: tuple[str, ...], own: str | None, usual: Iterable[str]
) -> str | None:
    """The column of an option, or else the first one with a usual name."""
    given = [own] if own else usual
    return next(filter(None, (name_among(each, names) for each in given)), None)


def _with_names(cells: Iterator[Cells | InvalidData], file: File) -> Rows:
    """Rows by the names in the first one, or by number.

    Raises: InvalidInput where the first line may be a record; InvalidData where the
        names of the columns cannot be read.
    """
    path, options = file.path, file.options
    names: list[str] = []
    # Names by column, where no option says that there are names.
    supposed: dict[int, str] = {}
    for found in cells:
        if isinstance(found, InvalidData):
            if not names and options.header is not False:
                raise found  # a record would be read as names
            yield found
            continue
        where, row = found
        if not any(cell.strip() for cell in row):
            continue
        if not names:
            has_names = _has_names(row, options, path, cells)
            names = [str(number) for number in range(1, len(row) + 1)]
            if has_names:
                names = [cell.strip() for cell in row]
            if len({name.lower() for name in names}) < len(names):
                raise InvalidInput(
                    f"expected each column of {path} to have a name of its own"
                )
            if has_names:
                if options.header is None:
                    supposed = {n: x for n, x in enumerate(names) if is_usual(x)}
                continue
        if len(row) != len(names):
            yield InvalidData(
                f"expected {len(names)} columns in {where}, got {len(row)}"
            )
        elif any(row[n].strip().lower() == x.lower() for n, x in supposed.items()):
            raise InvalidInput(
                f"expected --header or --no-header for {path}: a word of its first"
                f" line, which may be a column's name, comes again in {where}"
            )
        else:
            yield Row(where, dict(zip(names, row, strict=True)))


def _has_names(
    row: list[str],
    options: Options,
    path: Path,
    behind: Iterator[Cells | InvalidData],
) -> bool:
    """Whether the first line has the columns' names. Raises: InvalidInput where that is
    ambiguous, because names are printed and a record must not be mistaken for them: it
    shows options made of the lines `behind` it.
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
    cells = (dict(enumerate(each, 1)) for _, each in without_problems(behind))
    others = list(islice(cells, _MOST_LINES))
    is_record = any(
        listed(cell) is not cell or cell in (other.get(n) for other in others)
        for n, cell in enumerate(row, 1)
        if cell
    )
    found = suggested({str(k): v for k, v in each.items()} for each in others)
    header = "--no-header" if is_record else "--header"
    # The first line may be a private record: it is not quoted.
    raise InvalidInput(
        f"expected --text COLUMN (a name, or a number from 1 to {len(row)}) for {path},"
        " none of whose columns is named text, utterance or the like (--intent, --tags"
        " and --slots; --no-header where the first line is a record)"
        f"{found and f' (try {header} {found})'}"
    )


def _cells(file: File) -> Iterator[Cells | InvalidData]:
    """(file and first line, values) of every row, in order, or the problem of a line. A
    quoted value may have line breaks, but not whole rows.
    """
    csv.field_size_limit(sys.maxsize)
    head = next(iter(_head(file, 1)), "")
    delimiter = max(",\t;|", key=head.count) if _suffix(file.path) == ".csv" else "\t"
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


def _excel(file: File) -> Rows:
    """The only sheet with values, or a sheet a part.

    Raises: InvalidInput where the reader is not installed or there are several sheets.
    """
    import pandas as pd

    try:
        with file.open() as opened:
            sheets = pd.read_excel(
                opened,
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
        found = _sentences(_with_names(cells, file), file.options)
        yield from _of_part(found, name if in_parts else None)


def _cell(value: Any) -> str:
    """A value as a sheet shows it: TRUE, a whole number, a day without a time."""
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value).removesuffix(" 00:00:00")


def _parquet(file: File) -> Rows:
    """The rows of a Parquet or Arrow file; class labels of Hugging Face by their
    names.
    """
    import pyarrow
    import pyarrow.parquet

    number = 0
    try:
        with file.open() as whole:
            content = _bounded(whole, file.path)
        if content.startswith(b"PAR1"):
            opened = pyarrow.parquet.ParquetFile(pyarrow.py_buffer(content))
            _require_rows(opened.metadata.num_rows, file.path)
            table = opened.read()
        else:
            is_file = content.startswith(b"ARROW1")
            read = pyarrow.ipc.open_file if is_file else pyarrow.ipc.open_stream
            table = read(content).read_all()
            _require_rows(table.num_rows, file.path)
        known = (table.schema.metadata or {}).get(b"huggingface", b"{}")
        classes = _classes(jmespath.search("info", json.loads(known)))
        for batch in table.to_batches(max_chunksize=1_000):
            for values in batch.to_pylist():
                number += 1
                yield _with_classes(Row(f"{file.path} row {number}", values), classes)
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


def _classes(document: Any) -> dict[str, list[str]]:
    """The names of class labels by column, as Hugging Face describes them."""
    features = jmespath.search("features", document)
    if isinstance(features, list):
        features = {x.get("name"): x for x in features if isinstance(x, dict)}
    if not isinstance(features, dict):
        return {}
    found = {column: _CLASSES.search(each) for column, each in features.items()}
    return {column: each for column, each in found.items() if isinstance(each, list)}


_CLASSES = jmespath.compile("(type || @) | (names || feature.names || [0].names)")


def _with_classes(
    row: Row | InvalidData, classes: dict[str, list[str]]
) -> Row | InvalidData:
    if isinstance(row, InvalidData) or not classes:
        return row
    fields = {k: numbered(v, classes.get(k)) for k, v in row.fields.items()}
    return row._replace(fields=fields)


# ---- lines of tokens


def _conll(file: File) -> Rows:
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
                yield _of_tokens(tokens, said, where, file.options)
            tokens, said, is_whole = [], {}, True
        elif _is_comment(line):
            match = _COMMENT.match(line)
            if match and match[1].lower() in _COMMENTS and match[2]:
                said[_COMMENTS[match[1].lower()]] = match[2]
        elif not line.startswith(_DOCUMENT):
            where = where if tokens else at
            row = _columns(line)
            if _is_universal(row) and not row[0].isdecimal():
                file.notes["tokens of several words, or of none"] += 1
            else:
                tokens.append(row)


_SAID = re.compile(rf"#\s*(\w+\s*=|({'|'.join(_COMMENTS)})\s*:)", re.IGNORECASE)
_DOCUMENT, _LABEL = "-DOCSTART-", "__label__"
_TAG_INSIDE = re.compile(r"=([BI]-[^|]+|O)(?:\||$)")
_UNIVERSAL = 10  # columns of CoNLL-U


def _is_universal(row: list[str]) -> bool:
    return len(row) == _UNIVERSAL and re.fullmatch(r"\d+([-.]\d+)?", row[0]) is not None


def _is_comment(line: str) -> bool:
    if not line.startswith("#") or "\t" in line:
        return False
    # The token "#" has a tag behind it; a group may be called like one.
    return bool(_SAID.match(line)) or not TAG.fullmatch(line.split()[-1])


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
    columns = [list(column) for column in zip(*tokens, strict=True)]
    is_counted = columns[0] == [str(n) for n in range(1, len(tokens) + 1)]
    if options.text is None and options.tokens is None:
        names[is_counted and width > 2] = "tokens"
    if _is_universal(tokens[0]):  # its last column has the tags behind some name
        found = [_TAG_INSIDE.search(cell) for cell in columns[-1]]
        columns[-1] = [match[1] if match else "O" for match in found]
        if not any(found):
            names, columns = names[:-1], columns[:-1]
    if options.tags is None and len(names) == width:
        names[-1] = "tags"
    return Row(where, {**dict(zip(names, columns, strict=True)), **said})


def _fasttext(file: File) -> Rows:
    def read(where: str, line: str) -> Rows:
        text = re.sub(rf"{_LABEL}\S+", "", line).strip()
        yield Row(where, {"text": text, "intent": re.findall(rf"{_LABEL}(\S+)", line)})

    return _each_line(file, read)


def _is_there(path: Path) -> bool:
    with suppress(*DAMAGED):
        open_packed(path).close()
        return True
    return False


def _bio_folder(file: File) -> Rows:
    """`seq.in`, `seq.out` and `label` with a record a line, the latter two where they
    are there.
    """
    paths = dict(zip(("tokens", "tags", "intent"), BIO_NAMES, strict=True))
    named = {role: file.path / name for role, name in paths.items()}
    there = {role: path for role, path in named.items() if _is_there(path)}
    if len(there) == 1:
        yield InvalidData(f"expected seq.out or label in {file.path}, got neither")
        return
    found = zip_longest(
        *(file_lines(each, opened=file.open) for each in there.values())
    )
    for number, lines in enumerate(found, start=1):
        read = [line[1] for line in lines if isinstance(line, tuple)]
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
            fields = dict(zip(there, read, strict=True))
            yield Row(f"{file.path / BIO_NAMES[0]} line {number}", fields)


def _rasa(file: File) -> Rows:
    for found in rasa.examples(file.path, file.text(), file.notes):
        yield found if isinstance(found, InvalidData) else Row(*found)


def _brat(file: File) -> Rows:
    """A line a record of `NAME.txt`, with the entities of `NAME.ann`, which count the
    characters of the whole text.
    """
    beside = file.path.with_suffix(".txt")
    text = file_text(beside, max_bytes=_MOST_BYTES, opened=file.open)
    spans = []
    for line in file.text().split("\n"):
        if match := _ENTITY.fullmatch(line.rstrip("\r")):
            spans.append((match[1], int(match[2]), int(match[3]), match[4]))
        else:
            kind = (
                "entities in pieces" if line[:1] == "T" else "lines without an entity"
            )
            file.notes[kind] += bool(line.strip())
    start = 0
    for number, line in enumerate(text.split("\n"), start=1):
        end = start + len(line)
        slots = [
            [name, first - start, last - start, value]
            for name, first, last, value in spans
            if start <= first < end
        ]
        if line.strip():
            fields = {"text": line, "slots": slots, "document_id": beside.stem}
            yield Row(f"{beside} line {number}", fields)
        start = end + 1


_ENTITY = re.compile(r"T\d+\t(\S+) (\d{1,9}) (\d{1,9})\t(.*)", re.ASCII)


READERS: dict[str, Callable[[File], Rows]] = {
    "json_lines": _json_lines,
    "json": _json,
    "table": _table,
    "excel": _excel,
    "parquet": _parquet,
    "conll": _conll,
    "rasa": _rasa,
    "fasttext": _fasttext,
    "bio_folder": _bio_folder,
    "brat": _brat,
}
