"""The form of programs in which equal ones are equal texts."""

from __future__ import annotations

from trainables.parse.lispress import (
    LispressError,
    Tree,
    arguments,
    canonical_atom,
    is_key,
    read,
    write,
)


def canonical(program: str | Tree) -> str:
    """The form in which equal programs are equal texts.

    Named arguments sorted by name, bare numbers with one decimal, strings without outer spaces
    (the rule of the SMCalFlow leaderboard).

    Raises: LispressError for a text that is no program.
    """
    tree = read(program) if isinstance(program, str) else program
    return write(_rebuild(tree))


def _rebuild(tree: Tree) -> Tree:
    """The tree with its atoms and named arguments in canonical form."""
    done: list[Tree] = []
    todo: list[tuple[Tree, bool]] = [(tree, False)]
    while todo:
        item, seen = todo.pop()
        if isinstance(item, str):
            done.append(canonical_atom(item))
        elif not seen:
            todo.append((item, True))
            todo.extend((part, False) for part in reversed(item))
        else:
            parts = done[len(done) - len(item) :]
            del done[len(done) - len(item) :]
            done.append(_sorted_arguments(parts))
    return done[0]


def _sorted_arguments(parts: list[Tree]) -> Tree:
    """Positional arguments in their order, then the named ones by name."""
    if not any(is_key(part) for part in parts[1:]):
        return tuple(parts)
    try:
        pairs = arguments(parts[1:])
    except LispressError:
        return tuple(parts)  # readable, though no call: left as it is
    named = sorted((pair for pair in pairs if is_key(pair[0])), key=lambda pair: pair[0])
    unnamed = [value for name, value in pairs if not is_key(name)]
    return (parts[0], *unnamed, *(part for pair in named for part in pair))
