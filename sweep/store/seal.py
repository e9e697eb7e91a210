"""The seal of a YAML file: a comment in its last line with the SHA-256 of the lines before it.

A YAML file that is cut between two fields is a smaller valid one: a space without its budget. The
seal is written with the file in one step, so that no crash comes between both.
"""

from __future__ import annotations

import hashlib

_MARK = "# sha256 "


def add_seal(text: str) -> str:
    """Whole lines of text, and their seal.

    >>> is_whole(add_seal("a: 1\\nb: 2\\n")), is_whole("a: 1\\n")
    (True, False)
    """
    return f"{text}{_MARK}{_digest_of(text)}\n"


def is_whole(text: str) -> bool:
    """Whether a text ends with its seal."""
    body, mark, digest = text.rpartition(_MARK)
    return bool(mark) and digest == f"{_digest_of(body)}\n"


def _digest_of(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
