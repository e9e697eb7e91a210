"""A program as a flat sequence: prefix notation in which every token states its arity.

    (Yield (> (size x0) 0L))   ->   Yield/1  >/2  size/1  x0/-  0L/-

It is lossless and a third as long as the bracket form. A decoder that counts open parts
can only write complete programs. A call with type arguments is one token; so is a
lambda with its parameter; a named argument is a token of arity 1 around its value.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from trainables.parse.graph import STRING
from trainables.parse.lispress import (
    LispressError,
    Tree,
    arguments,
    is_key,
    is_long,
    is_number,
    is_prefixed,
    is_string,
    read,
    write,
)

LONG, NUMBER = "0L", "0.0"  # what numbers become where literals are anonymous
_ATOM = "/-"
_FIELD = "(:"  # the call (:k X), apart from the argument :k X
_LAMBDA, _AS = "lambda ", "as "  # no symbol has a space


def linearise(program: str | Tree) -> list[str]:
    """The tokens of a program. A string is a separate token, quotes included.

    >>> linearise('(let (x0 (Now)) (^(T) f x0 :key "a b"))')
    ['let/3', 'x0/-', 'Now/0', '^(T) f/2', 'x0/-', ':key/1', '"a b"']

    Raises: LispressError for what is no program.
    """
    found: list[str] = []
    todo: list[Tree | _Named] = [read(program) if isinstance(program, str) else program]
    while todo:
        todo.extend(reversed(_children(todo.pop(), found)))
    return found


def delinearise(tokens: Iterable[str]) -> Tree:
    """The tree of the tokens of one program.

    Raises: LispressError where tokens are missing or left over, or a token is none of
    `linearise`.
    """
    # Each open token, the children it needs, those it has.
    waiting: list[tuple[str, int, list[Tree | _Named]]] = []
    done: Tree | _Named | None = None
    for token in tokens:
        if done is not None:
            raise LispressError("expected the end of the tokens, got more")
        waiting.append((token, arity(token), []))
        while waiting and waiting[-1][1] == len(waiting[-1][2]):
            name, _, children = waiting.pop()
            tree = _assemble(name, children)
            if waiting:
                waiting[-1][2].append(tree)
            else:
                done = tree
    if done is None:
        raise LispressError(
            f"expected more tokens, {len(waiting)} calls are open at the end"
        )
    if isinstance(done, _Named):
        raise LispressError(
            "expected a named argument inside a call, got one elsewhere"
        )
    return done


def arity(token: str) -> int:
    """How many parts follow a token.

    >>> arity('f/2'), arity('x0/-'), arity('"a/3"')
    (2, 0, 0)

    Raises: LispressError for what is no token.
    """
    if is_string(token) or token.endswith(_ATOM):
        return 0
    _, slash, digits = token.rpartition("/")
    if not slash or not (digits.isascii() and digits.isdecimal()):
        raise LispressError("expected a token that states its arity, got another")
    return int(digits)


def is_argument_name(token: str) -> bool:
    """Whether a token names an argument of the call around it; ":" alone is a
    function's name.
    """
    return token.startswith(":") and token.rpartition("/")[0] != ":"


def is_let(token: str) -> bool:
    """Whether a token binds names; its even children but the last are the names."""
    return token.startswith("let/")


def is_call(token: str) -> bool:
    """Whether a token is a call of a named function, whose children may be named
    arguments.
    """
    if (
        is_string(token)
        or token.endswith(_ATOM)
        or token in ("()/0", "#/1")
        or is_let(token)
    ):
        return False
    return not (is_argument_name(token) or token.startswith((_FIELD, _AS, _LAMBDA)))


def anonymous(token: str) -> str:
    """A token with its literal, if it is one, replaced by a placeholder.

    >>> anonymous('"lunch"'), anonymous('12L/-'), anonymous('0.5/-'), anonymous('true/-')
    ('"STRING"', '0L/-', '0.0/-', 'true/-')
    """
    if is_string(token):
        return STRING
    atom = token.removesuffix(_ATOM)
    if atom == token:
        return token
    if is_long(atom):
        return LONG + _ATOM
    return NUMBER + _ATOM if is_number(atom) else token


def anonymise(program: str | Tree) -> str:
    """A program without the values of its strings and numbers.

    >>> anonymise('(f "lunch" 12L)')
    '(f "STRING" 0L)'
    """
    return write(delinearise(anonymous(token) for token in linearise(program)))


@dataclass(frozen=True, slots=True)
class _Named:
    """A named argument that is being assembled."""

    name: str
    value: Tree


def _children(tree: Tree | _Named, found: list[str]) -> Sequence[Tree | _Named]:
    """Append the token of `tree` and return its children."""
    if isinstance(tree, _Named):
        found.append(f"{tree.name}/1")
        return (tree.value,)
    if isinstance(tree, str):
        if is_key(tree):
            raise LispressError(
                "expected an argument name inside a call, got one alone"
            )
        found.append(tree if is_string(tree) else tree + _ATOM)
        return ()
    if not tree:
        found.append("()/0")
        return ()
    head, rest = tree[0], tree[1:]
    if is_prefixed(tree):
        found.append("#/1" if head == "#" else f"{_AS}{write(tree[1])}/1")
        return tree[-1:]
    if head == "let":
        if len(rest) != 2 or isinstance(rest[0], str) or len(rest[0]) % 2:
            raise LispressError(
                "expected let with pairs of name and value, then one body"
            )
        found.append(f"let/{len(rest[0]) + 1}")
        return (*rest[0], rest[1])
    if head == "lambda":
        if len(rest) != 2:
            raise LispressError(
                "expected lambda with a list of parameters, then one body"
            )
        found.append(f"{_LAMBDA}{write(rest[0])}/1")
        return rest[1:]
    if is_key(head):
        if len(rest) != 1:
            raise LispressError(
                f"expected one object whose field is read, got {len(rest)}"
            )
        found.append(f"({head}/1")
        return rest
    named = is_prefixed(head) and isinstance(head[2], str) and head[0] == "^"
    if not named and (not isinstance(head, str) or is_string(head)):
        raise LispressError(
            "expected a call to begin with a function's name, got something else"
        )
    parts = [
        _Named(name, value) if is_key(name) else value
        for name, value in arguments(rest)
    ]
    found.append(f"{write(head)}/{len(parts)}")
    return parts


def _assemble(token: str, children: Sequence[Tree | _Named]) -> Tree | _Named:
    """The tree of a token and its children."""
    if is_string(token):
        return token
    name, _, _ = token.rpartition("/")
    if token.endswith(_ATOM):
        return name
    if is_call(token):
        parts: list[Tree] = [read(name)]
        for child in children:
            parts += (
                (child.name, child.value) if isinstance(child, _Named) else (child,)
            )
        return tuple(parts)
    trees = [child for child in children if not isinstance(child, _Named)]
    if len(trees) != len(children):
        raise LispressError(
            "expected a named argument inside a call, got one elsewhere"
        )
    if name == "()":
        return ()
    if name == "let":
        return ("let", tuple(trees[:-1]), trees[-1])
    if name == "#":
        return ("#", trees[0])
    if name.startswith(_AS):
        return ("^", read(name.removeprefix(_AS)), trees[0])
    if name.startswith(_LAMBDA):
        return ("lambda", read(name.removeprefix(_LAMBDA)), trees[0])
    if name.startswith(_FIELD):
        return (name[1:], trees[0])
    return _Named(name, trees[0])


# "expression": anything but a named argument; "argument": that too; "name": a
# variable's name.
Slot = Literal["expression", "argument", "name"]
SLOTS: tuple[Slot, ...] = ("expression", "argument", "name")


@dataclass(slots=True)
class PrefixState:
    """A program of which some tokens were written: which may follow, and its end. A
    writer that checks it before every token, and keeps a budget, can only write
    complete programs.

    >>> state = PrefixState()
    >>> for token in ("let/3", "x0/-", "Now/0"):
    ...     print(state.slot, state.pending)
    ...     state.write(token)
    expression 1
    name 3
    expression 2
    >>> state.slot, state.pending
    ('expression', 1)
    """

    pending: int = 1  # parts that are still missing; 0 where the program is complete
    # Open tokens: what their parts are (None: let's, which alternate), parts needed,
    # parts had.
    _open: list[tuple[Slot | None, int, int]] = field(default_factory=list)

    @property
    def slot(self) -> Slot:
        """The kind of the next token."""
        if not self._open:
            return "expression"
        kind, needed, had = self._open[-1]
        if kind is not None:
            return kind
        return "name" if had % 2 == 0 and had < needed - 1 else "expression"

    def write(self, token: str) -> None:
        """Append one token, which must fit the slot."""
        needed = arity(token)
        self.pending += needed - 1
        if self._open:
            kind, needs, had = self._open[-1]
            self._open[-1] = (kind, needs, had + 1)
        if needed:
            parts: Slot | None = "expression"
            if is_let(token):
                parts = None
            elif is_call(token):
                parts = "argument"
            self._open.append((parts, needed, 0))
        while self._open and self._open[-1][1] == self._open[-1][2]:
            self._open.pop()
