"""The faults: every place of a Python source where one can be put, and what stands there then.

`KINDS` are those that a wrong guarantee is made of; the others are slips of a single token.

Left alone are annotations, docstrings, decorators, the text of errors and `__repr__`: no result
depends on them.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any


def pairs_in(text: str) -> dict[str, str]:
    """What stands in place of what, from words in twos."""
    return dict(pair.split() for pair in text.split(", "))


COMPARE: dict[type, tuple[type, ...]] = {
    getattr(ast, one): tuple(getattr(ast, other) for other in others.split("/"))
    for one, others in pairs_in(
        "Lt LtE/GtE, LtE Lt/Gt, Gt GtE/LtE, GtE Gt/Lt, Eq NotEq, NotEq Eq, Is IsNot, IsNot Is,"
        " In NotIn, NotIn In"
    ).items()
}
ARITHMETIC: dict[type, type] = {
    getattr(ast, one): getattr(ast, other)
    for one, other in pairs_in(
        "Add Sub, Sub Add, Mult Div, Div Mult, FloorDiv Mult, Mod Mult, Pow Mult, BitOr BitAnd,"
        " BitAnd BitOr, BitXor BitOr, LShift RShift, RShift LShift"
    ).items()
}
_PAIRS = pairs_in(
    "min max, minimum maximum, amin amax, argmin argmax, floor ceil, log log1p, exp expm1, isf ppf,"
    " sf cdf, add_ sub_, mul_ div_, mean sum, any all, zeros ones, zeros_like ones_like,"
    " new_zeros new_ones"
)
RENAMED = _PAIRS | {b: a for a, b in _PAIRS.items()}
_UNWRAPPED = {"sqrt", "abs", "exp", "expm1", "log", "log1p", "square", "ceil", "floor", "sorted"}
_LEFT_OUT = _UNWRAPPED | {
    *("sqrt_", "square_", "abs_", "clamp", "clamp_", "clip", "reciprocal", "nan_to_num"),
    *("cumsum", "double", "clone", "copy", "masked_fill", "mul_", "div_", "neg", "digest", "t"),
}
# `x.f(...)` -> `x`, `f(x)` -> `x` of any function but these, which convert nothing
_LEFT_OUT |= {"first", "scale_noise", "quieter", "model_copy", "detach", "to_dense", "float"}
_CONVERT_NOTHING = {
    *("len", "range", "iter", "next", "enumerate", "reversed", "type", "str", "int", "float"),
    *("bool", "tuple", "list", "all", "any", "sum", "max", "min", "cast", "repr", "super", "print"),
}
_SECRET = {"randbits": "0", "token_bytes": "bytes(32)", "urandom": "bytes(32)"}
KINDS = (
    *("sum or largest", "conversion left out", "entry swallowed", "part forgotten", "one end"),
    *("one mode", "seed or key"),
)
_SYMMETRIC = {"min", "max", "minimum", "maximum", "hypot", "dot", "allclose", "array_equal"}
_NAMES_STREAMS = {"stream", "coins", "generator", "stream_seed"}


@dataclass(frozen=True)
class Mutant:
    """One fault. `key` names it whatever lines are added elsewhere in the file."""

    file: str
    key: str
    operator: str
    where: str  # the function or class, dotted; "" for the module
    before: str
    after: str
    lines: tuple[int, int]  # of the statement
    at_import: bool  # it runs when the module is imported, not when a function is called


@dataclass
class _Spot:
    parent: ast.AST
    field: str
    index: int | None
    operator: str
    new: Any
    before: str
    statement: ast.stmt
    where: str
    at_import: bool

    def put(self) -> None:
        if self.index is None:
            setattr(self.parent, self.field, self.new)
        elif self.new is None:
            del getattr(self.parent, self.field)[self.index]
        else:
            getattr(self.parent, self.field)[self.index] = self.new


def mutants_of(source: str, file: str) -> list[Mutant]:
    """Every mutant of a source that compiles to other code than it."""
    return [mutant for mutant, _ in _named(ast.parse(source), file)]


def mutated(source: str, mutant: Mutant) -> ast.Module:
    """The tree of `source` with the fault.

    Raises: KeyError where the source has no such place any more.
    """
    tree = ast.parse(source)
    for found, spot in _named(tree, mutant.file):
        if found.key == mutant.key:
            spot.put()
            return ast.fix_missing_locations(tree)
    raise KeyError(mutant.key)


def _named(tree: ast.Module, file: str) -> Iterator[tuple[Mutant, _Spot]]:
    seen: Counter[str] = Counter()
    for spot in list(_Walk().spots(tree)):
        after = "" if spot.new is None else _text(spot.new)
        if after == spot.before:
            continue
        key = f"{file}::{spot.where}::{spot.operator}::{spot.before} -> {after}"
        seen[key] += 1
        lines = (spot.statement.lineno, _end(spot.statement))
        yield (
            Mutant(
                file=file, key=f"{key}::{seen[key]}", operator=spot.operator, where=spot.where,
                before=spot.before, after=after, lines=lines, at_import=spot.at_import,
            ),
            spot,
        )  # fmt: skip


def _end(statement: ast.stmt) -> int:
    """The last line of a statement's head."""
    body = getattr(statement, "body", None)
    if isinstance(body, list) and body:
        return max(statement.lineno, body[0].lineno - 1)
    return statement.end_lineno or statement.lineno


