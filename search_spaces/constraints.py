"""Small expressions over dotted names, such as `privacy.max_grad_norm <= 1`.

The text is parsed to Python's syntax tree, which is interpreted and never executed. Allowed are
numbers, strings, lists, True, False, None, dotted names, `+ - * / %`, comparisons (also `in`),
`and or not`, `x if c else y`, and the functions abs, min, max, log, log10, sqrt, exp.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Mapping
from typing import Any

from trainables.errors import InvalidInput

_MAX_LENGTH = 500
_ARITHMETIC: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Mod: operator.mod,
}
_COMPARISON: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda item, items: item in items,
    ast.NotIn: lambda item, items: item not in items,
    ast.Is: lambda left, right: left is right,
    ast.IsNot: lambda left, right: left is not right,
}
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "abs": abs,
    "min": min,
    "max": max,
    "log": math.log,
    "log10": math.log10,
    "sqrt": math.sqrt,
    "exp": math.exp,
}


def parse(text: str) -> ast.expr:
    """The syntax tree of an expression of allowed elements only.

    Raises: InvalidInput naming the expression and the element that is not allowed.
    """
    if len(text) > _MAX_LENGTH:
        raise InvalidInput(f"expected a constraint of at most {_MAX_LENGTH} characters")
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError):
        raise InvalidInput(f"constraint {text!r} is not an expression") from None
    for node in ast.walk(tree):
        _refuse_unknown(node, text=text)
    return tree


def names(text: str) -> frozenset[str]:
    """The dotted names that an expression uses.

    >>> sorted(names("privacy.max_grad_norm * epsilon <= 1"))
    ['epsilon', 'privacy.max_grad_norm']
    """
    found: set[str] = set()

    def visit(node: ast.AST) -> None:
        if isinstance(node, ast.Name | ast.Attribute):
            found.add(_dotted_path(node))
        elif isinstance(node, ast.Call):
            for argument in node.args:
                visit(argument)
        else:
            for child in ast.iter_child_nodes(node):
                visit(child)

    visit(parse(text))
    return frozenset(found)


def holds(text: str, values: Mapping[str, Any]) -> bool:
    """Whether the expression is true of `values`, nested mappings reached by dotted names.

    >>> holds("privacy.max_grad_norm <= 1 and data.name != 'atis'",
    ...       {"data": {"name": "snips"}, "privacy": {"max_grad_norm": 0.5}})
    True

    Raises: InvalidInput for a name that `values` lacks, or values that cannot be compared.
    """
    tree = parse(text)
    try:
        return bool(_evaluate(tree, values))
    except InvalidInput as problem:
        raise InvalidInput(f"constraint {text!r}: {problem}") from None
    except (TypeError, ValueError, ArithmeticError) as problem:
        raise InvalidInput(f"constraint {text!r} cannot be evaluated here: {problem}") from None


def _refuse_unknown(node: ast.AST, *, text: str) -> None:
    if isinstance(node, ast.Call):
        known = isinstance(node.func, ast.Name) and node.func.id in _FUNCTIONS
        if not known or node.keywords:
            allowed = ", ".join(_FUNCTIONS)
            raise InvalidInput(f"constraint {text!r}: expected a function out of {allowed}")
        return
    if isinstance(node, ast.Constant):
        if not isinstance(node.value, int | float | str | bool | None):
            raise InvalidInput(f"constraint {text!r}: a number or a string was expected")
        return
    if isinstance(node, ast.Attribute):
        root: ast.AST = node
        while isinstance(root, ast.Attribute):
            root = root.value
        if not isinstance(root, ast.Name):
            raise InvalidInput(f"constraint {text!r}: expected a dotted name such as data.name")
        return
    if isinstance(node, ast.BinOp) and type(node.op) not in _ARITHMETIC:
        raise InvalidInput(f"constraint {text!r}: expected an operator out of + - * / %")
    allowed_nodes = (
        ast.BinOp, ast.BoolOp, ast.UnaryOp, ast.Compare, ast.IfExp, ast.List, ast.Tuple, ast.Name,
        ast.operator, ast.boolop, ast.unaryop, ast.cmpop, ast.expr_context,
    )  # fmt: skip
    if not isinstance(node, allowed_nodes) or isinstance(node, ast.Invert):
        kind = type(node).__name__
        raise InvalidInput(f"constraint {text!r}: {kind} is not allowed in a constraint")


def _dotted_path(node: ast.AST) -> str:
    if isinstance(node, ast.Attribute):
        return f"{_dotted_path(node.value)}.{node.attr}"
    assert isinstance(node, ast.Name)
    return node.id


def _look_up(name: str, values: Mapping[str, Any]) -> Any:
    found: Any = values
    for part in name.split("."):
        if not isinstance(found, Mapping) or part not in found:
            raise InvalidInput(f"unknown name {name}")
        found = found[part]
    return found


def _evaluate(node: ast.expr, values: Mapping[str, Any]) -> Any:
    match node:
        case ast.Constant():
            return node.value
        case ast.Name() | ast.Attribute():
            return _look_up(_dotted_path(node), values)
        case ast.List() | ast.Tuple():
            return [_evaluate(item, values) for item in node.elts]
        case ast.UnaryOp():
            value = _evaluate(node.operand, values)
            if isinstance(node.op, ast.Not):
                return not value
            return -value if isinstance(node.op, ast.USub) else +value
        case ast.BinOp():
            left, right = _evaluate(node.left, values), _evaluate(node.right, values)
            # Text can only be compared: `"a" * 10**9` would exhaust the memory.
            if isinstance(left, str | list) or isinstance(right, str | list):
                raise InvalidInput("expected numbers on both sides of an operator")
            return _ARITHMETIC[type(node.op)](left, right)
        case ast.BoolOp(op=ast.And()):
            return all(_evaluate(part, values) for part in node.values)
        case ast.BoolOp():
            return any(_evaluate(part, values) for part in node.values)
        case ast.IfExp():
            chosen = node.body if _evaluate(node.test, values) else node.orelse
            return _evaluate(chosen, values)
        case ast.Compare():
            left = _evaluate(node.left, values)
            for comparison, right_node in zip(node.ops, node.comparators, strict=True):
                right = _evaluate(right_node, values)
                if not _COMPARISON[type(comparison)](left, right):
                    return False
                left = right
            return True
        case ast.Call():
            assert isinstance(node.func, ast.Name)
            return _FUNCTIONS[node.func.id](*(_evaluate(part, values) for part in node.args))
        case _:
            raise InvalidInput(f"{type(node).__name__} is not allowed in a constraint")
