"""YAML as plain data. Values are built from the parser's events, so that depth and aliases cost
no more than the document's size.

Plain words are read as in YAML 1.1, with exceptions for surprising cases: 1e-3 is a number, 12:30
and 2026-11-22 are text, and 010 (8 or 10, by the version of YAML) is refused.
"""

from __future__ import annotations

import re
from typing import Any

import yaml

from trainables.documents.bounds import (
    MAX_DEPTH,
    MAX_DIGITS,
    MAX_KEY,
    MAX_VALUES,
    DocumentProblem,
    decimal,
    integer,
    require_text,
)
from trainables.documents.quoting import quote

# Of libyaml, where PyYAML was built with it: a tenth of the time.
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_WORDS: dict[str, Any] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **{form(w): True for w in ("yes", "true", "on") for form in (str, str.title, str.upper)},
    **{form(w): False for w in ("no", "false", "off") for form in (str, str.title, str.upper)},
}
_INTEGER = re.compile(r"[-+]?(0|[1-9][0-9_]*)")
_BASED = re.compile(r"[-+]?0(b_*[01][01_]*|x_*[0-9a-fA-F][0-9a-fA-F_]*|o_*[0-7][0-7_]*)")
_AMBIGUOUS = re.compile(r"[-+]?0[0-9_]+")
_FLOAT = re.compile(r"[-+]?(\._*[0-9][0-9_]*|[0-9][0-9_]*(\.[0-9_]*)?)([eE][-+]?[0-9]+)?")
_NOT_FINITE = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
# Text that is a number here must be quoted, though it is text in YAML 1.1.
_NUMBERS = (_INTEGER, _BASED, _AMBIGUOUS, _FLOAT, _NOT_FINITE)
_DUMPER: Any = type("_Dumper", (getattr(yaml, "CSafeDumper", yaml.SafeDumper),), {})
_DUMPER.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile("|".join(f"(?:{each.pattern})$" for each in _NUMBERS)),
    list("-+.0123456789"),
)
_KINDS = {f"tag:yaml.org,2002:{kind}": kind for kind in ("str", "int", "float", "bool", "null")}


def parse_yaml(text: str) -> Any:
    """The plain data of one YAML document; None for an empty one.

    >>> parse_yaml("{a: [1e-3, yes, 12:30], b: &x {c: 1}, d: {<<: *x, e: 2}}")
    {'a': [0.001, True, '12:30'], 'b': {'c': 1}, 'd': {'c': 1, 'e': 2}}

    Raises: DocumentProblem with the line.
    """
    builder = _Builder()
    require_text(text)  # a word of a command line may be no UTF-8
    try:
        for event in yaml.parse(text, Loader=_LOADER):
            builder.take(event)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
        words = getattr(error, "problem", None) or getattr(error, "reason", None) or "not readable"
        line = None if mark is None else mark.line + 1
        raise DocumentProblem(quote(str(words)).strip("'\""), line=line) from None
    return builder.document


def format_yaml(document: Any) -> str:
    """Plain data as readable YAML, which `parse_yaml` reads back.

    >>> format_yaml({"a": "1e3"})
    "a: '1e3'\\n"
    """
    text: str = yaml.dump(document, Dumper=_DUMPER, sort_keys=False, allow_unicode=True)
    return text


class _Open:
    """A list or mapping that is being read: `size` values so far, `height` nested levels;
    `merged` are mappings that supply pairs for missing keys (`<<`).
    """

    def __init__(self, anchor: str | None, *, is_mapping: bool) -> None:
        self.anchor, self.is_mapping = anchor, is_mapping
        self.size = self.height = 1
        self.items: list[Any] = []
        self.pairs: dict[str, Any] = {}
        self.merged: list[dict[str, Any]] = []
        self.key: str | None = None

    @property
    def value(self) -> Any:
        if not self.is_mapping:
            return self.items
        found: dict[str, Any] = {}
        for other in reversed(self.merged):
            found |= other
        return {**found, **self.pairs} if self.merged else self.pairs