def _text(node: Any) -> str:
    return " ".join(ast.unparse(ast.fix_missing_locations(node)).split())


class _Walk:
    """Visits what may be mutated, with the names around it."""

    def spots(self, tree: ast.Module) -> Iterator[_Spot]:
        """Every place with every fault that fits there."""
        yield from self._children(tree, "", True, tree.body[0])

    def _children(
        self, node: ast.AST, where: str, at_import: bool, statement: ast.stmt
    ) -> Iterator[_Spot]:
        for field, value in ast.iter_fields(node):
            if field in ("annotation", "returns", "decorator_list", "type_comment", "bases"):
                continue
            many = isinstance(value, list)
            for place, child in enumerate(value if many else [value]):
                if isinstance(child, ast.AST) and not _is_left_alone(child, node):
                    index = place if many else None
                    yield from self._child(node, field, index, child, where, at_import, statement)

    def _child(
        self,
        parent: ast.AST,
        field: str,
        index: int | None,
        child: ast.AST,
        where: str,
        at_import: bool,
        statement: ast.stmt,
    ) -> Iterator[_Spot]:
        if isinstance(child, ast.stmt):
            statement = child
        if isinstance(child, ast.Return):
            child.is_of_key = "key" in where  # type: ignore[attr-defined]
        for operator, new, old in _faults(child, parent):
            yield _Spot(parent, field, index, operator, new, old, statement, where, at_import)
        if isinstance(child, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef):
            name = f"{where}.{child.name}" if where else child.name
            if isinstance(child, ast.ClassDef):
                yield from self._children(child, name, at_import, statement)
            else:
                yield from self._children(child.args, name, at_import, statement)
                body = ast.Module(body=[], type_ignores=[])
                body.body = child.body  # the same list: what is put there is put here
                yield from self._children(body, name, False, statement)
        else:
            yield from self._children(child, where, at_import, statement)


def _is_left_alone(node: ast.AST, parent: ast.AST) -> bool:
    match node:
        case ast.JoinedStr() | ast.Assert() | ast.Import() | ast.ImportFrom() | ast.Global():
            return True
        case ast.FunctionDef(name="__repr__" | "__str__") | ast.Expr(value=ast.Constant()):
            return True
        case ast.ClassDef(bases=bases):
            return any(_name(base) in ("Protocol", "Structure") for base in bases)
        case ast.If(test=test):
            return "TYPE_CHECKING" in ast.unparse(test)
        case ast.Subscript(value=value) if _name(value) in ("Callable", "Literal", "NDArray"):
            return True  # a type that has a name
        case ast.Call(func=ast.Attribute(attr="warn")):
            return True
    return isinstance(parent, ast.Raise)


