"""Function types: the API calls and type names that a program uses (Mireshghallah et
al. 2022).

The paper counts "the set of unique, discrete node labels in the semantic parse tree,
corresponding to API methods". Here: heads of calls and names inside type arguments. Not
counted: `let`, variables, argument names, literals, `lambda` and its parameter list.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from trainables.errors import InvalidInput
from trainables.parse.graph import Graph, Kind, graph
from trainables.parse.lispress import Tree

_VARIABLE = re.compile(r"x[0-9]+")


def occurrences(
    program: str | Tree | Graph, *, kinds: tuple[Kind, ...] = ("call", "type")
) -> tuple[str, ...]:
    """Every occurrence, by default of heads of calls and of names of types; an
    expression that `let` binds counts once, at its definition.

    >>> occurrences('(let (x0 (Now)) (f x0 (^(Event) g x0)))')
    ('Now', 'Event', 'g', 'f')

    Raises: LispressError for a text that is no program.
    """
    nodes = (program if isinstance(program, Graph) else graph(program)).nodes
    return tuple(
        node.label
        for node in nodes
        if node.kind in kinds and not _VARIABLE.fullmatch(node.label)
    )


def function_types(
    program: str | Tree | Graph, *, kinds: tuple[Kind, ...] = ("call", "type")
) -> frozenset[str]:
    """The set of them. Raises: LispressError for a text that is no program."""
    return frozenset(occurrences(program, kinds=kinds))


def predicate(rule: str) -> Callable[[str | Tree | Graph], bool]:
    """Whether a program uses a function: `Name` exactly, or `Name*` for a prefix of
    names.

    `EventOnDate*` is the paper's "EventOnDate", `WeatherQueryApi` its "Weather".

    >>> predicate("EventOnDate*")('(Yield (EventOnDateTime (Now)))')
    True

    Raises: InvalidInput for an empty rule.
    """
    stem = rule.removesuffix("*")
    if not stem or not stem.strip():
        raise InvalidInput(
            f"expected a function name or a name with * at its end, got {rule!r}"
        )

    def uses(program: str | Tree | Graph) -> bool:
        found = function_types(program, kinds=("call",))
        if stem == rule:
            return rule in found
        return any(name.startswith(stem) for name in found)

    return uses
