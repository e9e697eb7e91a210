"""Slots marked in the text itself, `[slot : value]`, as NLU-EVAL and MASSIVE have them."""

from __future__ import annotations

import re

from trainables.errors import InvalidData

_MARK = re.compile(r"\[\s*([^\[\]:]+?)\s*:\s*([^\[\]]*?)\s*\]")


def parse_annotation(text: str, *, where: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Tokens, cut at white space and at the edges of slots, and their BIO tags.

    >>> parse_annotation("wake me at [time : nine am], ok", where="a doctest")
    (('wake', 'me', 'at', 'nine', 'am', ',', 'ok'), ('O', 'O', 'O', 'B-time', 'I-time', 'O', 'O'))

    Raises: InvalidData naming `where` for a mark that is not closed or lacks its name or its value,
    or no token at all.
    """
    tokens: list[str] = []
    tags: list[str] = []
    end = 0
    for mark in _MARK.finditer(text):
        _outside(text[end : mark.start()], tokens, tags, where)
        value = mark[2].split()
        slot = "_".join(mark[1].split())
        if not value or not slot:
            raise InvalidData(f"expected a name and a value in each slot in {where}")
        tokens += value
        tags += [f"{'I' if place else 'B'}-{slot}" for place in range(len(value))]
        end = mark.end()
    _outside(text[end:], tokens, tags, where)
    if not tokens:
        raise InvalidData(f"expected at least one token in {where}, got none")
    return tuple(tokens), tuple(tags)


def _outside(text: str, tokens: list[str], tags: list[str], where: str) -> None:
    if "[" in text or "]" in text:
        raise InvalidData(f"expected slots as [name : value] in {where}, got a bracket alone")
    words = text.split()
    tokens += words
    tags += ["O"] * len(words)
