"""From a space to its points: frozen data, a function of the space.

A point that a constraint or a validator refuses has a reason. A value that is invalid in every
point, such as a negative clip norm, is an error of the space and is raised.

`base`, the shared axes and `override` are for every variant. Where a variant or an axis changes an
entry (such as `model.name`), those of their fields that the new entry lacks are dropped. Each must
belong to at least one entry that the base or the space uses, and a field that a variant sets must
belong to one that this variant uses; other fields are refused.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pydantic import ValidationError

from search_spaces import constraints
from search_spaces.parts import Axis, Constraint, Variant
from search_spaces.paths import is_within, section_fields, set_all, set_path
from search_spaces.search import STRATEGIES
from search_spaces.space import SearchSpace
from trainables import catalogue
from trainables.config import SHELVES, TAGS, TrialConfig, classes_of, entry_fields, entry_of
from trainables.errors import InvalidInput, quote
from trainables.figures import EPSILON, EPSILON_PAPER
from trainables.frozen import first_problem, nearest
from trainables.seeding import generator

_SEED = "training.seed"
MAX_POINTS = 100_000
_BECAUSE = {
    "training.expected_batch_size": ", whose batches are full (B = n)",
}
# Names in constraints that only the plan knows, which checks those constraints.
PLANNED_NAMES = frozenset({EPSILON, EPSILON_PAPER, "steps", "delta", "num_records"})


@dataclass(frozen=True, kw_only=True)
class Point:
    """One point of a space: `config` is None where the fields make no config; `reason` says why
    the point is refused. `dropped` are the fields that its entries lack or leave unread.
    """

    variant: str
    baseline: bool
    values: dict[str, Any]
    fields: dict[str, Any]
    config: TrialConfig | None = None
    reason: str | None = None
    dropped: frozenset[str] = frozenset()


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
    if space.search.kind != "listed":  # draws may miss a value
        every += [point for v in space.all_variants for point in _samples(space, v)]
    _require_read(space, every)
    return Expansion(points=tuple(kept.values()), merged=merged)


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
        fields, dropped = own_fields(fields)
        own = {path: value for path, value in own.items() if _field(path) not in dropped}
        point = Point(
            variant=variant.name,
            baseline=variant.baseline,
            values=own,
            fields=fields,
            dropped=dropped,
        )
        yield _judge(space, point)


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
    for drawn in _values(space, axes_of(space, variant)):
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


def _judge(space: SearchSpace, point: Point) -> Point:
    try:
        config = TrialConfig.model_validate(point.fields)
    except ValidationError as error:
        if error.errors(include_url=False)[0]["type"] != "value_error":
            raise InvalidInput(first_problem(error, TrialConfig)) from None
        return replace(point, reason=first_problem(error, TrialConfig))
    point = replace(point, config=config)
    mine = [c for c in space.constraints if not constraints.names(c.require) & PLANNED_NAMES]
    broken = broken_constraint(mine, config.model_dump(mode="json"))
    return point if broken is None else replace(point, reason=broken.why)


def broken_constraint(rules: Iterable[Constraint], names: dict[str, Any]) -> Constraint | None:
    """The first constraint that does not hold for `names`. One over a field that this config's
    entries lack, such as the noise of an engine without any, does not apply. A constraint may
    depend on earlier ones, such as one that a field is not null.

    Raises: InvalidInput as `constraints.holds`.
    """
    applying = (c for c in rules if not _lacks_a_field(constraints.names(c.require), names))
    return next((c for c in applying if not constraints.holds(c.require, names)), None)


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


def _values(space: SearchSpace, axes: dict[str, Axis]) -> Iterator[dict[str, Any]]:
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


def _samples(space: SearchSpace, variant: Variant) -> Iterator[Point]:
    """Points of a variant that have every listed value of its axes once."""
    axes = axes_of(space, variant)
    lists = {p: axis.values or (axis.range and axis.range.at(0.0),) for p, axis in axes.items()}
    first = {path: values[0] for path, values in lists.items()}
    for path, values in lists.items():
        for value in values:
            yield next(points_at(space, variant, {**first, path: value}))
    yield next(points_at(space, variant, first))


def _require_read(space: SearchSpace, points: Sequence[Point]) -> None:
    """Raises: InvalidInput for a field of the base, of an axis, of a variant or an overridden one
    that none of its points reads: their entries lack it, or their other fields leave it unread.
    """
    _, alone = own_fields(space.base)  # not read where nothing else of the space is set either
    base = section_fields(space.base)
    shared = {path: base[path] for path in alone} | space.override
    _refuse_unread(shared, space.axes, points, base=space.base, alone=alone)
    for variant in space.variants:
        own = [point for point in points if point.variant == variant.name]
        of = f" of variant {variant.name}"
        _refuse_unread(variant.fixed, variant.axes, own, of=of)


def _refuse_unread(
    given: Mapping[str, Any],
    axes: Mapping[str, Axis],
    points: Sequence[Point],
    *,
    of: str = "",
    base: Mapping[str, Any] | None = None,
    alone: Collection[str] = (),
) -> None:
    """Raises: InvalidInput as `_require_read`. `alone` are fields that the `base` alone leaves
    unread. Of a section that is set as a whole, as an exported config has it, only fields that no
    entry has are refused.
    """
    values = {path: value for path, value in given.items() if value is not None}
    found = [(path, f"{path}{of}", f", got {quote(v)}", points) for path, v in values.items()]
    found += [(path, f"axis {path}{of}", "", points) for path in axes]
    wholes = [(path, value, points) for path, value in values.items()]
    wholes += [
        (path, value, [point for point in points if point.values.get(path) == value])
        for path, axis in axes.items()
        if "." not in path
        for value in axis.values or ()
    ]
    for path, whole, some in wholes:
        if isinstance(whole, dict) and "." not in path:
            found += [(f"{path}.{name}", "", "", some) for name in whole]
    for path, what, got, some in found:
        section, _, name = _field(path).partition(".")
        if any(_reads(point, section, name) for point in some):
            continue
        if path not in alone and not any(_leaves_unread(p, section, name) for p in some):
            continue
        configs = [*([base] if base else []), *(point.fields for point in some)]
        entries = [entry_of(section, fields) for fields in configs]
        known = {e: known for e in entries if (known := entry_fields(section, e))}
        every = sorted({field for fields in known.values() for field in fields})
        if name not in every:
            tag = TAGS[section].split(".")[0]
            raise InvalidInput(
                f"unknown field {section}.{name} for {tag} {' or '.join(known)}"
                f"{nearest(name, every)}"
            )
        if what:
            raise InvalidInput(
                f"expected no {what}, which no trial reads with its other fields"
                f"{_BECAUSE.get(path, '')}{got}"
            )


def _reads(point: Point, section: str, name: str) -> bool:
    part = point.fields.get(section)
    return isinstance(part, dict) and name in part and not _leaves_unread(point, section, name)


def _leaves_unread(point: Point, section: str, name: str) -> bool:
    if (section, name) == ("training", "expected_batch_size") and point.config is not None:
        return point.config.privacy.sampling == "full"
    return f"{section}.{name}" in point.dropped


def own_fields(fields: dict[str, Any]) -> tuple[dict[str, Any], frozenset[str]]:
    """A config's fields without those that its entries lack, or do not read beside the others, and
    the paths of these.
    """
    kept, dropped = dict(fields), set()
    for section in SHELVES:
        part, entry = fields.get(section), entry_of(section, fields)
        known = entry_fields(section, entry)
        if not isinstance(part, dict) or known is None:
            continue  # reported by the config's check
        own = {name: value for name, value in part.items() if name in known}
        for each in classes_of(section, entry):
            own = {name: value for name, value in own.items() if name not in each.unread(own)}
        dropped |= {f"{section}.{name}" for name in part if name not in own}
        kept[section] = own
    return kept, frozenset(dropped)


def _lacks_a_field(paths: Iterable[str], config: Mapping[str, Any]) -> bool:
    """Whether a config's entries lack a field that others have, of those that `paths` name."""
    for path in paths:
        section, _, rest = path.partition(".")
        field = rest.split(".")[0]
        if section in SHELVES and field and field not in config.get(section, {}):
            known = (entry_fields(section, entry) for entry in catalogue.names(SHELVES[section]))
            if any(field in fields for fields in known if fields):
                return True
    return False
