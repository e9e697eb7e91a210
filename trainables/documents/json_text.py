"""JSON as plain data: strict, within bounds."""

from __future__ import annotations

import json
from typing import Any, NoReturn

from trainables.documents.bounds import (
    MAX_DEPTH,
    DocumentProblem,
    decimal,
    integer,
    require_text,
)


def parse_json(text: str) -> Any:
    """The plain data of one JSON document.

    >>> parse_json('{"a": [1, 2.5, null]}')
    {'a': [1, 2.5, None]}

    Raises: DocumentProblem, whose message quotes nothing of the document.
    """
    try:
        value = _DECODER.decode(text)
    except DocumentProblem:
        raise
    except json.JSONDecodeError as error:
        raise DocumentProblem("expected JSON", line=error.lineno) from None
    except RecursionError:
        raise _too_deep() from None
    # These characters are necessary for the problem, so most documents need no walk.
    if text.count("[") + text.count("{") > MAX_DEPTH:
        _require_depth(value)
    if "\\u" in text:
        _require_texts(value)
    return value


def parse_written_json(text: str) -> Any:
    """The plain data of a JSON document that a program wrote, infinities and NaN included.

    >>> parse_written_json('{"epsilon": Infinity}')
    {'epsilon': inf}

    Raises: DocumentProblem.
    """
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise DocumentProblem("expected JSON") from None


def _require_depth(value: Any) -> None:
    level = [value] if isinstance(value, dict | list) else []
    for _ in range(MAX_DEPTH):
        level = [
            value
            for outer in level
            for value in (outer.values() if type(outer) is dict else outer)
            if type(value) in _NESTED  # what a decoder makes; no subclasses
        ]
        if not level:
            return
    raise _too_deep()


def _require_texts(value: Any) -> None:
    left = [value]
    while left:
        found = left.pop()
        if isinstance(found, str):
            require_text(found)
        elif isinstance(found, list):
            left += found
        elif isinstance(found, dict):
            left += found.keys()
            left += found.values()


def _too_deep() -> DocumentProblem:
    return DocumentProblem(f"expected at most {MAX_DEPTH} lists and objects in one another")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise DocumentProblem("expected each key of an object once")
    return found


def _not_json(constant: str) -> NoReturn:
    raise DocumentProblem(f"expected numbers, got {constant}")


_NESTED = (dict, list)
_DECODER = json.JSONDecoder(
    object_pairs_hook=_object, parse_int=integer, parse_float=decimal, parse_constant=_not_json
)