def _same(node: ast.AST) -> Any:
    """A copy with its places, to be changed."""
    copy = _parsed(ast.unparse(node)) if isinstance(node, ast.expr) else node
    return ast.copy_location(copy, node)


def _faults(node: ast.AST, parent: ast.AST) -> Iterator[tuple[str, Any, str]]:
    """(operator, what stands there then or None for nothing, what stood there)."""
    if isinstance(node, ast.expr):
        text = _text(node)
        for operator, new in _expression(node, parent):
            yield operator, ast.copy_location(new, node), text
    elif isinstance(node, ast.stmt):
        for operator, new in _statement(node):
            yield operator, ast.copy_location(new, node), _text(node)
    elif isinstance(node, ast.keyword) and node.arg and isinstance(parent, ast.Call):
        kind = "part forgotten" if _name(parent.func) == "replace" else "argument left out"
        yield kind, None, _text(node.value) + f" as {node.arg}"
        if node.arg == "secure":
            public = ast.keyword(node.arg, ast.Constant(False))
            yield "seed or key", public, _text(node.value) + f" as {node.arg}"
    elif isinstance(node, ast.comprehension):
        for test in node.ifs:
            rest = ast.comprehension(
                node.target, node.iter, [t for t in node.ifs if t is not test], node.is_async
            )
            yield "filter left out", rest, _text(test)
        for part in _but_one(node.iter):
            rest = ast.comprehension(node.target, part, node.ifs, node.is_async)
            yield "part forgotten", rest, _text(node.iter)


def _parsed(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


def _but_one(many: ast.expr) -> list[ast.expr]:
    """What is iterated over without its first and without its last."""
    whole = isinstance(many, ast.Call | ast.Name | ast.Attribute)
    return [_parsed(f"list({_text(many)}){part}") for part in ("[1:]", "[:-1]") if whole]


def _statement(node: ast.stmt) -> Iterator[tuple[str, ast.stmt]]:
    is_call = isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
    stores = isinstance(node, ast.Assign) and not isinstance(node.targets[0], ast.Name | ast.Tuple)
    if is_call or stores or isinstance(node, ast.Raise | ast.Continue | ast.Break):
        yield "statement left out", ast.Pass()
        yield from _swallowed(node)
    elif isinstance(node, ast.AugAssign):
        yield "statement left out", ast.Pass()
        yield "entry swallowed", ast.Assign([node.target], node.value)
        if isinstance(node.op, ast.Add):
            largest = _parsed(f"max({_text(node.target)}, {_text(node.value)})")
            yield "sum or largest", ast.Assign([node.target], largest)
        if type(node.op) in ARITHMETIC:
            other = ARITHMETIC[type(node.op)]()
            yield "operator", ast.AugAssign(node.target, other, node.value)
    elif isinstance(node, ast.If):
        refuses = isinstance(node.body[-1], ast.Raise)
        for value in (True, False):
            name = f"condition {value}" if refuses else "one mode"
            yield name, ast.If(ast.Constant(value), node.body, node.orelse)
    elif isinstance(node, ast.For):
        for part in _but_one(node.iter):
            yield "part forgotten", ast.For(node.target, part, node.body, node.orelse)


def _swallowed(node: ast.stmt) -> Iterator[tuple[str, ast.stmt]]:
    """The first entry of a key stays, or the last of a list alone."""
    text = _text(node)
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Subscript):
        place = node.targets[0]
        is_part = any(isinstance(inner, ast.Slice) for inner in ast.walk(place))
        # What is no attribute is mostly new and has no earlier entry.
        if isinstance(place.value, ast.Attribute) and not is_part:
            text = f"{_text(place.value)}.setdefault({_text(place.slice)}, {_text(node.value)})"
            yield "entry swallowed", ast.parse(text).body[0]
    elif isinstance(node, ast.Expr) and isinstance(call := node.value, ast.Call):
        name, args = _name(call.func), call.args
        if name in ("append", "extend", "add", "update") and len(args) == 1:
            here = _text(call.func.value)  # type: ignore[attr-defined]
            one = f"[{_text(args[0])}]" if name == "append" else _text(args[0])
            alone = name in ("append", "extend")
            text = f"{here}[:] = {one}" if alone else f"{here}.clear(); {text}"
            yield "entry swallowed", ast.If(ast.Constant(True), ast.parse(text).body, [])