class _Builder:
    """Builds a value from events."""

    def __init__(self) -> None:
        self.document: Any = None
        self._documents = 0
        self._open: list[_Open] = []
        self._anchors: dict[str, tuple[Any, int, int]] = {}  # value, size, height

    def take(self, event: Any) -> None:
        """The next event."""
        try:
            self._take(event)
        except DocumentProblem as problem:
            line = event.start_mark.line + 1 if problem.line is None else problem.line
            raise DocumentProblem(str(problem), line=line) from None

    def _take(self, event: Any) -> None:
        match event:
            case yaml.DocumentStartEvent():
                self._documents += 1
                if self._documents > 1:
                    raise DocumentProblem("expected one document in the file")
            case yaml.ScalarEvent():
                self._scalar(event)
            case yaml.SequenceStartEvent() | yaml.MappingStartEvent():
                self._begin(event)
            case yaml.SequenceEndEvent() | yaml.MappingEndEvent():
                done = self._open.pop()
                self._add(done.value, size=done.size, height=done.height, anchor=done.anchor)
            case yaml.AliasEvent():
                if event.anchor not in self._anchors:
                    raise DocumentProblem("expected an alias of an anchor earlier in the file")
                value, size, height = self._anchors[event.anchor]
                self._add(value, size=size, height=height)

    def _begin(self, event: Any) -> None:
        wanted = "seq" if isinstance(event, yaml.SequenceStartEvent) else "map"
        if event.tag not in (None, "!", f"tag:yaml.org,2002:{wanted}"):
            raise DocumentProblem("expected plain data, got a tag")
        if len(self._open) >= MAX_DEPTH:
            raise _too_deep()
        self._open.append(_Open(event.anchor, is_mapping=wanted == "map"))

    def _scalar(self, event: Any) -> None:
        require_text(event.value)
        plain = event.implicit[0]
        outer = self._open[-1] if self._open else None
        if outer is not None and outer.is_mapping and outer.key is None:
            outer.key = self._key(outer, event)
            return
        if event.tag in (None, "!"):
            value = _plain(event.value) if plain else event.value
        else:
            value = _value_of_tag(event.value, event.tag)
        self._add(value, size=1, height=0, anchor=event.anchor)

    def _key(self, outer: _Open, event: Any) -> str:
        name: str = event.value
        is_text = event.tag in (None, "!", "tag:yaml.org,2002:str")
        if not is_text or (event.implicit[0] and not isinstance(_plain(name), str)):
            raise DocumentProblem(f"expected text keys, got {quote(name)}")
        if len(name) > MAX_KEY:
            raise DocumentProblem(f"expected keys of at most {MAX_KEY} characters")
        if name in outer.pairs:
            raise DocumentProblem(f"the key {name} comes twice")
        if event.anchor is not None:
            self._anchors[event.anchor] = (name, 1, 0)
        return name

    def _add(self, value: Any, *, size: int, height: int, anchor: str | None = None) -> None:
        if anchor is not None:
            self._anchors[anchor] = (value, size, height)
        if not self._open:
            self.document = value
            return
        outer = self._open[-1]
        outer.size += size
        outer.height = max(outer.height, height + 1)
        if outer.size > MAX_VALUES:
            raise DocumentProblem(f"expected at most {MAX_VALUES} values, with what aliases hold")
        if len(self._open) + height > MAX_DEPTH:
            raise _too_deep()
        if not outer.is_mapping:
            outer.items.append(value)
        elif outer.key is None:
            raise DocumentProblem("expected text keys, got a list, a mapping or an alias")
        elif outer.key == "<<":
            outer.merged += _mappings(value)
            outer.key = None
        else:
            outer.pairs[outer.key] = value
            outer.key = None


def _mappings(value: Any) -> list[dict[str, Any]]:
    found = value if isinstance(value, list) else [value]
    if not all(isinstance(each, dict) for each in found):
        raise DocumentProblem("expected a mapping or a list of mappings at <<")
    return found


def _plain(text: str) -> Any:
    """The value of a plain word."""
    if text in _WORDS:
        return _WORDS[text]
    if _INTEGER.fullmatch(text):
        return integer(text.replace("_", ""))
    if _BASED.fullmatch(text) and len(text) <= MAX_DIGITS:
        return int(text.replace("_", ""), 0)
    if _AMBIGUOUS.fullmatch(text):
        raise DocumentProblem(f"expected numbers without a leading zero, got {quote(text)}")
    if _FLOAT.fullmatch(text):
        return decimal(text.replace("_", ""))
    if _NOT_FINITE.fullmatch(text):
        raise DocumentProblem(f"expected finite numbers, got {text}")
    return text


def _value_of_tag(text: str, tag: str) -> Any:
    """The value of a word with a tag, which must match the word's type."""
    kind = _KINDS.get(tag)
    if kind is None:
        raise DocumentProblem("expected plain data, got a tag")
    if kind == "str":
        return text
    value = _plain(text)
    if kind == "float" and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    found = {bool: "bool", int: "int", float: "float", type(None): "null"}.get(type(value))
    if found != kind:
        raise DocumentProblem(f"expected {kind} after its tag, got {quote(text)}")
    return value


def _too_deep() -> DocumentProblem:
    return DocumentProblem(f"expected at most {MAX_DEPTH} lists and mappings in one another")
