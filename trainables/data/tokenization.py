"""Tokenizations of a text; the choice is stated because spans and tags are counted in
tokens.
"""

import re
from typing import Literal, get_args

from trainables.errors import InvalidInput

Tokenization = Literal["space", "punctuation", "characters"]
TOKENIZATIONS: tuple[Tokenization, ...] = get_args(Tokenization)

# Signs inside a word stay in it: don't, e-mail, 10:30, 3.5, a@b.c
_WORD = r"\w+(?:[^\w\s]\w+)*"
# Letters of scripts that put no space between words.
_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff"
UNSPACED = re.compile(f"[{_UNSPACED}]")
_PATTERNS = {
    "space": re.compile(r"\S+"),
    "punctuation": re.compile(rf"{_WORD}|[^\w\s]"),
    "characters": re.compile(rf"[{_UNSPACED}]|(?:(?![{_UNSPACED}])\w)+|[^\w\s]"),
}


def places(text: str, *, tokenize: Tokenization = "space") -> list[tuple[int, int]]:
    """First character and one past the last of each token.

    `space` cuts at white space alone; `punctuation` makes each sign at the edge of a
    word a separate token; `characters` makes each sign and each letter of a script
    without spaces, such as Chinese, a separate token.

    >>> [("Hi Maria! 10:30?")[a:b] for a, b in places("Hi Maria! 10:30?", tokenize="punctuation")]
    ['Hi', 'Maria', '!', '10:30', '?']
    """
    pattern = _PATTERNS.get(tokenize)
    if pattern is None:
        allowed = " or ".join(TOKENIZATIONS)
        raise InvalidInput(f"expected --tokenize to be {allowed}, got {tokenize!r}")
    return list(map(re.Match.span, pattern.finditer(text)))


def tokens_of(text: str, *, tokenize: Tokenization = "space") -> tuple[str, ...]:
    """The tokens of a text, see `places`.

    >>> tokens_of("Call Maria!"), tokens_of("Call Maria!", tokenize="punctuation")
    (('Call', 'Maria!'), ('Call', 'Maria', '!'))
    """
    if tokenize == "space":
        return tuple(text.split())
    return tuple(text[start:end] for start, end in places(text, tokenize=tokenize))
