"""Faults: every place of a Python source for one, and what stands there then. `KINDS`
are what a wrong guarantee is made of, others slips of one token. What no result depends
on is left alone.
"""

from __future__ import annotations

import ast
from collections import Counter
from dataclasses import dataclass
from typing import Any


def pairs_in(text):
    """What stands in place of what, from words in twos."""
    return dict(pair.split() for pair in text.split(", "))


# What stands in place of an operator; a comparison has two others.
OTHERS = {
    getattr(ast, one): tuple(getattr(ast, other) for other in others.split("/"))
    for one, others in pairs_in(
        "Lt LtE/GtE, LtE Lt/Gt, Gt GtE/LtE, GtE Gt/Lt, Eq NotEq, NotEq Eq, Is IsNot,"
        " IsNot Is, In NotIn, NotIn In, Add Sub, Sub Add, Mult Div, Div Mult, FloorDiv"
        " Mult, Mod Mult, Pow Mult, BitOr BitAnd, BitAnd BitOr, BitXor BitOr, LShift"
        " RShift, RShift LShift"
    ).items()
}
_PAIRS = pairs_in(
    "min max, minimum maximum, amin amax, argmin argmax, floor ceil, log log1p, exp"
    " expm1, isf ppf, sf cdf, add_ sub_, mul_ div_, mean sum, any all, zeros ones,"
    " zeros_like ones_like, new_zeros new_ones"
)
RENAMED = _PAIRS | {b: a for a, b in _PAIRS.items()}
_UNWRAPPED = {
    "sqrt",
    "abs",
    "exp",
    "expm1",
    "log",
    "log1p",
    "square",
    "ceil",
    "floor",
    "sorted",
}
# `x.f(...)` -> `x`, `f(x)` -> `x` of any function but these, which convert nothing
_LEFT_OUT = _UNWRAPPED | {
    *(
        "sqrt_",
        "square_",
        "abs_",
        "clamp",
        "clamp_",
        "clip",
        "reciprocal",
        "nan_to_num",
        "cumsum",
    ),
    *(
        "double",
        "clone",
        "copy",
        "masked_fill",
        "mul_",
        "div_",
        "neg",
        "digest",
        "t",
        "first",
    ),
    *("scale_noise", "with_noise_scaled", "model_copy", "detach", "to_dense", "float"),
}
_CONVERT_NOTHING = {
    *(
        "len",
        "range",
        "iter",
        "next",
        "enumerate",
        "reversed",
        "type",
        "str",
        "int",
        "float",
    ),
    *(
        "bool",
        "tuple",
        "list",
        "all",
        "any",
        "sum",
        "max",
        "min",
        "cast",
        "repr",
        "super",
    ),
    *("print"),
}
_SECRET = {"randbits": "0", "token_bytes": "bytes(32)", "urandom": "bytes(32)"}
KINDS = (
    *(
        "sum or largest",
        "conversion left out",
        "entry swallowed",
        "part forgotten",
        "one end",
    ),
    *("one mode", "seed or key"),
)
_MODULES = {"torch", "np", "math", "norm", "chi2", "beta", "F", "special", "stats"}
_SYMMETRIC = {
    "min",
    "max",
    "minimum",
    "maximum",
    "hypot",
    "dot",
    "allclose",
    "array_equal",
}
_NAMES_STREAMS = {"stream", "coins", "generator", "stream_seed"}
_FUNCTIONS = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """One fault. `key` names it whatever lines are added elsewhere in the file."""

    file: str
    key: str
    operator: str
    where: str = ""  # the function or class, dotted; "" for the module
    before: str
    after: str
    lines: tuple[int, int]  # of the statement
    at_import: bool = (
        True  # it runs when the module is imported, not when a function is called
    )


@dataclass
class _Spot:
    """Where a fault can be put: a field of a node, or a place in its list."""

    parent: ast.AST
    field: str
    index: int | None
    operator: str
    new: Any
    before: str
    statement: ast.stmt
    where: str
    at_import: bool

    def put(self):
        if self.index is None:
            setattr(self.parent, self.field, self.new)
        elif self.new is None:
            del getattr(self.parent, self.field)[self.index]
        else:
            getattr(self.parent, self.field)[self.index] = self.new


def mutants_of(source, file):
    """Every mutant of a source that compiles to other code than it."""
    return [mutant for mutant, _ in _named(ast.parse(source), file)]