def _expression(node: ast.expr, parent: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    if isinstance(node, ast.Compare):
        for place, op in enumerate(node.ops):
            for other in COMPARE[type(op)]:
                new = _same(node)
                new.ops[place] = other()
                yield "comparison", new
        if len(node.ops) == 2:
            yield "one end", ast.Compare(node.left, node.ops[:1], node.comparators[:1])
            yield "one end", ast.Compare(node.comparators[0], node.ops[1:], node.comparators[1:])
        elif _is_text(node.comparators[0]):
            yield "one mode", ast.Constant(True)
            yield "one mode", ast.Constant(False)
    elif isinstance(node, ast.BinOp):
        yield from _arithmetic(node)
    elif isinstance(node, ast.BoolOp):
        other_op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        yield "and/or", ast.BoolOp(other_op, node.values)
        for value in node.values:
            rest = [v for v in node.values if v is not value]
            yield "one end", rest[0] if len(rest) == 1 else ast.BoolOp(node.op, rest)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not | ast.USub):
        yield "sign or not left out", node.operand
    elif isinstance(node, ast.IfExp):
        yield "one mode", node.body
        yield "one mode", node.orelse
    elif isinstance(node, ast.Constant):
        yield from _constant(node, parent)
    elif isinstance(node, ast.Call):
        yield from _call(node)
    elif isinstance(node, ast.Slice):
        yield from _slice(node)
    elif isinstance(node, ast.Tuple | ast.List) and isinstance(node.ctx, ast.Load):
        is_key = isinstance(parent, ast.Return) and getattr(parent, "is_of_key", False)
        if len(node.elts) > 1 and (is_key or not isinstance(parent, ast.Return)):
            for place in range(len(node.elts)):
                rest = node.elts[:place] + node.elts[place + 1 :]
                name = "entry swallowed" if is_key else "part forgotten"
                yield name, type(node)(rest, node.ctx)
    elif isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Load):
        is_given = isinstance(parent, ast.Call | ast.keyword)
        is_given = is_given and node is not getattr(parent, "func", None)
        if is_given and "seed" in (_name(node), _name(node)[1:]):
            yield "seed or key", ast.Constant(0)
    elif isinstance(node, ast.Dict) and len(node.keys) > 1:
        for place in range(len(node.keys)):
            keys, values = list(node.keys), list(node.values)
            del keys[place], values[place]
            yield "part forgotten", ast.Dict(keys, values)


def _is_text(node: ast.AST) -> bool:
    is_text = isinstance(node, ast.Constant) and isinstance(node.value, str)
    return is_text or isinstance(node, ast.JoinedStr)


def _arithmetic(node: ast.BinOp) -> Iterator[tuple[str, ast.expr]]:
    if _is_text(node.left) or _is_text(node.right):
        return
    if type(node.op) in ARITHMETIC:
        yield "operator", ast.BinOp(node.left, ARITHMETIC[type(node.op)](), node.right)
    converts = isinstance(node.op, ast.Mult | ast.Div | ast.FloorDiv | ast.Pow | ast.Mod)
    yield "conversion left out" if converts else "part forgotten", node.left
    if isinstance(node.op, ast.Mult | ast.Add):
        yield "conversion left out" if converts else "part forgotten", node.right
    if isinstance(node.op, ast.Add):
        largest = ast.Call(ast.Name("max", ast.Load()), [node.left, node.right], [])
        yield "sum or largest", largest


