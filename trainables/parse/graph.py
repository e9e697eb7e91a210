"""A program as a graph: calls, types and literals are nodes, `let` variables are shared
nodes.

As in Zhou et al. 2022 (microsoft/online_semantic_parsing), each call head is a node,
each name inside a type argument is a separate node, and literals are leaves. A `let`
adds only re-entrancy: its variable *is* the node of the bound expression.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Literal, TypeVar

from trainables.parse.lispress import (
    LispressError,
    Tree,
    arguments,
    canonical_atom,
    is_key,
    is_long,
    is_number,
    is_prefixed,
    is_string,
    read,
    write,
)

Part = TypeVar("Part")
Value = TypeVar("Value")


def run(step: Callable[[Part], Generator[Part, Value, Value]], part: Part) -> Value:
    """`step(part)`, where each `value = yield part` inside stands for a recursive call.

    >>> def depth(tree):
    ...     found = 0
    ...     for part in tree:
    ...         found = max(found, (yield part))
    ...     return found + 1
    >>> tree = ()
    >>> for _ in range(50_000):
    ...     tree = (tree,)
    >>> run(depth, tree)
    50001
    """
    open_steps = [step(part)]
    answer: Value | None = None
    while True:
        try:
            wanted = (
                next(open_steps[-1]) if answer is None else open_steps[-1].send(answer)
            )
        except StopIteration as stop:
            open_steps.pop()
            answer = stop.value
            if not open_steps:
                return stop.value  # type: ignore[no-any-return]  # StopIteration is untyped
        else:
            open_steps.append(step(wanted))
            answer = None


Kind = Literal[
    "call", "type", "string", "long", "number", "boolean", "constant", "structure"
]
STRING = '"STRING"'


@dataclass(frozen=True, slots=True)
class Node:
    """One node. `edges` are (name, index of the child), children always before parents.

    A positional argument's edge is "0", "1", ..., a named one's ":name", a type
    argument's "^0". Kind "structure" is syntax: an ascription "^", a lambda's
    parameter, `()`.
    """

    label: str
    kind: Kind
    edges: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Graph:
    """The nodes of a program, the root last. Unused bound expressions are included."""

    nodes: tuple[Node, ...]

    @property
    def root(self) -> int:
        """Index of the root."""
        return len(self.nodes) - 1


def graph(program: str | Tree) -> Graph:
    """The graph of a program, its arguments in canonical order, its numbers in
    canonical form.

    >>> for node in graph('(let (x0 (Now)) (f x0 (g x0)))').nodes:
    ...     print(node.label, node.edges)
    Now ()
    g (('0', 0),)
    f (('0', 0), ('1', 1))

    Raises: LispressError for a text that is no program, or a list that is no call.
    """
    builder = _Builder()
    root = run(builder.step, read(program) if isinstance(program, str) else program)
    nodes = builder.nodes
    if (
        root != len(nodes) - 1
    ):  # the body is a variable, or was bound before an unused one
        nodes = [*nodes, Node("let", "structure", (("0", root),))]
    return Graph(tuple(nodes))


def is_well_formed(text: str) -> bool:
    """Whether a text is a program of the grammar."""
    try:
        graph(text)
    except LispressError:
        return False
    return True


def serialize(of: Graph, root: int | None = None, *, anonymous: bool = False) -> str:
    """A text of the graph below `root`, with sharing, that is equal for equal graphs.

    With `anonymous` every string literal is the same. Numbers stay.

    >>> shared, twice = graph('(let (x0 (Now)) (f x0 x0))'), graph('(f (Now) (Now))')
    >>> serialize(shared), serialize(twice)
    ('(f 0:(Now) 1:@1)', '(f 0:(Now) 1:(Now))')
    """
    pieces: list[str] = []
    seen: dict[int, int] = {}
    todo: list[tuple[str, int]] = [("", of.root if root is None else root)]
    while todo:
        lead, index = todo.pop()
        if index < 0:
            pieces.append(")")
            continue
        pieces.append(lead)
        if index in seen:
            pieces.append(f"@{seen[index]}")
            continue
        seen[index] = len(seen)
        node = of.nodes[index]
        label = STRING if anonymous and node.kind == "string" else node.label
        pieces.append(f"({'^' if node.kind == 'type' else ''}{label}")
        todo.append(("", -1))
        todo.extend((f" {name}:", child) for name, child in reversed(node.edges))
    return "".join(pieces)


class _Builder:
    """Nodes in the order of completion, and the node of each variable."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self._bound: dict[str, int] = {}

    def step(self, tree: Tree) -> Generator[Tree, int, int]:
        """Add the nodes of `tree` and return the index of its top."""
        if isinstance(tree, str):
            return self._atom(tree)
        if not tree:
            return self._add("()", "structure")
        if is_prefixed(tree):
            return (yield from self._read_prefix(tree))
        head, rest = tree[0], tree[1:]
        if head == "let":
            return (yield from self._let(rest))
        if head == "lambda":
            return (yield from self._lambda(rest))
        if is_key(head):  # (:k X) is short for (get X #(Path "k"))
            return (yield from self._field(str(head)[1:], rest))
        name, types = _split(head)
        edges = [(f"^{place}", self._type(type_)) for place, type_ in enumerate(types)]
        for key, value in arguments(rest):
            edges.append((key, (yield value)))
        # Types and positional arguments in their order, then the named ones by name.
        ordered = sorted(edges, key=lambda edge: edge[0] if is_key(edge[0]) else "")
        return self._add(name, "call", tuple(ordered))

    def _atom(self, atom: str) -> int:
        if atom in self._bound:
            return self._bound[atom]
        if is_key(atom):
            raise LispressError(
                "expected an argument name inside a call, got one alone"
            )
        if is_string(atom):
            return self._add(canonical_atom(atom), "string")
        if is_long(atom):
            return self._add(atom, "long")
        if is_number(atom):
            return self._add(canonical_atom(atom), "number")
        return self._add(atom, "boolean" if atom in ("true", "false") else "call")

    def _read_prefix(self, tree: tuple[Tree, ...]) -> Generator[Tree, int, int]:
        if tree[0] == "^":
            type_ = self._type(tree[1])
            return self._add("^", "structure", (("^0", type_), ("0", (yield tree[2]))))
        match tree[1]:  # a literal of Lispress 1.0: its type and its value
            case ("String", str(text)) if is_string(text):
                return self._add(canonical_atom(text), "string")
            case ("Number", str(text)) if is_number(text):
                return self._add(canonical_atom(text), "number")
            case ("Boolean", ("true" | "false") as text):
                return self._add(str(text), "boolean")
            case constant:
                return self._add(write(constant), "constant")

    def _let(self, rest: tuple[Tree, ...]) -> Generator[Tree, int, int]:
        if len(rest) != 2 or isinstance(rest[0], str) or len(rest[0]) % 2:
            raise LispressError(
                "expected let with pairs of name and value, then one body"
            )
        bindings, body = rest
        outer: list[tuple[str, int | None]] = []
        for name, value in zip(bindings[::2], bindings[1::2], strict=True):
            if not isinstance(name, str) or is_string(name) or is_key(name):
                raise LispressError("expected let to bind names, got something else")
            index = yield value
            outer.append((name, self._bound.get(name)))
            self._bound[name] = index
        found = yield body
        self._restore(outer)
        return found

    def _lambda(self, rest: tuple[Tree, ...]) -> Generator[Tree, int, int]:
        if len(rest) != 2 or isinstance(rest[0], str):
            raise LispressError(
                "expected lambda with a list of parameters, then one body"
            )
        parameters = (rest[0],) if is_prefixed(rest[0]) else rest[0]
        outer: list[tuple[str, int | None]] = []
        edges: list[tuple[str, int]] = []
        for place, parameter in enumerate(parameters):
            name, type_ = _parameter(parameter)
            below = () if type_ is None else (("^0", self._type(type_)),)
            index = self._add("parameter", "structure", below)
            edges.append((f"parameter{place}", index))
            outer.append((name, self._bound.get(name)))
            self._bound[name] = index
        edges.append(("0", (yield rest[1])))
        self._restore(outer)
        return self._add("lambda", "structure", tuple(edges))

    def _field(self, name: str, rest: tuple[Tree, ...]) -> Generator[Tree, int, int]:
        if len(rest) != 1:
            raise LispressError(
                f"expected one object whose field is read, got {len(rest)}"
            )
        subject = yield rest[0]
        path = self._add(f'(Path "{name}")', "constant")
        return self._add("get", "call", (("0", subject), ("1", path)))

    def _type(self, tree: Tree) -> int:
        return run(self._type_step, tree)

    def _type_step(self, tree: Tree) -> Generator[Tree, int, int]:
        if isinstance(tree, str):
            if is_string(tree) or is_key(tree):
                raise LispressError("expected a type to be a name, got something else")
            return self._add(tree, "type")
        if not tree or not isinstance(tree[0], str) or tree[0] in ("^", "#"):
            raise LispressError("expected a type to be a name or (name types...)")
        edges = []
        for place, part in enumerate(tree[1:]):
            edges.append((f"^{place}", (yield part)))
        return self._add(tree[0], "type", tuple(edges))

    def _add(
        self, label: str, kind: Kind, edges: tuple[tuple[str, int], ...] = ()
    ) -> int:
        self.nodes.append(Node(label, kind, edges))
        return len(self.nodes) - 1

    def _restore(self, outer: list[tuple[str, int | None]]) -> None:
        for name, index in reversed(outer):
            if index is None:
                del self._bound[name]
            else:
                self._bound[name] = index


def _split(head: Tree) -> tuple[str, tuple[Tree, ...]]:
    """The name of a call and its type arguments, from `f` or `^(T ...) f`."""
    if isinstance(head, tuple) and is_prefixed(head) and head[0] == "^":
        types = head[1] if isinstance(head[1], tuple) else (head[1],)
        name = head[2]
    else:
        types, name = (), head
    if not isinstance(name, str) or is_string(name) or is_key(name) or is_long(name):
        raise LispressError(
            "expected a call to begin with a function's name, got something else"
        )
    return name, types


def _parameter(tree: Tree) -> tuple[str, Tree | None]:
    match tree:
        case str(name) if not is_string(name) and not is_key(name):
            return name, None
        case ("^", type_, str(name)) if not is_string(name) and not is_key(name):
            return name, type_
        case _:
            raise LispressError("expected a lambda's parameter as name or ^type name")
