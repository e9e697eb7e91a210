"""Recursion without the stack: a walk is a generator that yields the parts to walk next."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TypeVar

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
            wanted = next(open_steps[-1]) if answer is None else open_steps[-1].send(answer)
        except StopIteration as stop:
            open_steps.pop()
            answer = stop.value
            if not open_steps:
                return stop.value  # type: ignore[no-any-return]  # StopIteration is untyped
        else:
            open_steps.append(step(wanted))
            answer = None