def _constant(node: ast.Constant, parent: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    value = node.value
    if isinstance(value, bool):
        yield "constant", ast.Constant(not value)
    elif isinstance(value, int):
        yield "constant", ast.Constant(value + 1)
        if value > 1:
            yield "constant", ast.Constant(value - 1)
    elif isinstance(value, float):
        yield "constant", ast.Constant(2 * value if value else 1.0)
        yield "constant", ast.Constant(value / 2 if value else -1.0)
    elif isinstance(value, str) and _name(getattr(parent, "func", None)) in _NAMES_STREAMS:
        yield "seed or key", ast.Constant("another")


def _name(func: ast.expr | None) -> str:
    if isinstance(func, ast.Attribute):
        return func.attr
    return func.id if isinstance(func, ast.Name) else ""


def _call(node: ast.Call) -> Iterator[tuple[str, ast.expr]]:
    name = _name(node.func)
    if name in RENAMED:
        other = RENAMED[name]
        is_method = isinstance(node.func, ast.Attribute)
        func = (
            ast.Attribute(node.func.value, other, ast.Load())  # type: ignore[attr-defined]
            if is_method
            else ast.Name(other, ast.Load())
        )
        if is_method or other in ("min", "max", "any", "all", "sum"):
            yield "another function", ast.Call(func, node.args, node.keywords)
    yield from _of_many(node, name)
    if name in _SECRET:
        yield "seed or key", _parsed(_SECRET[name])
    converts = isinstance(node.func, ast.Name) and name[:1].islower() | name.startswith("_")
    converts = converts and not node.keywords and name not in _CONVERT_NOTHING
    starred = any(isinstance(arg, ast.Starred) for arg in node.args[:2])
    if (len(node.args) == 1 and not starred and (name in _UNWRAPPED or converts)) or (
        name == "replace"
    ):
        yield "conversion left out", node.args[0]
    is_module = isinstance(node.func, ast.Attribute) and _text(node.func.value) in (
        *("torch", "np", "math", "norm", "chi2", "beta", "F", "special", "stats"),
    )
    if name in _LEFT_OUT and isinstance(node.func, ast.Attribute) and not is_module:
        yield "conversion left out", node.func.value
    if name == "range" and len(node.args) == 1:
        less = ast.BinOp(node.args[0], ast.Sub(), ast.Constant(1))
        yield "one less", ast.Call(node.func, [less], [])
    if len(node.args) > 1 and not starred and name not in _SYMMETRIC:
        swapped = [node.args[1], node.args[0], *node.args[2:]]
        yield "arguments swapped", ast.Call(node.func, swapped, node.keywords)
    if len(node.args) > 1:
        for place in range(len(node.args)):
            rest = node.args[:place] + node.args[place + 1 :]
            yield "argument left out", ast.Call(node.func, rest, node.keywords)


def _of_many(node: ast.Call, name: str) -> Iterator[tuple[str, ast.expr]]:
    """The largest instead of the sum, the sum instead of the largest, the first instead of all."""
    if not isinstance(node.func, ast.Name) and name != "fsum":
        if name == "sum":  # of a tensor; of an array where nothing says along what
            largest = ast.Attribute(
                node.func.value,
                "amax" if node.args else "max",
                ast.Load(),  # type: ignore[attr-defined]
            )
            yield "sum or largest", ast.Call(largest, node.args, node.keywords)
    elif name in ("sum", "fsum"):
        nothing = [ast.keyword("default", ast.Constant(0))]
        func = ast.Name("max", ast.Load())
        yield "sum or largest", ast.Call(func, node.args[:1], nothing)
    elif name == "max" and not any(keyword.arg == "key" for keyword in node.keywords):
        args = node.args if len(node.args) == 1 else [ast.Tuple(node.args, ast.Load())]
        yield "sum or largest", ast.Call(ast.Name("sum", ast.Load()), args, [])
    elif name in ("all", "any"):
        first = _parsed(f"list({_text(node.args[0])})[:1]")
        yield "one end", ast.Call(node.func, [first], [])


def _slice(node: ast.Slice) -> Iterator[tuple[str, ast.expr]]:
    one = ast.Constant(1)
    lower = ast.BinOp(node.lower, ast.Add(), one) if node.lower else one
    yield "begins one later", ast.Slice(lower, node.upper, node.step)
    if node.upper:
        upper = ast.BinOp(node.upper, ast.Sub(), one)
        yield "ends one earlier", ast.Slice(node.lower, upper, node.step)
