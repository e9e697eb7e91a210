"""YAML as plain data, by PyYAML's safe loader without aliases and tags.

Plain words are read as in YAML 1.1, with exceptions for surprising cases: 1e-3 is a number, 12:30
and 2026-11-22 are text, and 010 (8 or 10, by the version of YAML) is refused.
"""

from __future__ import annotations

import re
from typing import Any

import yaml

from trainables.documents.bounds import (
    MAX_DEPTH,
    DocumentProblem,
    decimal,
    integer,
    require_text,
)
from trainables.documents.quoting import one_line, quote

_NUMBER = "tag:yaml.org,2002:float"
_NUMBERS = re.compile(
    r"([-+]?(0b[01][01_]*|0x[0-9a-fA-F][0-9a-fA-F_]*|0o[0-7][0-7_]*"
    r"|(\.[0-9][0-9_]*|[0-9][0-9_]*(\.[0-9_]*)?)([eE][-+]?[0-9]+)?|\.(inf|Inf|INF))"
    r"|\.(nan|NaN|NAN))$"
)
# Of libyaml, where PyYAML was built with it: a tenth of the time.
_LOADER: Any = type("_Loader", (getattr(yaml, "CSafeLoader", yaml.SafeLoader),), {})
_DUMPER: Any = type("_Dumper", (getattr(yaml, "CSafeDumper", yaml.SafeDumper),), {})


def parse_yaml(text: str) -> Any:
    """The plain data of one YAML document; None for an empty one.

    >>> parse_yaml("{a: [1e-3, yes, 12:30], b: {c: 0x1f}}")
    {'a': [0.001, True, '12:30'], 'b': {'c': 31}}

    Raises: DocumentProblem with the line.
    """
    require_text(text)  # a word of a command line may be no UTF-8
    event: Any = None
    try:
        depth = documents = 0
        for event in yaml.parse(text, Loader=_LOADER):  # before anything recursive reads it
            depth += isinstance(event, yaml.CollectionStartEvent)
            depth -= isinstance(event, yaml.CollectionEndEvent)
            documents += isinstance(event, yaml.DocumentStartEvent)
            _require_plain(event, depth, documents)
        return yaml.load(text, Loader=_LOADER)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
        words = getattr(error, "problem", None) or getattr(error, "reason", None) or "not readable"
        line = None if mark is None else mark.line + 1
        raise DocumentProblem(quote(str(words)).strip("'\""), line=line) from None
    except DocumentProblem as problem:
        line = problem.line or event.start_mark.line + 1
        raise DocumentProblem(str(problem), line=line) from None


def format_yaml(document: Any) -> str:
    """Plain data as readable YAML, which `parse_yaml` reads back.

    >>> format_yaml({"a": "1e3"})
    "a: '1e3'\\n"
    """
    text: str = yaml.dump(document, Dumper=_DUMPER, sort_keys=False, allow_unicode=True)
    return text


def _require_plain(event: Any, depth: int, documents: int) -> None:
    if depth > MAX_DEPTH:
        raise DocumentProblem(f"expected at most {MAX_DEPTH} lists and mappings in one another")
    if documents > 1:
        raise DocumentProblem("expected one document in the file")
    if isinstance(event, yaml.AliasEvent):
        raise DocumentProblem(f"expected the value itself, got the alias *{quote(event.anchor)}")
    if getattr(event, "tag", None) is not None:
        raise DocumentProblem("expected plain data, got a tag")
    if isinstance(event, yaml.ScalarEvent):
        require_text(event.value)


def _mapping(loader: Any, node: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in node.value:
        name = one_line(str(key.value), characters=80)
        problem = ""
        if not key.tag.endswith(":str") or name == "<<":
            problem = f"expected text keys, got {name!r}"
        elif key.value in found:
            problem = f"the key {name} comes twice"
        if problem:
            raise DocumentProblem(problem, line=key.start_mark.line + 1)
        found[key.value] = loader.construct_object(value, deep=True)
    return found


def _number(loader: Any, node: Any) -> float:
    """The number of a plain word."""
    text = node.value.replace("_", "")
    problem = ""
    if re.fullmatch(r"[-+]?0[0-9]+", text):
        problem = f"expected numbers without a leading zero, got {quote(node.value)}"
    elif text[-3:].lower() in ("inf", "nan"):
        problem = f"expected finite numbers, got {text}"
    if problem:
        raise DocumentProblem(problem, line=node.start_mark.line + 1)
    try:
        is_whole = re.fullmatch(r"[-+]?([0-9]+|0[box].*)", text)
        return integer(text) if is_whole else decimal(text)
    except DocumentProblem as found:
        raise DocumentProblem(str(found), line=node.start_mark.line + 1) from None


_DUMPER.ignore_aliases = lambda *_: True
_DUMPER.add_implicit_resolver(_NUMBER, _NUMBERS, list("-+.0123456789"))
_LOADER.yaml_implicit_resolvers = {
    first: [each for each in found if each[0].endswith((":bool", ":null"))]
    for first, found in _LOADER.yaml_implicit_resolvers.items()
}
_LOADER.add_implicit_resolver(_NUMBER, _NUMBERS, list("-+.0123456789"))
_LOADER.add_constructor(_NUMBER, _number)
_LOADER.add_constructor("tag:yaml.org,2002:map", _mapping)