def mutated(source, mutant):
    """The tree of `source` with the fault; KeyError where it has no such place any
    more.
    """
    tree = ast.parse(source)
    for found, spot in _named(tree, mutant.file):
        if found.key == mutant.key:
            spot.put()
            return ast.fix_missing_locations(tree)
    raise KeyError(mutant.key)


def _named(tree, file):
    seen = Counter()
    for spot in list(_spots(tree, "", True, tree.body[0])):
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


def _end(statement):
    """The last line of a statement's head."""
    body = getattr(statement, "body", None)
    if isinstance(body, list) and body:
        return max(statement.lineno, body[0].lineno - 1)
    return statement.end_lineno or statement.lineno


def _text(node):
    return " ".join(ast.unparse(ast.fix_missing_locations(node)).split())


def _parsed(text):
    return ast.parse(text, mode="eval").body


def _changed(node, **fields):
    """A node that differs in these fields."""
    return type(node)(**{**dict(ast.iter_fields(node)), **fields})


def _without_each(many):
    """A list without one of its items, for each of them."""
    for place in range(len(many)):
        yield many[:place] + many[place + 1 :]


def _spots(node, where, at_import, statement):
    """Every place in a node with every fault that fits there."""
    for field, value in ast.iter_fields(node):
        if field in (
            "annotation",
            "returns",
            "decorator_list",
            "type_comment",
            "bases",
        ):
            continue
        runs = at_import and not (field == "body" and isinstance(node, _FUNCTIONS))
        for index, child in enumerate(value if isinstance(value, list) else [value]):
            if not isinstance(child, ast.AST) or _is_left_alone(child, node):
                continue
            near = child if isinstance(child, ast.stmt) else statement
            place = index if isinstance(value, list) else None
            for operator, new, before in _faults(child, node, where):
                yield _Spot(
                    node, field, place, operator, new, before, near, where, runs
                )
            inside = where
            if isinstance(child, _FUNCTIONS | ast.ClassDef):
                inside = f"{where}.{child.name}".lstrip(".")
            yield from _spots(child, inside, runs, near)


def _is_left_alone(node, parent):
    match node:
        case (
            ast.JoinedStr()
            | ast.Assert()
            | ast.Import()
            | ast.ImportFrom()
            | ast.Global()
        ):
            return True
        case (
            ast.FunctionDef(name="__repr__" | "__str__")
            | ast.Expr(value=ast.Constant())
        ):
            return True
        case ast.ClassDef(bases=bases):
            return any(_name(base) in ("Protocol", "Structure") for base in bases)
        case ast.If(test=test):
            return "TYPE_CHECKING" in ast.unparse(test)
        case ast.Subscript(value=value) if _name(value) in (
            "Callable",
            "Literal",
            "NDArray",
        ):
            return True  # a type that has a name
        case ast.Call(func=ast.Attribute(attr="warn")):
            return True
    return isinstance(parent, ast.Raise)


def _faults(node, parent, where):
    """(operator, what stands there then or None for nothing, what stood there)."""
    match node:
        case ast.expr():
            text, found = _text(node), _expression(node, parent, where)
        case ast.stmt():
            text, found = _text(node), _statement(node)
        case ast.keyword(arg=str() as name) if isinstance(parent, ast.Call):
            text, found = f"{_text(node.value)} as {name}", _keyword(node, parent)
        case ast.comprehension():
            for test in node.ifs:
                ifs = [t for t in node.ifs if t is not test]
                yield "filter left out", _changed(node, ifs=ifs), _text(test)
            text = _text(node.iter)
            found = (
                ("part forgotten", _changed(node, iter=p)) for p in _but_one(node.iter)
            )
        case _:
            return
    for operator, new in found:
        yield operator, new and ast.copy_location(new, node), text


def _keyword(node, parent):
    yield (
        "part forgotten" if _name(parent.func) == "replace" else "argument left out",
        None,
    )
    if node.arg == "secure":
        yield "seed or key", _changed(node, value=ast.Constant(False))


def _but_one(many):
    """What is iterated over without its first and without its last."""
    whole = isinstance(many, ast.Call | ast.Name | ast.Attribute)
    return [
        _parsed(f"list({_text(many)}){part}") for part in ("[1:]", "[:-1]") if whole
    ]


