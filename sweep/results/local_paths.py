"""Replaces absolute paths in published documents by file names. Pure."""

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any

from sweep.store.plans import flat

# In a word of a command: `/a/b`, `--to=/a/b`, `{path: /a/b}`, `sqlite:////a/b`; no web
# address.
_FOLDERS = re.compile(
    r"(^|[\s=,\[{(\"']|sqlite://|file://)(?:~[^/]*)?/(?:[^/,\]})\"']*/)*"
)


def paths_in(value: Any) -> Iterator[str]:
    """The texts of plain data that are absolute paths."""
    if isinstance(value, str) and value.startswith(("/", "~")):
        yield value
    elif isinstance(value, dict | list | tuple):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from paths_in(inner)


def fields_with_paths(fields: Mapping[str, object]) -> list[str]:
    """The dotted fields of a config that are absolute paths.

    >>> fields_with_paths({"data": {"name": "json_lines", "path": "/home/ann/calls.jsonl"}})
    ['data.path']
    """
    return [path for path, value in flat(fields).items() if any(paths_in(value))]


def without_folders(value: Any) -> Any:
    """Plain data with the names of files and folders in place of absolute paths.

    >>> without_folders({"path": "/home/ann/calls.jsonl", "sizes": [3, "a/b"]})
    {'path': 'calls.jsonl', 'sizes': [3, 'a/b']}
    """
    if isinstance(value, dict):
        return {key: without_folders(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [without_folders(inner) for inner in value]
    return _name(value) if any(paths_in(value)) else value


def in_text(text: str, paths: Iterable[str]) -> str:
    """A text with the names of these absolute paths in their place."""
    for path in sorted(set(paths), key=len, reverse=True):
        text = text.replace(path, _name(path))
    return text


def in_word(word: str) -> str:
    """A word of a command, without the folders of absolute paths.

    >>> [in_word(word) for word in ("/home/ann/mine.yaml", "data.path=~/calls.jsonl", "a/b.yaml")]
    ['mine.yaml', 'data.path=calls.jsonl', 'a/b.yaml']
    >>> in_word("http://127.0.0.1:5000/runs"), in_word("sqlite:////home/ann/mlflow.db")
    ('http://127.0.0.1:5000/runs', 'sqlite://mlflow.db')
    """
    return _FOLDERS.sub(r"\1", word)


def _name(path: str) -> str:
    return PurePosixPath(path).name or path
