"""From a space to its points: frozen data, a function of the space.

A point that a constraint or a validator refuses has a reason. A value that is invalid in every
point, such as a negative clip norm, is an error of the space and is raised.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from pydantic import ValidationError

from search_spaces import constraints, foreign
from search_spaces.assignments import MAX_POINTS, assignments
from search_spaces.parts import Axis, Constraint, Variant
from search_spaces.paths import is_within, set_all, set_path
from search_spaces.space import SearchSpace
from trainables.config import SHELVES, TrialConfig
from trainables.errors import InvalidInput
from trainables.figures import EPSILON, EPSILON_PAPER
from trainables.frozen import first_problem

_SEED = "training.seed"
# Names in constraints that only the plan knows, which checks those constraints.
PLANNED_NAMES = frozenset({EPSILON, EPSILON_PAPER, "steps", "delta", "num_records"})


@dataclass(frozen=True, kw_only=True)
class Point:
    """One point of a space: `config` is None where the fields make no config; `reason` says why
    the point is refused. `broken` has the reason of every constraint that refuses it.
    """

    variant: str
    baseline: bool
    values: dict[str, Any]
    fields: dict[str, Any]
    config: TrialConfig | None = None
    reason: str | None = None
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
    chosen_later = searched_variants(space) if space.search.is_adaptive else ()
    for variant in space.all_variants:
        if variant in chosen_later:
            continue
        for point in _points(space, variant):
            every.append(point)
            key = point.config.id if point.config is not None else repr(point.fields)
            if key in kept:
                merged += 1
                # A point of a baseline is one, whichever variant named it first.
                kept[key] = replace(kept[key], baseline=kept[key].baseline or point.baseline)
            else:
                kept[key] = point
            if len(kept) > MAX_POINTS:
                raise InvalidInput(f"expected at most {MAX_POINTS} points in a space")
    _refuse_hopeless(every)
    return Expansion(points=tuple(kept.values()), merged=merged)


def check_fields(space: SearchSpace) -> None:
    """Raises: InvalidInput for a field that no entry of the space has (see `foreign`)."""
    axes = {variant.name: axes_of(space, variant) for variant in space.all_variants}
    for section in SHELVES:
        foreign.refuse_foreign(space, space.all_variants, axes=axes, section=section)


def searched_variants(space: SearchSpace) -> tuple[Variant, ...]:
    """The variants of an adaptive search: all but the baselines."""
    return tuple(variant for variant in space.all_variants if not variant.baseline)


def point_at(space: SearchSpace, variant: Variant, values: dict[str, Any]) -> tuple[Point, ...]:
    """The point at `values` of a variant's axes, checked: one for each seed of `repeats`.

    Raises: InvalidInput for a value that no config can have, a constraint over an unknown name.
    """
    return tuple(points_at(space, variant, values))


def points_at(space: SearchSpace, variant: Variant, values: dict[str, Any]) -> Iterator[Point]:
    """The points of `point_at`, made one at a time."""
    given = (*variant.fixed.items(), *values.items())
    for seed in seeds_at(space, variant, values):
        fields = dict(space.base)
        for layer in (given, tuple(space.override.items())):
            fields = set_all(_counted_anew(fields, layer), layer)
        own = dict(values)
        if seed is not None:
            own[_SEED] = seed
            fields = set_path(fields, _SEED, seed)
        fields, dropped = foreign.own_fields(fields)
        own = {path: value for path, value in own.items() if _field(path) not in dropped}
        yield _judge(space, variant, values=own, fields=fields)


def _counted_anew(fields: dict[str, Any], layer: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """Fields without their epochs where a later layer counts steps, and the other way round."""
    given = {path for path, value in layer if value is not None}
    gone = {"epochs"} if "training.steps" in given else set()
    gone |= {"steps", "evaluate_every"} if "training.epochs" in given else set()
    training = fields.get("training")
    if not gone or not isinstance(training, dict):
        return fields
    kept = {name: value for name, value in training.items() if name not in gone}
    return {**fields, "training": kept}


def axes_of(space: SearchSpace, variant: Variant) -> dict[str, Axis]:
    """The axes of a variant: the space's without those it drops or fixes, and added ones."""
    fixed = (*variant.fixed, *space.override)
    own = set(variant.axes)
    return {
        path: axis
        for path, axis in variant.axes_beside(space.axes).items()
        if not any(is_within(path, other) for other in (space.override if path in own else fixed))
    }


def _points(space: SearchSpace, variant: Variant) -> Iterator[Point]:
    for drawn in assignments(space, axes_of(space, variant)):
        yield from points_at(space, variant, drawn)


def seeds_at(
    space: SearchSpace, variant: Variant, values: dict[str, Any]
) -> tuple[int | None, ...]:
    """The seeds of the points at `values` of a variant's axes; None where `repeats` gives none."""
    # Seeds of its own are a variant's repeats.
    if _sets_a_seed((*variant.fixed.items(), *values.items(), *space.override.items())):
        return (None,)
    return space.repeats or (None,)


def _sets_a_seed(given: Iterable[tuple[str, Any]]) -> bool:
    return any(
        path == _SEED or (path == "training" and isinstance(value, dict) and "seed" in value)
        for path, value in given
    )


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
            raise InvalidInput(first_problem(error, TrialConfig)) from None
        return replace(point, reason=first_problem(error, TrialConfig))
    point = replace(point, config=config)
    mine = [c for c in space.constraints if not constraints.names(c.require) & PLANNED_NAMES]
    broken = broken_constraints(mine, config.model_dump(mode="json"))
    reasons = tuple(constraint.why for constraint in broken)
    return replace(point, reason=reasons[0], broken=reasons) if reasons else point


def broken_constraints(rules: Iterable[Constraint], names: dict[str, Any]) -> list[Constraint]:
    """The constraints that do not hold for `names`, in order. One over a field that this config's
    entries lack, such as the noise of an engine without any, does not apply.

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
            # A constraint may depend on earlier ones, such as one that a field is not null.
            if not broken:
                raise
    return broken


def _refuse_hopeless(points: list[Point]) -> None:
    """Raise where a variant, or one value of an axis, is invalid in every point that has it."""
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
        and all(point.config is None for point in members)
    ]
    if hopeless:
        # The culprit is wrong in the same way wherever it is.
        culprit = min(hopeless, key=lambda members: len({point.reason for point in members}))
        raise InvalidInput(str(culprit[0].reason))