def _statement(node):
    match node:
        case ast.AugAssign(target=target, op=op, value=value):
            yield "statement left out", ast.Pass()
            yield "entry swallowed", ast.Assign([target], value)
            if isinstance(op, ast.Add):
                largest = _parsed(f"max({_text(target)}, {_text(value)})")
                yield "sum or largest", ast.Assign([target], largest)
            for other in OTHERS.get(type(op), ()):
                yield "operator", _changed(node, op=other())
        case ast.If(body=[*_, last]):
            for value in (True, False):
                name = (
                    f"condition {value}" if isinstance(last, ast.Raise) else "one mode"
                )
                yield name, _changed(node, test=ast.Constant(value))
        case ast.For():
            for part in _but_one(node.iter):
                yield "part forgotten", _changed(node, iter=part)
        case (
            ast.Expr(value=ast.Call())
            | ast.Assign(targets=[ast.Attribute() | ast.Subscript() | ast.List(), *_])
            | (ast.Raise() | ast.Continue() | ast.Break())
        ):
            yield "statement left out", ast.Pass()
            yield from _swallowed(node)


def _swallowed(node):
    """The first entry of a key stays, or the last of a list alone."""
    match node:
        # What is no attribute is mostly new and has no earlier entry.
        case ast.Assign(
            targets=[
                ast.Subscript(value=ast.Attribute() as many, slice=key) as place,
                *_,
            ]
        ):
            if not any(isinstance(inner, ast.Slice) for inner in ast.walk(place)):
                text = f"{_text(many)}.setdefault({_text(key)}, {_text(node.value)})"
                yield "entry swallowed", ast.parse(text).body[0]
        case ast.Expr(
            value=ast.Call(func=ast.Attribute(value=many, attr=name), args=[new])
        ):
            here, what = _text(many), _text(new)
            alone = {
                "append": f"{here}[:] = [{what}]",
                "extend": f"{here}[:] = {what}",
                **dict.fromkeys(("add", "update"), f"{here}.clear(); {_text(node)}"),
            }
            if name in alone:
                body = ast.parse(alone[name]).body
                yield "entry swallowed", ast.If(ast.Constant(True), body, [])


def _expression(node, parent, where):
    match node:
        case ast.Compare(ops=ops, comparators=right):
            for place, op in enumerate(ops):
                for other in OTHERS[type(op)]:
                    others = [*ops[:place], other(), *ops[place + 1 :]]
                    yield "comparison", _changed(node, ops=others)
            if len(ops) == 2:
                yield "one end", _changed(node, ops=ops[:1], comparators=right[:1])
                yield "one end", ast.Compare(right[0], ops[1:], right[1:])
            elif _is_text(right[0]):
                yield "one mode", ast.Constant(True)
                yield "one mode", ast.Constant(False)
        case ast.BinOp():
            yield from _arithmetic(node)
        case ast.BoolOp(op=op, values=values):
            yield (
                "and/or",
                _changed(node, op=ast.Or() if isinstance(op, ast.And) else ast.And()),
            )
            for rest in _without_each(values):
                yield (
                    "one end",
                    rest[0] if len(rest) == 1 else _changed(node, values=rest),
                )
        case ast.UnaryOp(op=ast.Not() | ast.USub()):
            yield "sign or not left out", node.operand
        case ast.IfExp():
            yield "one mode", node.body
            yield "one mode", node.orelse
        case ast.Constant():
            yield from _constant(node.value, parent)
        case ast.Call():
            yield from _call(node)
        case ast.Slice(lower=lower, upper=upper):
            later = _parsed(f"{_text(lower)} + 1") if lower else ast.Constant(1)
            yield "begins one later", _changed(node, lower=later)
            if upper:
                yield (
                    "ends one earlier",
                    _changed(node, upper=_parsed(f"{_text(upper)} - 1")),
                )
        case (
            ast.Tuple(ctx=ast.Load(), elts=[_, _, *_])
            | ast.List(ctx=ast.Load(), elts=[_, _, *_])
        ):
            # What a function for a key returns is its parts.
            is_key = isinstance(parent, ast.Return) and "key" in where
            if is_key or not isinstance(parent, ast.Return):
                for rest in _without_each(node.elts):
                    name = "entry swallowed" if is_key else "part forgotten"
                    yield name, _changed(node, elts=rest)
        case ast.Name(ctx=ast.Load()) | ast.Attribute(ctx=ast.Load()):
            is_given = isinstance(parent, ast.Call | ast.keyword)
            is_given = is_given and node is not getattr(parent, "func", None)
            if is_given and "seed" in (_name(node), _name(node)[1:]):
                yield "seed or key", ast.Constant(0)
        case ast.Dict(keys=[_, _, *_]):
            for keys, values in zip(
                _without_each(node.keys), _without_each(node.values), strict=True
            ):
                yield "part forgotten", ast.Dict(keys, values)


