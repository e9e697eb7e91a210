"""The vocabulary of a parser: pieces of utterances, tokens of programs, copied
literals.

It is built from the parser's training pairs, which are public (or accounted for).
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from trainables.parse.graph import STRING
from trainables.parse.linearise import (
    LONG,
    NUMBER,
    PrefixState,
    anonymous,
    arity,
    delinearise,
    is_argument_name,
    is_let,
    linearise,
)
from trainables.parse.lispress import is_long, is_number, is_string, write

Literals = Literal["anon", "copy"]
UNKNOWN = 0
MAX_PIECES = 200  # of one utterance; the rest of a longer one is not read
MIN_COUNT = 2  # of a word, and of a number written as itself
MIN_FIXED = 3  # of a string that is not in its utterance, to be written as itself
# No atom has a space outside its quotes.
_COPIES = COPY_STRING, COPY_LONG = '"copy" string', "copy long/-"
_PIECE = re.compile(r"[^\W\d_]+|\d|[^\w\s]|_")
_PLACEHOLDERS = (STRING, f"{LONG}/-", f"{NUMBER}/-")


@dataclass(frozen=True)
class Source:
    """An utterance cut into pieces, as the parser reads it: the id of each piece in the
    vocabulary's `words` (0: unknown), and its place (start, end) in the `text` in
    characters.
    """

    text: str
    ids: tuple[int, ...]
    spans: tuple[tuple[int, int], ...]

    def text_of(self, first: int, last: int) -> str:
        """The text from piece `first` to piece `last`, both included."""
        return self.text[self.spans[first][0] : self.spans[last][1]]


def pieces(text: str) -> list[tuple[str, int, int]]:
    """Letter runs in lower case, single digits, punctuation: (piece, start, end).

    >>> pieces("At 12pm!")
    [('at', 0, 2), ('1', 3, 4), ('2', 4, 5), ('pm', 5, 7), ('!', 7, 8)]
    """
    found = [(m[0].lower(), m.start(), m.end()) for m in _PIECE.finditer(text)]
    return found[:MAX_PIECES] or [("", 0, 0)]


@dataclass(frozen=True)
class Vocabulary:
    """`words` of the source (id 0: unknown) and `tokens` of programs, in fixed orders
    that are their ids, and whether literals are copied from the utterance or written as
    placeholders. Made from training pairs by `of`; it reveals their frequent words.
    """

    words: tuple[str, ...]
    tokens: tuple[str, ...]
    literals: Literals

    @classmethod
    def of(
        cls, utterances: Sequence[str], programs: Sequence[str], *, literals: Literals
    ) -> Vocabulary:
        """The vocabulary of training pairs. Raises: LispressError for a malformed
        program.
        """
        words: Counter[str] = Counter()
        tokens: Counter[str] = Counter()
        fixed: Counter[str] = Counter()
        for utterance, program in zip(utterances, programs, strict=True):
            found = [piece for piece, _, _ in pieces(utterance)]
            words.update(found)
            for token in linearise(program):
                if anonymous(token) == token:
                    tokens[token] += 1
                elif literals == "copy" and not (
                    is_string(token) and _find(token, found)
                ):
                    fixed[token] += 1
        kept = [word for word, count in words.items() if count >= MIN_COUNT]
        for token, count in fixed.items():
            if count >= (MIN_FIXED if is_string(token) else MIN_COUNT):
                tokens[token] += count
        special = _PLACEHOLDERS + (_COPIES if literals == "copy" else ())
        written = sorted(tokens.keys() - set(special))
        return cls(("", *sorted(kept)), (*special, *written), literals)

    def source(self, utterance: str) -> Source:
        """An utterance as the parser reads it."""
        found = pieces(utterance)
        return Source(
            utterance,
            tuple(self._word_ids.get(piece, UNKNOWN) for piece, _, _ in found),
            tuple((start, end) for _, start, end in found),
        )

    def target(self, program: str, source: Source) -> list[int]:
        """Token ids; after a copy the first and last source piece, counted from
        `len(tokens)`.

        A literal that can be neither written nor copied becomes its placeholder. The
        program's calls must be among those that the vocabulary was made of.
        """
        ids: list[int] = []
        found = [piece for piece, _, _ in pieces(source.text)]
        for token in linearise(program):
            general = anonymous(token)
            may_copy = self.literals == "copy" and general != token
            span = _find(token, found) if may_copy else None
            if span and (is_string(token) or token not in self._token_ids):
                ids.append(
                    self._token_ids[COPY_STRING if is_string(token) else COPY_LONG]
                )
                ids += [len(self.tokens) + place for place in span]
            else:
                ids.append(
                    self._token_ids[token if token in self._token_ids else general]
                )
        return ids

    def program(self, ids: Sequence[int], source: Source) -> str:
        """The program of a whole sequence of ids.

        Raises: LispressError where it is incomplete.
        """
        tokens: list[str] = []
        rest = iter(ids)
        for index in rest:
            token = self.tokens[index]
            if token in _COPIES:
                first, last = (next(rest) - len(self.tokens) for _ in range(2))
                token = _literal(source.text_of(first, last), token)
            tokens.append(token)
        return write(delinearise(tokens))

    def is_copy(self, index: int) -> bool:
        """Whether two places in the source follow a token."""
        return self.tokens[index] in _COPIES

    def write(self, state: PrefixState, index: int) -> None:
        """Update a state with a written token."""
        state.write("0L/-" if self.is_copy(index) else self.tokens[index])

    @cached_property
    def costs(self) -> tuple[int, ...]:
        """Further choices that each token requires: its parts, or the two places of a
        copy.
        """
        return tuple(2 if token in _COPIES else arity(token) for token in self.tokens)

    @cached_property
    def fits(self) -> dict[str, tuple[bool, ...]]:
        """For each slot (see `PrefixState`), which tokens may stand in it."""
        names = set()
        for index, token in enumerate(self.tokens):
            atom = token.removesuffix("/-")
            literal = is_long(atom) or is_number(atom) or atom in ("true", "false")
            if atom != token and not literal and not self.is_copy(index):
                names.add(token)
        usable = tuple(bool(names) or not is_let(token) for token in self.tokens)
        return {
            "argument": usable,
            "expression": tuple(
                may and not is_argument_name(token)
                for may, token in zip(usable, self.tokens, strict=True)
            ),
            "name": tuple(token in names for token in self.tokens),
        }

    @cached_property
    def _word_ids(self) -> dict[str, int]:
        return {
            word: index for index, word in enumerate(self.words) if index != UNKNOWN
        }

    @cached_property
    def _token_ids(self) -> dict[str, int]:
        return {token: index for index, token in enumerate(self.tokens)}


def _find(token: str, found: Sequence[str]) -> tuple[int, int] | None:
    """First and last piece of a literal in the pieces of its utterance; None where it
    is not.
    """
    if is_string(token):
        text = _text(token)
    else:
        atom = token.removesuffix("/-")
        text = atom[:-1]
        if not is_long(atom) or not text.isdecimal():
            return None
    wanted = [piece for piece, _, _ in pieces(text)]
    if wanted == [""]:
        return None
    for start in range(len(found) - len(wanted) + 1):
        if list(found[start : start + len(wanted)]) == wanted:
            return start, start + len(wanted) - 1
    return None


def _text(token: str) -> str:
    """The value of a string token."""
    try:
        return str(json.loads(token, strict=False))
    except ValueError:
        return token[1:-1]


def _literal(copied: str, kind: str) -> str:
    if kind == COPY_STRING:
        return json.dumps(copied, ensure_ascii=False)
    digits = "".join(copied.split())
    return f"{digits}L/-" if digits.isascii() and digits.isdecimal() else f"{LONG}/-"
