"""Values of a record by a field's name or a JMESPath expression, and the options that
would read the fields which no usual name reads.
"""

import json
import re
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import jmespath
from jmespath.exceptions import JMESPathError

from trainables.data.formats.marks import FORMS
from trainables.data.formats.names import (
    END,
    LENGTH,
    NAME,
    NAMES,
    START,
    TAG,
    VALUE,
    are_spans,
    listed,
)
from trainables.errors import InvalidData

_LABELS = re.compile(
    r"intent|label|class|categ|topic|domain|slot|entit|tag|span|cats|absicht", re.I
)
_OTHERS = re.compile(
    r"(^|[._])(id|ids|lang|language|locale|date|time|tokens|words|sents|pos)$", re.I
)
_PLAIN_KEY = re.compile(r"[\w.:#/-]{1,40}")
_MOST_KEYS = 20  # of an object whose keys are names, not data
_MOST_LABELS = 100  # different values of a column that looks like labels
_SEEN = 100  # records from which options are suggested


@lru_cache(maxsize=1_000)
def name_among(given: str, names: tuple[str, ...]) -> str | None:
    """The one of these names that is given, in any case or by its number from 1."""
    if given in names:
        return given
    same = [name for name in names if name.strip().lower() == given.strip().lower()]
    if not same and given.isdecimal():
        same = list(names[max(0, int(given) - 1) : int(given)])
    return same[0] if len(same) == 1 else None


def value_at(fields: Mapping[str, Any], given: str, *, where: str, option: str) -> Any:
    """What a JMESPath expression finds in a record; None where it finds nothing.

    Raises: InvalidData for what is no expression, for one that fails on the record, and
        for the name of a field that the record lacks.
    """
    expression = _compiled(given)
    if expression is None or expression.parsed["type"] == "field":
        raise InvalidData(
            f"expected the field {given} (--{option}) in {where}, got none such among"
            f" its {len(fields)}"
        )
    try:
        return expression.search(fields)
    except (JMESPathError, ValueError, TypeError, AttributeError):
        raise InvalidData(
            f"expected a value of --{option} {shlex.quote(given)} in {where}"
        ) from None


@lru_cache(maxsize=100)
def _compiled(given: str) -> Any:
    try:
        return jmespath.compile(given)
    except (JMESPathError, ValueError):
        return None


