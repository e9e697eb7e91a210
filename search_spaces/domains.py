"""The domains of an adaptive search: the axes of a space as parameters of an optimiser. Pure.

An optimiser proposes a parameter, a number, which is mapped to a value of a config. Ranges map to
themselves, lists by index, in rising order where their values have one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from search_spaces.expansion import axes_of, seeds_at
from search_spaces.parts import Axis, Range, Variant
from search_spaces.space import SearchSpace
from trainables.errors import InvalidInput

_DIGITS = 4  # digits of a proposed number, more than results can resolve


@dataclass(frozen=True)
class Domain:
    """The values of one axis: a `range`, or a list of `values`; `ordered` where they rise."""

    range: Range | None = None
    values: tuple[Any, ...] = ()
    ordered: bool = False

    def value(self, param: float | int) -> Any:
        """The value of a parameter.

        >>> domain_of(Axis(grid=(5, 1, 2))).value(1)
        2
        """
        if self.range is None:
            return self.values[int(param)]
        if self.range.integer:
            return int(param)
        return min(max(float(f"{param:.{_DIGITS}g}"), self.range.low), self.range.high)

    def at(self, share: float) -> Any:
        """The value at the fraction `share` in [0, 1) of the domain."""
        if self.range is None:
            return self.values[int(share * len(self.values))]
        return self.value(self.range.at(share))

    def param(self, value: Any) -> float | int | None:
        """The parameter of a value; None where it is not in the domain."""
        if self.range is None:
            return self.values.index(value) if value in self.values else None
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if not number or not self.range.low <= value <= self.range.high:
            return None
        return int(value) if self.range.integer else float(value)


def domain_of(axis: Axis) -> Domain:
    """The domain of an axis of any kind."""
    if axis.range is not None:
        return Domain(range=axis.range)
    values = tuple(axis.values or ())
    ranks = [rank(value) for value in values]
    if len(values) > 2 and None not in ranks:
        rising = sorted(zip(ranks, values, strict=True), key=lambda pair: pair[0] or 0.0)
        return Domain(values=tuple(value for _, value in rising), ordered=True)
    return Domain(values=values)


@dataclass(frozen=True)
class Branch:
    """A variant with its domains, by path."""

    variant: Variant
    domains: dict[str, Domain]

    def name_of(self, path: str) -> str:
        """The parameter's name; an axis that variants share is one parameter."""
        return f"{self.variant.name}/{path}" if path in self.variant.axes else path

    def lowest(self) -> dict[str, Any]:
        """The first value of each axis."""
        return {
            path: domain.value(domain.range.ends[0] if domain.range is not None else 0)
            for path, domain in self.domains.items()
        }

    def inside(self, values: dict[str, Any]) -> dict[str, Any]:
        """Those of `values` that are in the domain of their axis."""
        return {
            path: values[path]
            for path, domain in self.domains.items()
            if path in values and domain.param(values[path]) is not None
        }

    def params(self, values: dict[str, Any]) -> dict[str, float | int] | None:
        """The parameters of `values`, which lack the axes over fields that the point's entries
        lack; None where one is not in its domain.
        """
        found = {}
        for path, value in values.items():
            param = self.domains[path].param(value) if path in self.domains else None
            if param is None:
                return None
            found[self.name_of(path)] = param
        return found


def branches(space: SearchSpace) -> tuple[Branch, ...]:
    """Every variant of the search with its domains.

    Raises: InvalidInput without an axis and without two variants.
    """
    found = tuple(
        Branch(variant, {path: domain_of(axis) for path, axis in axes_of(space, variant).items()})
        for variant in space.searched_variants
    )
    if not found or (len(found) == 1 and not found[0].domains):
        raise InvalidInput(
            f"expected an axis or two variants for strategy {space.search.strategy}, got none"
        )
    return found


def num_seeds(space: SearchSpace) -> int:
    """The largest number of trials, one a seed, of a configuration of an adaptive search."""
    return max(len(seeds_at(space, b.variant, b.lowest())) for b in branches(space))


def rank(value: Any) -> float | None:
    """The sort key of a value of an axis; None for one without an order.

    >>> rank({"target_epsilon": 8}), rank("clc")
    (8.0, None)
    """
    if isinstance(value, dict) and set(value) == {"target_epsilon"}:
        value = value["target_epsilon"]
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    return None
