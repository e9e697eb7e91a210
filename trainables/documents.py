"""Text, YAML and JSON as plain data, within bounds, and values quoted in messages.

Plain data is None, truth values, finite numbers, text, lists, and mappings with text keys. Any
document is read or refused in time and memory in proportion to its length. Aliases, tags, repeated
keys and text that no file can hold (NUL, half of a surrogate pair) are refused.
"""

from __future__ import annotations

import difflib
import json
import math
import os
import re
import reprlib
import stat
import traceback
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from itertools import chain
from pathlib import Path
from typing import IO, Any, TypeVar

import yaml

from trainables.errors import InvalidData

MAX_DEPTH = 50  # levels of nested lists and mappings
TO_UTF_8 = " (if it is Latin-1, `iconv -f LATIN1 -t UTF-8 FILE > NEW` converts it)"
# What reading a damaged archive, compressed file or file of arrays raises.
_OF_PYTHON = (OSError, ValueError, KeyError, EOFError, NotImplementedError)
DAMAGED = (*_OF_PYTHON, zipfile.BadZipFile, zlib.error)
_MAX_BYTES = 1 << 20  # of a file that a person writes
_MAX_LINE_BYTES = 4 << 20
_TOO_DEEP = f"expected at most {MAX_DEPTH} lists and mappings in one another"
_NESTED = (dict, list, tuple)
_FLOAT = "tag:yaml.org,2002:float"

Opener = Callable[[Path], AbstractContextManager[IO[bytes]]]
T = TypeVar("T")


class DocumentProblem(ValueError):
    """A problem of a document, whose words quote only keys and numbers. `line` from 1, where known;
    `advice` is a remedy in brackets, which need not be repeated for each line.
    """

    def __init__(self, words: str, *, line: int | None = None, advice: str = "") -> None:
        super().__init__(words)
        self.line = line
        self.at = "" if line is None else f", line {line}"
        self.advice = advice


Line = tuple[int, str | DocumentProblem]


def require_text(text: str) -> None:
    """Raises: DocumentProblem for text that cannot be written to a file and read back."""
    if "\0" in text:
        raise DocumentProblem("expected text without NUL")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise DocumentProblem("expected text without halves of surrogate pairs") from None


def require_storable(value: Any, *, place: tuple[Any, ...] = ()) -> None:
    """Raises: DocumentProblem for plain data with too many levels, or with text that no file holds,
    whose place it names.
    """
    if len(place) > MAX_DEPTH:
        raise DocumentProblem(_TOO_DEEP)
    items = value.items() if isinstance(value, dict) else enumerate(value)
    keys = ((key, key) for key in value) if isinstance(value, dict) else ()
    for key, part in chain(keys, items):
        if isinstance(part, str):
            try:
                require_text(part)
            except DocumentProblem as problem:
                where = one_line(".".join(map(str, (*place, key))), characters=500)
                raise DocumentProblem(f"{problem} in {where}") from None
        elif isinstance(part, _NESTED):
            require_storable(part, place=(*place, key))


def _integer(text: str) -> int:
    if len(text) > 41:
        raise DocumentProblem("expected integers of at most 40 digits")
    return int(text, 0)


