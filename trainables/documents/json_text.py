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
    # Without these characters there is neither, so most documents need no walk.
    if text.count("[") + text.count("{") > MAX_DEPTH or "\\u" in text:
        _require_depth_and_texts(value)
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


def _require_depth_and_texts(value: Any) -> None:
    level = [value]
    for _ in range(MAX_DEPTH + 1):
        for text in (each for each in level if type(each) is str):
            require_text(text)
        lists = (
            each if type(each) is list else (*each, *each.values())
            for each in level
            if type(each) in (list, dict)
        )  # what a decoder makes; no subclasses
        level = [each for inner in lists for each in inner]
        if not level:
            return
    raise _too_deep()


def _too_deep() -> DocumentProblem:
    return DocumentProblem(f"expected at most {MAX_DEPTH} lists and objects in one another")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise DocumentProblem("expected each key of an object once")
    return found


def _not_json(constant: str) -> NoReturn:
    raise DocumentProblem(f"expected numbers, got {constant}")


_DECODER = json.JSONDecoder(
    object_pairs_hook=_object, parse_int=integer, parse_float=decimal, parse_constant=_not_json
)
