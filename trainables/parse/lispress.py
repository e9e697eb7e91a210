"""Lispress, the S-expressions of SMCalFlow and TreeDST (Semantic Machines et al., TACL
2020).

    program := expression expression := symbol | string | '(' expression* ')' | '^'
    expression expression | '#' expression

A tree is plain data: an atom is a `str` (a string keeps its quotes and escapes), a list
is a tuple of trees, `^T e` is ("^", T, e) and `#e` is ("#", e). No symbol is "^" or
"#", so nothing clashes. Reading and writing use no recursion: depth costs memory, never
the stack. Deep trees must not be compared with `==`, which recurses; compare what
`write` gives.
"""

import re
from collections.abc import Sequence
from typing import TypeAlias

from trainables.errors import InvalidInput

Tree: TypeAlias = "str | tuple[Tree, ...]"

_TOKEN = re.compile(
    r"""\s*(?:(?P<mark>[()^#])
      | (?P<string>"(?:[^"\\]|\\.)*")
      | (?P<symbol>(?:[^\s()"#^\\]|\\.)+)
      | (?P<bad>\S))""",
    re.VERBOSE | re.DOTALL,
)
_LONG = re.compile(r"[-+]?[0-9]+L")
_NUMBER = re.compile(r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]{1,3})?")
_ARITY = {"^": 2, "#": 1}


class LispressError(InvalidInput):
    """A malformed program. The message states the problem and the character, never the
    text.
    """


def read(text: str) -> Tree:
    r"""The tree of one program.

    >>> read('(Yield (> ^Long (size x0) 0L))')
    ('Yield', ('>', ('^', 'Long', ('size', 'x0')), '0L'))
    >>> read('(f "a (quoted) \\" b" #(Path "k"))')
    ('f', '"a (quoted) \\" b"', ('#', ('Path', '"k"')))

    Raises: LispressError for brackets or quotes that do not match, nothing at all, or
    more than one expression.
    """
    # Each open frame: its mark, its parts so far. The bottom one collects the program
    # itself.
    frames: list[tuple[str, list[Tree]]] = [("", [])]
    position, end = 0, len(text.rstrip())
    while position < end:
        token = _TOKEN.match(text, position)
        if token is None or token["bad"] is not None:
            raise LispressError(
                f"expected a token at character {position}, got a broken one"
            )
        position = token.end()
        mark = token["mark"]
        if mark == ")":
            opened, parts = frames.pop()
            if opened != "(":
                raise LispressError(
                    f"expected no ')' at character {position - 1}, nothing is open"
                )
            frames[-1][1].append(tuple(parts))
        elif mark is not None:
            frames.append((mark, []))
            continue
        else:
            frames[-1][1].append(token["string"] or token["symbol"])
        # A prefix is complete with its last operand, and so perhaps is the prefix
        # around it.
        while len(frames[-1][1]) == _ARITY.get(frames[-1][0]):
            opened, parts = frames.pop()
            frames[-1][1].append((opened, *parts))
    if len(frames) > 1:
        raise LispressError(
            f"expected the end of {len(frames) - 1} open parts, the program ends"
        )
    found = frames[0][1]
    if len(found) != 1:
        raise LispressError(f"expected one expression, got {len(found)}")
    return found[0]


def write(tree: Tree) -> str:
    """The program on one line, with single spaces: `read` gives the same tree again.

    >>> write(read('( Yield  ( > ^Long (size x0)\\n0L ) )'))
    '(Yield (> ^Long (size x0) 0L))'
    """
    pieces: list[str] = []
    todo: list[Tree | None] = [tree]  # None closes a list
    glued = True  # no space before the next piece
    while todo:
        item = todo.pop()
        if item is None:
            pieces.append(")")
            glued = False
            continue
        if not glued:
            pieces.append(" ")
        if isinstance(item, str):
            pieces.append(item)
            glued = False
        elif is_prefixed(item):
            pieces.append(str(item[0]))
            todo.extend(reversed(item[1:]))
            glued = True
        else:
            pieces.append("(")
            todo.append(None)
            todo.extend(reversed(item))
            glued = True
    return "".join(pieces)


def canonical_atom(atom: str) -> str:
    """One atom in canonical form.

    >>> canonical_atom('5'), canonical_atom('5L'), canonical_atom('" a b "'), canonical_atom('-')
    ('5.0', '5L', '"a b"', '-')
    """
    if is_string(atom):
        return f'"{atom[1:-1].strip()}"'
    return f"{float(atom):.1f}" if is_number(atom) else atom


def is_prefixed(tree: Tree) -> bool:
    """Whether this is `^T e` or `#e`."""
    return isinstance(tree, tuple) and len(tree) > 1 and tree[0] in ("^", "#")


def is_string(atom: str) -> bool:
    """Whether an atom is a quoted string."""
    return atom.startswith('"')


def is_key(tree: Tree) -> bool:
    """Whether this is the name of a named argument, `:name`."""
    return isinstance(tree, str) and tree.startswith(":") and len(tree) > 1


def is_long(atom: str) -> bool:
    """Whether an atom is a Long, such as 12L."""
    return _LONG.fullmatch(atom) is not None


def is_number(atom: str) -> bool:
    """Whether an atom is a Number, such as 0.5 or 3."""
    return _NUMBER.fullmatch(atom) is not None


def arguments(parts: Sequence[Tree]) -> list[tuple[str, Tree]]:
    """(name, value) of each argument: named ones as `:name`, the others by position,
    "0", "1", ...

    >>> arguments(("a", ":k", "b", "c"))
    [('0', 'a'), (':k', 'b'), ('1', 'c')]

    Raises: LispressError for a name without a value.
    """
    found: list[tuple[str, Tree]] = []
    position = 0
    rest = iter(parts)
    for part in rest:
        if is_key(part):
            value = next(rest, None)
            if value is None or is_key(value):
                raise LispressError(
                    "expected a value after each argument name, got none"
                )
            found.append((str(part), value))
        else:
            found.append((str(position), part))
            position += 1
    return found