def _decimal(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise DocumentProblem(f"expected finite numbers that a float can hold, got {value}")
    return value


def _number(text: str) -> float:
    """The number of a plain word. Raises: ValueError where it is none, such as 1.2.3."""
    digits = text.lstrip("+-").replace("_", "")
    if digits[:2] in ("0b", "0o", "0x"):
        int(text, 0)  # a digest may begin so, and is text
        return _integer(text)
    if digits.isdecimal():
        if digits[0] == "0" and digits.strip("0"):
            raise DocumentProblem(f"expected numbers without a leading zero, got {quote(text)}")
        return _integer(text)
    return _decimal(re.sub(r"\.(?=[in])", "", text, flags=re.IGNORECASE))  # .inf and .nan


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise DocumentProblem("expected each key of an object once")
    return found


_BAD_ESCAPE = re.compile(r"\\u(0000|d[89a-f])", re.IGNORECASE)
_JSON = json.JSONDecoder(
    object_pairs_hook=_object, parse_int=_integer, parse_float=_decimal, parse_constant=_decimal
)


def parse_json(text: str) -> Any:
    """The plain data of one JSON document. Raises: DocumentProblem."""
    try:
        value = _JSON.decode(text)
    except json.JSONDecodeError as error:
        raise DocumentProblem("expected JSON", line=error.lineno) from None
    except RecursionError:
        raise DocumentProblem(_TOO_DEEP) from None
    # Without these characters there is neither, so most documents need no walk.
    if text.count("[") + text.count("{") > MAX_DEPTH or (
        "\\u" in text and _BAD_ESCAPE.search(text)
    ):
        require_storable([value])
    return value


def parse_written_json(text: str) -> Any:
    """The plain data of a JSON document that a program wrote, infinities and NaN included.

    Raises: DocumentProblem.
    """
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise DocumentProblem("expected JSON") from None


class _Loader(yaml.CSafeLoader):
    def number(self, node: Any) -> float | str:
        """The number of a plain word; the word itself where it is none, such as 1.2.3."""
        try:
            return _number(node.value)
        except DocumentProblem as problem:
            raise _wrong(str(problem), node) from None
        except ValueError:
            return str(node.value)

    def mapping(self, node: Any) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, value in node.value:
            if not key.tag.endswith(":str") or key.value == "<<":
                raise _wrong(f"expected text keys, got {quote(key.value)}", key)
            if key.value in found:
                raise _wrong(f"the key {one_line(key.value, characters=80)} comes twice", key)
            found[key.value] = self.construct_object(value, deep=True)
        return found


class _Dumper(yaml.CSafeDumper):
    def ignore_aliases(self, data: Any) -> bool:
        return True


_Loader.yaml_implicit_resolvers = {
    first: [each for each in found if each[0].endswith((":bool", ":null"))]
    for first, found in yaml.CSafeLoader.yaml_implicit_resolvers.items()
}
for _of_yaml in (_Loader, _Dumper):
    _of_yaml.add_implicit_resolver(
        _FLOAT,
        re.compile(r"[-+]?(0[box]\w+|\.?[0-9][0-9_.]*(e[-+]?[0-9]+)?|\.inf|\.nan)$", re.IGNORECASE),
        list("-+.0123456789"),
    )
_Loader.add_constructor(_FLOAT, _Loader.number)
_Loader.add_constructor("tag:yaml.org,2002:map", _Loader.mapping)


def _wrong(words: str, place: Any) -> yaml.MarkedYAMLError:
    return yaml.MarkedYAMLError(problem=words, problem_mark=place.start_mark)


def parse_yaml(text: str) -> Any:
    """The plain data of one YAML document; None for an empty one. As YAML 1.1, except that 1e-3 is
    a number, 12:30 and 2026-11-22 are text, and 010 (8 or 10, by the version of YAML) is refused.

    >>> parse_yaml("{a: [1e-3, yes, 12:30], b: {c: 0x1f}}")
    {'a': [0.001, True, '12:30'], 'b': {'c': 31}}

    Raises: DocumentProblem with the line.
    """
    require_text(text)  # a word of a command line may be no UTF-8
    depth = documents = 0
    try:
        for event in yaml.parse(text, Loader=_Loader):  # before anything recursive reads it
            depth += isinstance(event, yaml.CollectionStartEvent)
            depth -= isinstance(event, yaml.CollectionEndEvent)
            documents += isinstance(event, yaml.DocumentStartEvent)
            if depth > MAX_DEPTH:
                raise _wrong(_TOO_DEEP, event)
            if documents > 1:
                raise _wrong("expected one document in the file", event)
            if isinstance(event, yaml.AliasEvent):
                raise _wrong(f"expected the value itself, got the alias *{event.anchor}", event)
            if getattr(event, "tag", None) is not None:
                raise _wrong("expected plain data, got a tag", event)
            if "\0" in getattr(event, "value", ""):
                raise _wrong("expected text without NUL", event)
        return yaml.load(text, Loader=_Loader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
        words = getattr(error, "problem", None) or getattr(error, "reason", None) or "not readable"
        line = None if mark is None else mark.line + 1
        raise DocumentProblem(one_line(str(words), characters=120), line=line) from None


def format_yaml(document: Any) -> str:
    """Plain data as readable YAML, which `parse_yaml` reads back."""
    text: str = yaml.dump(document, Dumper=_Dumper, sort_keys=False, allow_unicode=True)
    return text


def file_text(path: str | Path, *, max_bytes: int = _MAX_BYTES) -> str:
    """The text of a UTF-8 file.

    Raises: InvalidData unless it is a readable UTF-8 file of at most `max_bytes`; the first line
        that is not UTF-8 is named.
    """
    try:
        found = os.stat(path)
        if not stat.S_ISREG(found.st_mode):
            raise InvalidData(f"expected {path} to be a file")
        if found.st_size > max_bytes:
            raise InvalidData(f"expected at most {max_bytes} bytes in {path}, got more")
        text = Path(path).read_bytes().decode().removeprefix("\ufeff")
        require_text(text)
    except OSError as error:
        raise InvalidData(f"cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise InvalidData(f"expected UTF-8 in {path} line {line}{TO_UTF_8}") from None
    except DocumentProblem as problem:
        raise InvalidData(f"{path}: {problem}") from None
    except ValueError:
        raise InvalidData("expected the name of a file without NUL") from None
    return text


def read_yaml(path: Path, *, max_bytes: int = _MAX_BYTES) -> Any:
    """The plain data in a YAML file. Raises: InvalidData with the line of the problem."""
    try:
        return parse_yaml(file_text(path, max_bytes=max_bytes))
    except DocumentProblem as problem:
        raise InvalidData(f"expected YAML in {path}{problem.at}: {problem}") from None


def read_json(path: str | Path, *, max_bytes: int = _MAX_BYTES) -> Any:
    """The plain data in a JSON file. Raises: InvalidData with the line, where it is known."""
    try:
        return parse_json(file_text(path, max_bytes=max_bytes))
    except DocumentProblem as problem:
        raise InvalidData(f"{problem} in {path}{problem.at}") from None


def read_written_json(path: Path) -> Any:
    """The plain data in a JSON file that a program wrote: of any size, infinities and NaN included.

    Raises: InvalidData where it is missing or damaged.
    """
    try:
        return parse_written_json(file_text(path, max_bytes=1 << 30))
    except DocumentProblem:
        raise InvalidData(f"expected JSON in {path}, got a damaged file") from None


def line_groups(file: IO[bytes], *, max_bytes: int = _MAX_LINE_BYTES) -> Iterator[list[Line]]:
    """(number from 1, line without its end) or the problem of a line (too long, no UTF-8, a NUL),
    in groups of those that are available, so that a pipe is answered line by line. Only a line feed
    ends a line. Needs the memory of one line.
    """
    number, rest, content = 0, b"", b"\n"
    read = getattr(file, "read1", file.read)  # what is there already
    while content:
        content = read(1 << 16)
        *whole, rest = (rest + content).split(b"\n")
        if rest and not content:
            whole = [rest]
        rest = rest[: max_bytes + 1]  # longer ones are refused
        if whole:
            yield [(at, _text(line, at, max_bytes)) for at, line in enumerate(whole, number + 1)]
            number += len(whole)


def text_lines(file: IO[bytes], *, max_bytes: int = _MAX_LINE_BYTES) -> Iterator[Line]:
    """As `line_groups`, line by line."""
    return chain.from_iterable(line_groups(file, max_bytes=max_bytes))


def _text(line: bytes, number: int, max_bytes: int) -> str | DocumentProblem:
    if len(line) > max_bytes:
        return DocumentProblem(f"expected lines of at most {max_bytes} bytes")
    if b"\0" in line:
        return DocumentProblem("expected text without NUL")
    try:
        return line.decode("utf-8-sig" if number == 1 else "utf-8").removesuffix("\r")
    except UnicodeDecodeError:
        return DocumentProblem("expected UTF-8", advice=TO_UTF_8)


def file_lines(
    path: Path, *, opened: Opener | None = None
) -> Iterator[tuple[str, str] | InvalidData]:
    """(file and line, for messages; line without its end) of every line, or its problem. The first
    line that is not UTF-8 is named with how to convert the file.

    Raises: InvalidData for a file that cannot be read.
    """
    said = ""
    try:
        with opened(path) if opened else path.open("rb") as file:
            for number, line in text_lines(file):
                where = f"{path} line {number}"
                if isinstance(line, str):
                    yield where, line
                else:
                    yield InvalidData(f"{line} in {where}{'' if said else line.advice}")
                    said = said or line.advice
    except DAMAGED as error:
        kind = type(error).__name__
        raise InvalidData(f"expected a file that can be read in {path}, got {kind}") from None


def object_lines(
    path: Path, *, opened: Opener | None = None
) -> Iterator[tuple[str, dict[str, Any]] | InvalidData]:
    """(file and line, JSON object) of every line that is not blank, or its problem.

    Raises: InvalidData for a file that cannot be read.
    """
    for found in file_lines(path, opened=opened):
        if isinstance(found, InvalidData):
            yield found
        elif found[1].strip():
            where, line = found
            try:
                value = parse_json(line)
            except DocumentProblem as problem:
                yield InvalidData(f"expected a JSON object in {where}: {problem}")
                continue
            got = f"expected a JSON object in {where}, got {kind_of(value)}"
            yield (where, value) if isinstance(value, dict) else InvalidData(got)


def without_problems(found: Iterable[T | InvalidData]) -> Iterator[T]:
    """What is found, up to the first problem. Raises: that InvalidData."""
    for each in found:
        if isinstance(each, InvalidData):
            raise each
        yield each


class _Short(reprlib.Repr):
    """A `repr` that never builds the whole text of a large value."""

    def repr_int(self, x: int, level: int) -> str:
        return repr(x) if x.bit_length() <= 400 else f"an integer of {x.bit_length()} bits"


_SHORT = _Short()
_SHORT.maxlevel, _SHORT.maxstring, _SHORT.maxother, _SHORT.maxdict = 3, 120, 120, 6


def quote(value: Any) -> str:
    """A value for an error message, at most 120 characters of it, whatever its size.

    >>> quote("plain"), len(quote("a" * 10**6)) <= 120, len(quote([[0] * 9] * 9)) <= 120
    ("'plain'", True, True)
    """
    text = _SHORT.repr(value)
    return text if len(text) <= 120 else f"{text[:58]}...{text[-58:]}"


def kind_of(value: Any) -> str:
    """What a plain value is, for an error message that must not quote it.

    >>> kind_of(None), kind_of("a"), kind_of([]), kind_of(1.5)
    ('nothing', 'text', 'a list', 'a number')
    """
    return _KINDS.get(type(value), type(value).__name__)


_KINDS = {type(None): "nothing", str: "text", bool: "true or false", list: "a list"}
_KINDS |= {int: "a number", float: "a number", dict: "a mapping"}


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The end of a message about an unknown name: the nearest known one, or nothing.

    >>> did_you_mean("num_heads", ["num_layers", "dropout"]), did_you_mean("x", ["b", "a"])
    (': did you mean num_layers?', '')
    """
    near = nearest_name(name, known)
    return "" if near is None else f": did you mean {near}?"


def nearest_name(name: str, known: Iterable[str]) -> str | None:
    """The known name that is most like an unknown one; None where none is alike."""
    return next(iter(difflib.get_close_matches(name, known, n=1)), None)


def one_line(message: str, *, characters: int = 2_000) -> str:
    """A message on one line, without terminal control codes, shortened in its middle.

    >>> one_line("a\\n b\\x1b[2J")
    'a b\\\\x1b[2J'
    """
    if len(message) > characters:
        half = characters // 2
        message = f"{message[:half]} ... {message[-half:]}"
    words = " ".join(message.split())
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in words)


def words_of(error: BaseException) -> str:
    """What an error says: its own words, with the files that the system names, else those of its
    cause; where nothing is said, its type and the place that raised it. Never empty.

    >>> words_of(OSError(2, "No such file", "a.txt")), words_of(ConnectionError("no answer"))
    ('No such file (a.txt)', 'no answer')
    """
    each: BaseException | None = error
    seen: list[BaseException] = []
    while each is not None and not any(each is before for before in seen):
        if said := _own_words(each):
            return said
        seen.append(each)
        each = each.__cause__ or (None if each.__suppress_context__ else each.__context__)
    frames = traceback.extract_tb(error.__traceback__)
    place = f" at {Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
    return f"{type(error).__name__}{place}, which has no message"


def _own_words(error: BaseException) -> str:
    if isinstance(error, BaseExceptionGroup):
        inner = "; ".join(dict.fromkeys(words_of(each) for each in error.exceptions))
        return f"{error.message.strip()}: {inner}" if error.message.strip() else inner
    if isinstance(error, OSError) and (said := system_words(error)):
        names = (error.filename, error.filename2)
        files = ", ".join(os.fsdecode(n) for n in names if isinstance(n, str | bytes | os.PathLike))
        return f"{said} ({files})" if files else said
    said = str(error).strip()
    return f"{type(error).__name__}: {said}" if said and isinstance(error, KeyError) else said


def system_words(error: OSError) -> str:
    """The system's own words for its error, which quote nothing; "" for an error of a library.

    >>> system_words(OSError(28, None)), system_words(OSError("secret"))
    ('No space left on device', '')
    """
    if error.strerror:
        return str(error.strerror).strip()
    number = error.errno
    return os.strerror(number) if isinstance(number, int) and 0 < number < 1_000 else ""
