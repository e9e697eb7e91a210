"""From a space to its points: frozen data, the same for the same space.

A point that a constraint or a validator refuses is a point with a reason. A value that no point can
have, such as a negative clip norm, is a mistake in the space and is raised.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError

from search_spaces import constraints, foreign
from search_spaces.parts import Axis, Constraint, Variant
from search_spaces.space import SearchSpace, set_path
from trainables.config import SHELVES, TrialConfig
from trainables.errors import InvalidInput
from trainables.frozen import first_problem
from trainables.seeding import generator

# Names that a constraint may use and that only the plan knows; it checks those constraints.
PLANNED_NAMES = frozenset({"epsilon", "epsilon_paper", "steps", "delta", "num_records"})
_MAX_POINTS = 100_000
_PRIMES = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59, 61, 67, 71)


@dataclass(frozen=True, kw_only=True)
class Point:
    """One point of a space: `config` is None where the fields make no config; `reason` says why
    the point is refused, and `rule` which constraint did it. `broken` has the reason of every
    constraint that refuses it.
    """

    variant: str
    baseline: bool
    values: dict[str, Any]
    fields: dict[str, Any]
    config: TrialConfig | None = None
    reason: str | None = None
    rule: str | None = None
    broken: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Expansion:
    """All points in the order of the space; `merged` counts those that were equal to an earlier."""

    points: tuple[Point, ...]
    merged: int


def expand(space: SearchSpace) -> Expansion:
    """Every point of a space, equal ones merged.

    Raises: InvalidInput for a space without a point: a value out of range, a range without `num` in
    a grid, a constraint over an unknown name.
    """
    check_fields(space)
    kept: dict[str, Point] = {}
    merged = 0
    every: list[Point] = []
    chosen_later = searched(space) if space.search.is_adaptive else ()
    for variant in _variants(space):
        if variant in chosen_later:
            continue
        for point in _points(space, variant):
            every.append(point)
            key = point.config.id if point.config is not None else repr(point.fields)
            if key in kept:
                merged += 1
                # A baseline stays one, whichever variant named the point first.
                kept[key] = replace(kept[key], baseline=kept[key].baseline or point.baseline)
            else:
                kept[key] = point
            if len(kept) > _MAX_POINTS:
                raise InvalidInput(f"expected at most {_MAX_POINTS} points in a space")
    _refuse_hopeless(every)
    return Expansion(points=tuple(kept.values()), merged=merged)


def check_fields(space: SearchSpace) -> None:
    """Raises: InvalidInput for a field that no entry of the space has (see `foreign`)."""
    axes = {variant.name: axes_of(space, variant) for variant in _variants(space)}
    for section in SHELVES:
        foreign.refuse_foreign(space, _variants(space), axes=axes, section=section)


def searched(space: SearchSpace) -> tuple[Variant, ...]:
    """The variants that an adaptive search chooses from: all but the baselines."""
    return tuple(variant for variant in _variants(space) if not variant.baseline)


def point_at(space: SearchSpace, variant: Variant, values: dict[str, Any]) -> tuple[Point, ...]:
    """The point at `values` of a variant's axes, judged: one for each seed of `repeats`.

    Raises: InvalidInput for a value that no config can have, a constraint over an unknown name.
    """
    return tuple(_with_seeds(space, variant, values))


def _variants(space: SearchSpace) -> tuple[Variant, ...]:
    return space.variants or (Variant(name="all"),)


def axes_of(space: SearchSpace, variant: Variant) -> dict[str, Axis]:
    """The axes of a variant: the space's, less those it drops or fixes, and its own."""
    fixed = (*variant.fixed, *space.override)
    shared = {} if variant.drop_axes == "all" else space.axes
    axes = {**{p: a for p, a in shared.items() if p not in variant.drop_axes}, **variant.axes}
    own = set(variant.axes)
    return {
        path: axis
        for path, axis in axes.items()
        if not any(
            path == other or path.startswith(f"{other}.")
            for other in (space.override if path in own else fixed)
        )
    }


def _points(space: SearchSpace, variant: Variant) -> Iterator[Point]:
    for drawn in _assignments(space, axes_of(space, variant)):
        yield from _with_seeds(space, variant, drawn)


def _with_seeds(space: SearchSpace, variant: Variant, drawn: dict[str, Any]) -> Iterator[Point]:
    seeds: tuple[int | None, ...] = space.repeats or (None,)
    for seed in seeds:
        values = dict(drawn)
        if seed is not None and "training.seed" not in space.override:
            values["training.seed"] = seed
        fields = dict(space.base)
        for path, value in (*variant.fixed.items(), *values.items(), *space.override.items()):
            fields = set_path(fields, path, value)
        fields, dropped = foreign.own_fields(fields)
        values = {path: value for path, value in values.items() if _field(path) not in dropped}
        yield _judge(space, variant, values=values, fields=fields)


def _field(path: str) -> str:
    """A section's field that a deeper path is part of."""
    return ".".join(path.split(".")[:2])