def leaves(fields: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """(name or JMESPath expression, value) of everything in a record that is no object.
    Lists are whole, except that objects in them which are no spans are entered.
    """
    for name, value in fields.items():
        for path, inner in _inside(value, quoted(name)):
            yield name if inner is value else path, inner


def _inside(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict) and value and _are_names(tuple(value)):
        for key, inner in value.items():
            yield from _inside(inner, f"{path}.{quoted(key)}")
    elif isinstance(value, list) and value and isinstance(value[0], dict):
        is_named = _are_names(tuple(value[0]))
        if not is_named or spans_expression(path, value) is not None:
            yield path, value
            return
        for inner in value[:_MOST_KEYS]:
            if isinstance(inner, dict):
                yield from _inside(inner, f"{path}[]")
    else:
        yield path, value


@lru_cache(maxsize=10_000)
def quoted(key: str) -> str:
    """A key as it stands in an expression."""
    return key if re.fullmatch(r"[A-Za-z_]\w*", key, re.A) else json.dumps(key)


@lru_cache(maxsize=10_000)
def _are_names(keys: tuple[Any, ...]) -> bool:
    """Whether the keys of an object are names, not data."""
    return len(keys) <= _MOST_KEYS and all(
        isinstance(key, str) and _PLAIN_KEY.fullmatch(key) for key in keys
    )


def spans_expression(path: str, value: list[Any]) -> str | None:
    """The expression that makes spans of a list of objects; None where none does."""
    if not isinstance(value[0], dict) or not _are_names(tuple(value[0])):
        return None
    inside = dict(leaves(value[0]))

    def key_of(names: Iterable[str], kind: type) -> str | None:
        by_name = {each.rpartition(".")[2].strip('"'): each for each in inside}
        fitting = (by_name[name] for name in names if name in by_name)
        return next((key for key in fitting if type(inside[key]) is kind), None)

    name, start, end = key_of(NAME, str), key_of(START, int), key_of(END, int)
    if (end is None and start) and (length := key_of((LENGTH,), int)):
        end = f"sum([{start}, {length}])"
    if name is None or start is None or end is None:
        return None
    if {name, start} | ({end} if "[" not in end else set()) <= value[0].keys():
        return path
    text = key_of(VALUE, str)
    more = f", text: {text}" if text and text != name else ""
    return f"{path}[].{{name: {name}, start: {start}, end: {end}{more}}}"


@dataclass
class Column:
    """What a field that is not read holds: `option` would read it, where it looks like
    labels, by `expression`.
    """

    name: str
    number: int = 0
    values: set[str] = field(default_factory=set)
    options: Counter[str] = field(default_factory=Counter)
    expression: str = ""
    texts: int = 0
    spaced: int = 0

    def add(self, value: Any) -> None:
        """One value."""
        value = listed(value)
        if value is None or value in ("", [], {}):
            return
        self.number += 1
        words = value.split() if isinstance(value, str) else value
        if isinstance(words, list) and all(
            isinstance(w, str) and TAG.fullmatch(w) for w in words
        ):
            self.options["tags"] += 1
        elif isinstance(value, list) and are_spans(value):
            found = spans_expression(self.name, value)
            is_listed = isinstance(value[0], list) and len(value[0]) in (3, 4)
            self.expression = self.expression or found or ""
            self.options["slots"] += found is not None or is_listed
        elif isinstance(value, list):
            self.options["list"] += 1
        elif isinstance(value, str):
            self.texts += 1
            self.spaced += " " in value and value[:1] not in "[{"
            if len(value) <= 60 and len(self.values) <= _MOST_LABELS:
                self.values.add(value)

    @property
    def option(self) -> str | None:
        """tags, slots or intent; None where it looks like no labels."""
        if self.number == 0:
            return None
        for option in ("tags", "slots"):
            if 2 * self.options[option] > self.number:
                return option
        if _OTHERS.search(self.name):
            return None
        is_few = 2 <= len(self.values) <= min(_MOST_LABELS, self.number / 2)
        has_names = self.values or self.options["list"]
        return "intent" if is_few or (has_names and _LABELS.search(self.name)) else None

    @property
    def argument(self) -> str:
        """The option with its value, for a command line."""
        return f"--{self.option} {shlex.quote(self.expression or self.name)}"

    def likeness(self, role: str) -> tuple[bool, int]:
        """How much it looks like a text or an intent, for comparisons."""
        keys = re.findall(r"\w+", self.name.lower())[-2:]
        is_usual = any(key in NAMES[role] for key in keys)
        if role == "text":
            is_word = any(key in NAMES["tokens"] for key in keys)
            return is_word or (is_usual and self.spaced > 0), self.spaced
        return is_usual, bool(_LABELS.search(self.name)) - len(self.values)


def suggested(records: Iterable[Any]) -> str:
    """The options that read records of which no text is known; "" where none would."""
    columns: dict[str, Column] = {}
    for _, fields in zip(range(_SEEN), records, strict=False):
        for path, value in leaves(fields) if isinstance(fields, dict) else ():
            if path and " " not in path and "[]" not in path:
                columns.setdefault(path, Column(path)).add(value)
    texts = [each for each in columns.values() if each.texts]
    if not texts:
        return ""
    text = max(texts, key=lambda each: each.likeness("text"))
    others = [each for each in columns.values() if each is not text and each.option]
    found = [f"--text {shlex.quote(text.name)}"]
    values = text.values
    for option, pattern in FORMS.values():
        if 5 * sum(bool(pattern.search(each)) for each in values) > len(values):
            found.append(f"--marks {option}")
    for option in ("intent", "slots", "tags"):
        fitting = [each for each in others if each.option == option]
        if fitting:
            best = max(fitting, key=lambda each: each.likeness("intent"))
            found.append(best.argument)
    return " ".join(found)
