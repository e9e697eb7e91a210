"""Small expressions over dotted names, such as `privacy.max_grad_norm <= 1`.

The text is parsed to Python's syntax tree, which is interpreted and never executed.
Allowed are numbers, strings, lists, True, False, None, dotted names, `+ - * / %`,
comparisons (also `in`), `and or not`, `x if c else y`, and the functions abs, min, max,
log, log10, sqrt, exp.
"""

import ast
import math
import operator
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from trainables.errors import InvalidInput

_MAX_LENGTH = 500
_OPERATORS: dict[type[ast.AST], Callable[..., Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Mod: operator.mod,
    ast.Not: operator.not_,
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda item, items: item in items,
    ast.NotIn: lambda item, items: item not in items,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
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
_SYNTAX: tuple[type[ast.AST], ...] = (
    ast.BinOp, ast.BoolOp, ast.UnaryOp, ast.Compare, ast.IfExp, ast.List, ast.Tuple, ast.Name,
    ast.boolop, ast.expr_context, *_OPERATORS,
)  # fmt: skip


@lru_cache(maxsize=1_000)
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
        if (refusal := _refusal(node)) is not None:
            raise InvalidInput(f"constraint {text!r}: {refusal}")
    return tree


def _refusal(node: ast.AST) -> str | None:
    """Why an element is not allowed, or None."""
    match node:
        case ast.Call(func=ast.Name(id=name), keywords=[]) if name in _FUNCTIONS:
            return None
        case ast.Call():
            return f"expected a function out of {', '.join(_FUNCTIONS)}"
        case ast.Constant(value=int() | float() | str() | None):
            return None
        case ast.Constant():
            return "a number or a string was expected"
        case ast.Attribute(value=ast.Name() | ast.Attribute()):
            return None
        case ast.Attribute():
            return "expected a dotted name such as data.name"
        case ast.operator() if type(node) not in _OPERATORS:
            return "expected an operator out of + - * / %"
    return (
        None if isinstance(node, _SYNTAX) else f"{type(node).__name__} is not allowed"
    )


@lru_cache(maxsize=1_000)
def names(text: str) -> frozenset[str]:
    """The dotted names that an expression uses.

    >>> sorted(names("privacy.max_grad_norm * epsilon <= 1"))
    ['epsilon', 'privacy.max_grad_norm']
    """
    nodes = [*ast.walk(parse(text))]
    inner = [node.value for node in nodes if isinstance(node, ast.Attribute)]
    inner += [node.func for node in nodes if isinstance(node, ast.Call)]
    every = (node for node in nodes if isinstance(node, ast.Name | ast.Attribute))
    return frozenset(ast.unparse(node) for node in every if node not in inner)


def holds(text: str, values: Mapping[str, Any]) -> bool:
    """Whether the expression is true of `values`, nested mappings reached by dotted
    names.

    >>> holds("privacy.max_grad_norm <= 1 and data.name != 'atis'",
    ...       {"data": {"name": "snips"}, "privacy": {"max_grad_norm": 0.5}})
    True

    Raises: InvalidInput for a name that `values` lacks, or values that cannot be
    compared.
    """
    tree = parse(text)
    try:
        return bool(_evaluate(tree, values))
    except InvalidInput as problem:
        raise InvalidInput(f"constraint {text!r}: {problem}") from None
    except (TypeError, ValueError, ArithmeticError) as problem:
        raise InvalidInput(
            f"constraint {text!r} cannot be evaluated here: {problem}"
        ) from None


def _evaluate(node: ast.expr, values: Mapping[str, Any]) -> Any:
    match node:
        case ast.Constant():
            return node.value
        case ast.Name() | ast.Attribute():
            found: Any = values
            for part in (name := ast.unparse(node)).split("."):
                if not isinstance(found, Mapping) or part not in found:
                    raise InvalidInput(f"unknown name {name}")
                found = found[part]
            return found
        case ast.List() | ast.Tuple():
            return [_evaluate(item, values) for item in node.elts]
        case ast.UnaryOp():
            return _OPERATORS[type(node.op)](_evaluate(node.operand, values))
        case ast.BinOp():
            left, right = _evaluate(node.left, values), _evaluate(node.right, values)
            # Text can only be compared: `"a" * 10**9` would exhaust the memory.
            if isinstance(left, str | list) or isinstance(right, str | list):
                raise InvalidInput("expected numbers on both sides of an operator")
            return _OPERATORS[type(node.op)](left, right)
        case ast.BoolOp(op=ast.And()):
            return all(_evaluate(part, values) for part in node.values)
        case ast.BoolOp():
            return any(_evaluate(part, values) for part in node.values)
        case ast.IfExp():
            return _evaluate(
                node.body if _evaluate(node.test, values) else node.orelse, values
            )
        case ast.Compare():
            left = _evaluate(node.left, values)
            for comparison, right_node in zip(node.ops, node.comparators, strict=True):
                right = _evaluate(right_node, values)
                if not _OPERATORS[type(comparison)](left, right):
                    return False
                left = right
            return True
        case ast.Call(func=ast.Name(id=name)):
            return _FUNCTIONS[name](*(_evaluate(part, values) for part in node.args))
    raise InvalidInput(f"{type(node).__name__} is not allowed")