def _judge(
    space: SearchSpace, variant: Variant, *, values: dict[str, Any], fields: dict[str, Any]
) -> Point:
    point = Point(variant=variant.name, baseline=variant.baseline, values=values, fields=fields)
    try:
        config = TrialConfig.model_validate(fields)
    except ValidationError as error:
        if error.errors(include_url=False)[0]["type"] != "value_error":
            raise InvalidInput(first_problem(error)) from None
        return replace(point, reason=first_problem(error), rule="config")
    point = replace(point, config=config)
    mine = [c for c in space.constraints if not constraints.names(c.require) & PLANNED_NAMES]
    broken = broken_of(mine, config.model_dump(mode="json"))
    if not broken:
        return point
    reasons = tuple(constraint.why for constraint in broken)
    return replace(point, reason=reasons[0], rule=broken[0].require, broken=reasons)


def broken_of(rules: Iterable[Constraint], names: dict[str, Any]) -> list[Constraint]:
    """The constraints that do not hold of `names`, in order. One over a field that other entries
    have and this config does not, such as the noise of an engine without any, says nothing of it.

    Raises: InvalidInput as `constraints.holds`, unless an earlier one is broken already.
    """
    broken: list[Constraint] = []
    for constraint in rules:
        if foreign.lacks_a_field(constraints.names(constraint.require), names):
            continue
        try:
            if not constraints.holds(constraint.require, names):
                broken.append(constraint)
        except InvalidInput:
            # A constraint may rest on those before it, such as one that a field is no null.
            if not broken:
                raise
    return broken


def _refuse_hopeless(points: list[Point]) -> None:
    """Raise where a variant, or one value of an axis, is wrong in every point that has it."""
    groups: dict[tuple[str, str], list[Point]] = {}
    for point in points:
        groups.setdefault(("variant", point.variant), []).append(point)
        for path, value in point.values.items():
            groups.setdefault((path, repr(value)), []).append(point)
    hopeless = [
        members
        for (path, _), members in groups.items()
        # A value drawn once from a range says nothing of the range: its partner may be to blame.
        if (path == "variant" or len(members) > 1 or len(points) == 1)
        and all(point.rule == "config" for point in members)
    ]
    if hopeless:
        # The culprit is wrong in the same way wherever it is.
        culprit = min(hopeless, key=lambda members: len({point.reason for point in members}))
        raise InvalidInput(str(culprit[0].reason))


def _assignments(space: SearchSpace, axes: dict[str, Axis]) -> Iterator[dict[str, Any]]:
    if space.search.strategy == "grid" or space.search.is_adaptive:
        for path, axis in axes.items():
            if axis.values is None and space.search.is_adaptive:
                raise InvalidInput(
                    f"axes.{path}: expected a baseline without a range in an adaptive search"
                    " (drop_axes: all)"
                )
            if axis.values is None:
                raise InvalidInput(f"axes.{path}: expected num in a range with strategy grid")
        yield from _product(axes)
        return
    if space.search.is_private_selection:
        # One point stands for all that differ from it along a range alone.
        yield from _product({path: _at_middle(axis) for path, axis in axes.items()})
        return
    crossed = {path: axis for path, axis in axes.items() if axis.grid is not None}
    drawn = {path: axis for path, axis in axes.items() if axis.grid is None}
    for sample in _distinct(space, drawn):
        for corner in _product(crossed):
            # In the order of the file, whichever way a value was found.
            yield {path: {**sample, **corner}[path] for path in axes}


def _product(axes: dict[str, Axis]) -> Iterator[dict[str, Any]]:
    lists = [axis.values or () for axis in axes.values()]
    if math.prod(len(values) for values in lists) > _MAX_POINTS:
        raise InvalidInput(f"expected at most {_MAX_POINTS} points in a space")
    for corner in itertools.product(*lists):
        yield dict(zip(axes, corner, strict=True))


def _distinct(space: SearchSpace, axes: dict[str, Axis]) -> Iterator[dict[str, Any]]:
    """Draws that all differ: `num_samples` of them, or fewer where there are not as many."""
    wanted = space.search.num_samples or 1
    seen: set[str] = set()
    # A finite space is exhausted long before this many repeats in a row.
    misses, patience = 0, 200 + 20 * wanted
    for shares in _shares(space, num_axes=len(axes)):
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


def _shares(space: SearchSpace, *, num_axes: int) -> Iterator[list[float]]:
    """Endless points of the unit cube: independent, or a shifted Halton sequence.

    Halton (1960) with a random shift modulo 1 (Cranley & Patterson 1976): each point is uniform,
    and together they leave smaller gaps than independent ones.
    """
    random = generator(space.search.seed, "search")
    if space.search.strategy == "random":
        while True:
            yield random.random(num_axes).tolist()
    shift = random.random(num_axes)
    for index in itertools.count(1):
        yield halton(index, shift=shift)


def halton(index: int, *, shift: NDArray[np.float64]) -> list[float]:
    """Point number `index`, from 1, of Halton's sequence in the unit cube, moved by `shift`, modulo
    1. The first coordinates are the most even ones.

    Raises: InvalidInput for more coordinates than there are bases.
    """
    if len(shift) > len(_PRIMES):
        raise InvalidInput(f"expected at most {len(_PRIMES)} drawn axes with quasi_random")
    point = [_radical_inverse(index, base=_PRIMES[axis]) for axis in range(len(shift))]
    found: list[float] = ((np.asarray(point) + shift) % 1.0).tolist()
    return found


def _radical_inverse(index: int, *, base: int) -> float:
    """The digits of `index` mirrored at the point: 6 = 110 in base 2 gives 0.011 = 0.375."""
    value, scale = 0.0, 1.0 / base
    while index:
        index, digit = divmod(index, base)
        value += digit * scale
        scale /= base
    return value
