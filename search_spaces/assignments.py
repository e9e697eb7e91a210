"""Values for the axes of a space: every combination, or distinct draws."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any

from search_spaces.parts import Axis
from search_spaces.search import STRATEGIES
from search_spaces.space import SearchSpace
from trainables import catalogue
from trainables.errors import InvalidInput
from trainables.seeding import generator

MAX_POINTS = 100_000


def assignments(space: SearchSpace, axes: dict[str, Axis]) -> Iterator[dict[str, Any]]:
    """The values of all axes of each point, by path.

    Raises: InvalidInput for a range without `num` where values are listed, or too many points.
    """
    if space.search.kind == "listed" or space.search.is_adaptive:
        for path, axis in axes.items():
            if axis.values is None and space.search.is_adaptive:
                raise InvalidInput(
                    f"axes.{path}: expected a baseline without a range in an adaptive search"
                    " (drop_axes: all)"
                )
            if axis.values is None:
                raise InvalidInput(
                    f"axes.{path}: expected num in a range with strategy {space.search.strategy}"
                )
        yield from _product(axes)
        return
    if space.search.is_private_selection:
        # One point represents all that differ from it along a range only.
        yield from _product({path: _at_middle(axis) for path, axis in axes.items()})
        return
    crossed = {path: axis for path, axis in axes.items() if axis.grid is not None}
    drawn = {path: axis for path, axis in axes.items() if axis.grid is None}
    for sample in _distinct(space, drawn):
        for corner in _product(crossed):
            # In the order of the file, for listed and drawn values alike.
            yield {path: {**sample, **corner}[path] for path in axes}


def _product(axes: dict[str, Axis]) -> Iterator[dict[str, Any]]:
    lists = [axis.values or () for axis in axes.values()]
    if math.prod(len(values) for values in lists) > MAX_POINTS:
        raise InvalidInput(f"expected at most {MAX_POINTS} points in a space")
    for corner in itertools.product(*lists):
        yield dict(zip(axes, corner, strict=True))


def _distinct(space: SearchSpace, axes: dict[str, Axis]) -> Iterator[dict[str, Any]]:
    """`num_samples` distinct draws, or fewer where the space has fewer points."""
    wanted = space.search.num_samples or 1
    seen: set[str] = set()
    # A finite space is exhausted long before this many repeats in a row.
    misses, patience = 0, 200 + 20 * wanted
    random = generator(space.search.seed, "search")
    strategy = catalogue.entry(STRATEGIES, space.search.strategy, kind="drawn")
    for shares in strategy.shares(random, num_axes=len(axes)):
        if len(seen) == wanted or misses > patience:
            return
        sample = {
            path: _draw(axis, share)
            for (path, axis), share in zip(axes.items(), shares, strict=True)
        }
        if repr(sample) in seen:
            misses += 1
            continue
        misses = 0
        seen.add(repr(sample))
        yield sample


def _at_middle(axis: Axis) -> Axis:
    return axis if axis.range is None else Axis(grid=(axis.range.at(0.5),))


def _draw(axis: Axis, share: float) -> Any:
    if axis.range is not None:
        return axis.range.at(share)
    choice = axis.choice or ()
    return choice[min(int(share * len(choice)), len(choice) - 1)]
