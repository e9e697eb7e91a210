"""The faults: every place of a Python source where one can be put, and what stands there then.

Left alone are annotations, docstrings, decorators, the text of errors and `__repr__`: no result
depends on them.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

COMPARE: dict[type, tuple[type, ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
ARITHMETIC: dict[type, type] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.Pow: ast.Mult,
    ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
    ast.BitXor: ast.BitOr,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
}
_PAIRS = (
    *(("min", "max"), ("minimum", "maximum"), ("amin", "amax"), ("argmin", "argmax")),
    *(("floor", "ceil"), ("log", "log1p"), ("exp", "expm1"), ("isf", "ppf"), ("sf", "cdf")),
    *(("add_", "sub_"), ("mul_", "div_"), ("mean", "sum"), ("any", "all")),
    *(("zeros", "ones"), ("zeros_like", "ones_like"), ("new_zeros", "new_ones")),
)
RENAMED = dict(_PAIRS) | {b: a for a, b in _PAIRS}
_UNWRAPPED = {"sqrt", "abs", "exp", "expm1", "log", "log1p", "square", "ceil", "floor", "sorted"}
_LEFT_OUT = _UNWRAPPED | {
    *("sqrt_", "square_", "abs_", "clamp", "clamp_", "clip", "reciprocal", "nan_to_num"),
    *("cumsum", "double", "clone", "copy", "masked_fill", "mul_", "div_", "neg", "digest", "t"),
}
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
    if isinstance(node, ast.Raise):
        return False  # itself may be left out; see `_faults`
    if isinstance(parent, ast.Raise):
        return True
    if isinstance(node, ast.JoinedStr | ast.Assert | ast.Import | ast.ImportFrom | ast.Global):
        return True
    if isinstance(node, ast.FunctionDef) and node.name in ("__repr__", "__str__"):
        return True
    if isinstance(node, ast.ClassDef) and any(
        isinstance(base, ast.Name) and base.id in ("Protocol", "Structure") for base in node.bases
    ):
        return True
    if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
        return True
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return True
    if isinstance(node, ast.Subscript) and _name(node.value) in ("Callable", "Literal", "NDArray"):
        return True  # a type that has a name
    call = node.func if isinstance(node, ast.Call) else None
    return isinstance(call, ast.Attribute) and call.attr == "warn"


def _same(node: ast.AST) -> Any:
    """A copy with its places, to be changed."""
    copy = ast.parse(ast.unparse(node), mode="eval").body if isinstance(node, ast.expr) else node
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
        yield "argument left out", None, _text(node.value) + f" as {node.arg}"
    elif isinstance(node, ast.comprehension):
        for test in node.ifs:
            rest = ast.comprehension(
                node.target, node.iter, [t for t in node.ifs if t is not test], node.is_async
            )
            yield "filter left out", rest, _text(test)


def _statement(node: ast.stmt) -> Iterator[tuple[str, ast.stmt]]:
    is_call = isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
    stores = isinstance(node, ast.Assign) and not isinstance(node.targets[0], ast.Name | ast.Tuple)
    if is_call or stores or isinstance(node, ast.Raise | ast.Continue | ast.Break):
        yield "statement left out", ast.Pass()
    elif isinstance(node, ast.AugAssign):
        yield "statement left out", ast.Pass()
        yield "assigned, not added", ast.Assign([node.target], node.value)
        if type(node.op) in ARITHMETIC:
            other = ARITHMETIC[type(node.op)]()
            yield "operator", ast.AugAssign(node.target, other, node.value)
    elif isinstance(node, ast.If):
        for value in (True, False):
            yield f"condition {value}", ast.If(ast.Constant(value), node.body, node.orelse)


def _expression(node: ast.expr, parent: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    if isinstance(node, ast.Compare):
        for place, op in enumerate(node.ops):
            for other in COMPARE[type(op)]:
                new = _same(node)
                new.ops[place] = other()
                yield "comparison", new
    elif isinstance(node, ast.BinOp):
        yield from _arithmetic(node)
    elif isinstance(node, ast.BoolOp):
        other_op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        yield "and/or", ast.BoolOp(other_op, node.values)
        for value in node.values:
            rest = [v for v in node.values if v is not value]
            yield "operand left out", rest[0] if len(rest) == 1 else ast.BoolOp(node.op, rest)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not | ast.USub):
        yield "sign or not left out", node.operand
    elif isinstance(node, ast.IfExp):
        yield "always first", node.body
        yield "always second", node.orelse
    elif isinstance(node, ast.Constant):
        yield from _constant(node, parent)
    elif isinstance(node, ast.Call):
        yield from _call(node)
    elif isinstance(node, ast.Slice):
        yield from _slice(node)
    elif isinstance(node, ast.Tuple | ast.List) and isinstance(node.ctx, ast.Load):
        if len(node.elts) > 1 and not isinstance(parent, ast.Return):
            for place in range(len(node.elts)):
                rest = node.elts[:place] + node.elts[place + 1 :]
                yield "element left out", type(node)(rest, node.ctx)
    elif isinstance(node, ast.Dict) and len(node.keys) > 1:
        for place in range(len(node.keys)):
            keys, values = list(node.keys), list(node.values)
            del keys[place], values[place]
            yield "element left out", ast.Dict(keys, values)


def _is_text(node: ast.AST) -> bool:
    is_text = isinstance(node, ast.Constant) and isinstance(node.value, str)
    return is_text or isinstance(node, ast.JoinedStr)


def _arithmetic(node: ast.BinOp) -> Iterator[tuple[str, ast.expr]]:
    if _is_text(node.left) or _is_text(node.right):
        return
    if type(node.op) in ARITHMETIC:
        yield "operator", ast.BinOp(node.left, ARITHMETIC[type(node.op)](), node.right)
    yield "operand left out", node.left
    if isinstance(node.op, ast.Mult | ast.Add):
        yield "operand left out", node.right


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
        yield "name of a stream", ast.Constant("another")


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
    if name in _UNWRAPPED and len(node.args) == 1:
        yield "function left out", node.args[0]
    is_module = isinstance(node.func, ast.Attribute) and _text(node.func.value) in (
        *("torch", "np", "math", "norm", "chi2", "beta", "F", "special", "stats"),
    )
    if name in _LEFT_OUT and isinstance(node.func, ast.Attribute) and not is_module:
        yield "method left out", node.func.value
    if name == "range" and len(node.args) == 1:
        less = ast.BinOp(node.args[0], ast.Sub(), ast.Constant(1))
        yield "one less", ast.Call(node.func, [less], [])
    starred = any(isinstance(arg, ast.Starred) for arg in node.args[:2])
    if len(node.args) > 1 and not starred and name not in _SYMMETRIC:
        swapped = [node.args[1], node.args[0], *node.args[2:]]
        yield "arguments swapped", ast.Call(node.func, swapped, node.keywords)
    if len(node.args) > 1:
        for place in range(len(node.args)):
            rest = node.args[:place] + node.args[place + 1 :]
            yield "argument left out", ast.Call(node.func, rest, node.keywords)


def _slice(node: ast.Slice) -> Iterator[tuple[str, ast.expr]]:
    one = ast.Constant(1)
    lower = ast.BinOp(node.lower, ast.Add(), one) if node.lower else one
    yield "begins one later", ast.Slice(lower, node.upper, node.step)
    if node.upper:
        upper = ast.BinOp(node.upper, ast.Sub(), one)
        yield "ends one earlier", ast.Slice(node.lower, upper, node.step)