def _is_text(node):
    is_text = isinstance(node, ast.Constant) and isinstance(node.value, str)
    return is_text or isinstance(node, ast.JoinedStr)


def _arithmetic(node):
    if _is_text(node.left) or _is_text(node.right):
        return
    for other in OTHERS.get(type(node.op), ()):
        yield "operator", _changed(node, op=other())
    converts = isinstance(
        node.op, ast.Mult | ast.Div | ast.FloorDiv | ast.Pow | ast.Mod
    )
    name = "conversion left out" if converts else "part forgotten"
    yield name, node.left
    if isinstance(node.op, ast.Mult | ast.Add):
        yield name, node.right
    if isinstance(node.op, ast.Add):
        yield "sum or largest", _parsed(f"max({_text(node.left)}, {_text(node.right)})")


def _constant(value, parent):
    others = []
    match value:
        case bool():
            others = [not value]
        case int():
            others = [value + 1, value - 1] if value > 1 else [value + 1]
        case float():
            others = [2 * value, value / 2] if value else [1.0, -1.0]
        case str() if _name(getattr(parent, "func", None)) in _NAMES_STREAMS:
            yield "seed or key", ast.Constant("another")
    for other in others:
        yield "constant", ast.Constant(other)


def _name(func):
    if isinstance(func, ast.Attribute):
        return func.attr
    return func.id if isinstance(func, ast.Name) else ""


def _call(node):
    func, args, name = node.func, node.args, _name(node.func)
    if (other := RENAMED.get(name)) is not None:
        if isinstance(func, ast.Attribute):
            yield "another function", _changed(node, func=_changed(func, attr=other))
        elif other in ("min", "max", "any", "all", "sum"):
            yield "another function", _changed(node, func=ast.Name(other, ast.Load()))
    yield from _of_many(node, name)
    if name in _SECRET:
        yield "seed or key", _parsed(_SECRET[name])
    converts = isinstance(func, ast.Name) and name[:1].islower() | name.startswith("_")
    converts = converts and not node.keywords and name not in _CONVERT_NOTHING
    starred = any(isinstance(arg, ast.Starred) for arg in args[:2])
    unwraps = len(args) == 1 and not starred and (name in _UNWRAPPED or converts)
    if unwraps or name == "replace":
        yield "conversion left out", args[0]
    is_method = isinstance(func, ast.Attribute) and _text(func.value) not in _MODULES
    if name in _LEFT_OUT and is_method:
        yield "conversion left out", func.value
    if name == "range" and len(args) == 1:
        yield "one less", _parsed(f"range({_text(args[0])} - 1)")
    if len(args) > 1 and not starred and name not in _SYMMETRIC:
        yield "arguments swapped", _changed(node, args=[args[1], args[0], *args[2:]])
    if len(args) > 1:
        for rest in _without_each(args):
            yield "argument left out", _changed(node, args=rest)


def _of_many(node, name):
    """The largest instead of the sum, the sum instead of the largest, the first instead
    of all.
    """
    func, args = node.func, node.args
    if isinstance(func, ast.Attribute) and name == "sum":
        # Of a tensor; of an array where nothing says along what.
        largest = _changed(func, attr="amax" if args else "max")
        yield "sum or largest", _changed(node, func=largest)
    elif name == "fsum" or (isinstance(func, ast.Name) and name == "sum"):
        yield (
            "sum or largest",
            _parsed(f"max({', '.join(map(_text, args[:1]))}, default=0)"),
        )
    elif not isinstance(func, ast.Name):
        return
    elif name == "max" and not any(keyword.arg == "key" for keyword in node.keywords):
        many = args if len(args) == 1 else [ast.Tuple(args, ast.Load())]
        yield "sum or largest", ast.Call(ast.Name("sum", ast.Load()), many, [])
    elif name in ("all", "any"):
        first = _parsed(f"list({_text(args[0])})[:1]")
        yield "one end", _changed(node, args=[first])
