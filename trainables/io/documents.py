"""YAML and JSON as plain data, within bounds.

Plain data is None, truth values, finite numbers, text, lists, and mappings with text
keys. Any document is read or refused in time and memory in proportion to its length.
Aliases, tags, repeated keys and text that no file can hold (NUL, half of a surrogate
pair) are refused.
"""

import hashlib
import json
import math
import re
from typing import Any

import yaml

from trainables.errors import one_line, quote

MAX_DEPTH = 50  # levels of nested lists and mappings
_TOO_DEEP = f"expected at most {MAX_DEPTH} lists and mappings in one another"
_UNSTORABLE = re.compile("[\0\ud800-\udfff]")
_BAD_ESCAPE = re.compile(r"\\u(0000|d[89a-f])", re.IGNORECASE)
_OPEN = re.compile("quoted scalar|flow")  # its problem is where it begins
_NUMBER_TAG = "tag:yaml.org,2002:float"
_DIGITS = r"[0-9]+(_[0-9]+)*"
_DECIMAL = rf"({_DIGITS}(\.[0-9]*)?|\.[0-9]+)(e[-+]?[0-9]+)?|\.inf|\.nan"
_NUMBER = re.compile(rf"[-+]?(0b[01]+|0o[0-7]+|0x[0-9a-f]+|{_DECIMAL})$", re.IGNORECASE)


class DocumentProblem(ValueError):
    """A problem, in words that quote only keys and numbers; `advice` is a remedy in
    brackets.
    """

    def __init__(
        self, words: str, *, line: int | None = None, advice: str = ""
    ) -> None:
        super().__init__(words)
        self.line = line or 1
        self.at = "" if line is None else f", line {line}"
        self.advice = advice


def require_text(text: str, place: tuple[Any, ...] = ()) -> None:
    """Raises: DocumentProblem for text that cannot be written to a file and read
    back.
    """
    if found := _UNSTORABLE.search(text):
        what = "NUL" if found[0] == "\0" else "halves of surrogate pairs"
        where = one_line(".".join(map(str, place)), characters=500)
        raise DocumentProblem(f"expected text without {what}{where and f' in {where}'}")


def require_storable(value: Any, place: tuple[Any, ...] = ()) -> None:
    """Raises: DocumentProblem for plain data with too many levels, or with text that no
    file holds, whose place it names.
    """
    if isinstance(value, str):
        require_text(value, place)
    elif isinstance(value, dict | list | tuple):
        if len(place) > MAX_DEPTH:
            raise DocumentProblem(_TOO_DEEP)
        for key, part in value.items() if isinstance(value, dict) else enumerate(value):
            require_storable(key, (*place, key))
            require_storable(part, (*place, key))


def _integer(text: str) -> int:
    if len(text) > 41:
        raise DocumentProblem("expected integers of at most 40 digits")
    try:
        return int(text, 0)
    except ValueError:
        raise DocumentProblem(f"expected no leading zero, got {quote(text)}") from None


def _decimal(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise DocumentProblem(
            f"expected finite numbers that a float can hold, got {value}"
        )
    return value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise DocumentProblem("expected each key of an object once")
    return found


_JSON = json.JSONDecoder(
    object_pairs_hook=_object,
    parse_int=_integer,
    parse_float=_decimal,
    parse_constant=_decimal,
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
    if text.count("[") + text.count("{") > MAX_DEPTH or _BAD_ESCAPE.search(text):
        require_storable([value])
    return value


class _Loader(yaml.CSafeLoader):
    def number(self, node: Any) -> float:
        word = node.value.lower()
        is_whole = word.lstrip("+-")[:2] in ("0b", "0o", "0x") or not re.search(
            "[.e]", word
        )
        try:
            return (
                _integer(word)
                if is_whole
                else _decimal(re.sub(r"\.(?=[in])", "", word))
            )
        except DocumentProblem as problem:
            raise _wrong(str(problem), node) from None

    def mapping(self, node: Any) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, value in node.value:
            if not key.tag.endswith(":str") or key.value == "<<":
                raise _wrong(f"expected text keys, got {quote(key.value)}", key)
            if key.value in found:
                raise _wrong(
                    f"the key {one_line(key.value, characters=80)} comes twice", key
                )
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
    _of_yaml.add_implicit_resolver(_NUMBER_TAG, _NUMBER, list("-+.0123456789"))
_Loader.add_constructor(_NUMBER_TAG, _Loader.number)
_Loader.add_constructor("tag:yaml.org,2002:map", _Loader.mapping)


class _TextLoader(_Loader):
    """Every scalar as it is written."""


_TextLoader.yaml_implicit_resolvers = {}


def _wrong(words: str, place: Any) -> yaml.MarkedYAMLError:
    return yaml.MarkedYAMLError(problem=words, problem_mark=place.start_mark)


def parse_yaml(text: str, *, typed: bool = True) -> Any:
    """The plain data of one YAML document; None for an empty one. As YAML 1.1, except
    that 1e-3 is a number, 12:30 and 2026-11-22 are text, and 010 (8 or 10, by the
    version of YAML) is refused. Without `typed`, each scalar is text as it is written.

    >>> parse_yaml("{a: [1e-3, yes, 12:30], b: {c: 0x1f}}")
    {'a': [0.001, True, '12:30'], 'b': {'c': 31}}
    >>> parse_yaml("[007, yes, ~]", typed=False)
    ['007', 'yes', '~']

    Raises: DocumentProblem with the line.
    """
    require_text(text)  # a word of a command line may be no UTF-8
    depth = 0
    try:
        for event in yaml.parse(
            text, Loader=_Loader
        ):  # before deep nesting crashes a constructor
            depth += isinstance(event, yaml.CollectionStartEvent)
            depth -= isinstance(event, yaml.CollectionEndEvent)
            if depth > MAX_DEPTH:
                raise _wrong(_TOO_DEEP, event)
            if isinstance(event, yaml.AliasEvent):
                raise _wrong(
                    f"expected the value itself, got the alias *{event.anchor}", event
                )
            if getattr(event, "tag", None) is not None:
                raise _wrong("expected plain data, got a tag", event)
            require_text(getattr(event, "value", ""))
        return yaml.load(text, Loader=_Loader if typed else _TextLoader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        if mark is None or _OPEN.search(getattr(error, "context", None) or ""):
            mark = getattr(error, "context_mark", None)
        words = [
            getattr(error, name, None) for name in ("context", "problem", "reason")
        ]
        said = one_line(
            ", ".join(filter(None, words)) or "not readable", characters=120
        )
        raise DocumentProblem(said, line=mark and mark.line + 1) from None


def digest_of(value: Any) -> str:
    """SHA-256 of plain data as 64 hex digits, over its JSON with sorted keys: equal for
    mappings with equal keys in any order, and different for 1, 1.0 and true. The key of
    caches; not of texts that must stay secret, which need a keyed hash.
    """
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def format_yaml(document: Any) -> str:
    """Plain data as readable YAML, which `parse_yaml` reads back."""
    text: str = yaml.dump(document, Dumper=_Dumper, sort_keys=False, allow_unicode=True)
    return text
