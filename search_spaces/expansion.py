"""From a space to its points, and to the domains that an adaptive search proposes
points in: frozen data, a function of the space.

A point that a constraint or a validator refuses has a reason. A value that is invalid
in every point, such as a negative clip norm, is an error of the space and is raised.

`base`, the shared axes and `override` are for every variant. Where a variant or an axis
changes an entry (such as `model.name`), those of their fields that the new entry lacks
are dropped. Each must belong to at least one entry that the base or the space uses, and
a field that a variant sets must belong to one that this variant uses; other fields are
refused.

An optimiser proposes a parameter, a number, which is mapped to a value of a config.
Ranges map to themselves, lists by index, in rising order where their values have one.
"""

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pydantic import ValidationError

from search_spaces import constraints
from search_spaces.parts import Axis, Constraint, Range, Variant
from search_spaces.paths import is_within, set_all
from search_spaces.space import SearchSpace
from trainables.config.trial import (
    REGISTRIES,
    TAGS,
    TrialConfig,
    class_of,
    entry_fields,
    entry_of,
    is_field,
)
from trainables.dp.seeding import generator
from trainables.errors import InvalidInput, quote
from trainables.fields import first_problem, nearest
from trainables.figures import EPSILON, EPSILON_PAPER

VARIANT = "variant"  # the parameter that chooses one
_SEED = "training.seed"
_DIGITS = 4  # digits of a proposed number, more than results can resolve
MAX_POINTS = 100_000
_BATCH = "training.expected_batch_size"
# Names in constraints that only the plan knows, which checks those constraints.
PLANNED_NAMES = frozenset({EPSILON, EPSILON_PAPER, "steps", "delta", "num_records"})


@dataclass(frozen=True, kw_only=True)
class Point:
    """One point of a space: `config` is None where the fields make no config; `reason`
    says why the point is refused. `dropped` are the fields that its entries lack or
    leave unread; `later` are the constraints over figures that only a plan knows, which
    checks them.
    """

    variant: str
    baseline: bool
    values: dict[str, Any]
    fields: dict[str, Any]
    config: TrialConfig | None = None
    reason: str | None = None
    dropped: frozenset[str] = frozenset()
    later: tuple[Constraint, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Expansion:
    """All points in the order of the space; `merged` counts those that were equal to an
    earlier.
    """

    points: tuple[Point, ...]
    merged: int


def expand(space: SearchSpace) -> Expansion:
    """Every point of a space, equal ones merged; of a trial that its seed cannot change
    the first of `repeats` alone.

    Raises: InvalidInput for a space without a point: a value out of range, a range
    without `num` in a grid, a constraint over an unknown name.
    """
    kept: dict[str, Point] = {}
    every: list[Point] = []
    chosen_later = space.searched_variants if space.search.is_adaptive else ()
    for variant in space.all_variants:
        for values in (
            () if variant in chosen_later else _values(space, axes_of(space, variant))
        ):
            for point in points_at(space, variant, values):
                every.append(point)
                key = (
                    point.config.id if point.config is not None else repr(point.fields)
                )
                # A point of a baseline is one, whichever variant named it first.
                first = kept.get(key, point)
                kept[key] = replace(first, baseline=first.baseline or point.baseline)
                if len(kept) > MAX_POINTS:
                    raise InvalidInput(
                        f"expected at most {MAX_POINTS} points in a space"
                    )
                if point.config is not None and not point.config.depends_on_seed:
                    break
    merged = len(every) - len(kept)
    _refuse_hopeless(every)
    if space.search.kind != "listed":  # draws may miss a value
        every += [point for v in space.all_variants for point in _samples(space, v)]
    _require_read(space, every)
    return Expansion(points=tuple(kept.values()), merged=merged)


def points_at(
    space: SearchSpace, variant: Variant, values: dict[str, Any]
) -> Iterator[Point]:
    """The points at `values` of a variant's axes, checked: one for each seed of
    `repeats`.

    Raises: InvalidInput for a value that no config can have, a constraint over an
    unknown name.
    """
    rules = space.constraints
    later = tuple(
        rule for rule in rules if constraints.names(rule.require) & PLANNED_NAMES
    )
    now = [rule for rule in rules if rule not in later]
    for seed in seeds_at(space, variant, values):
        repeat = {} if seed is None else {_SEED: seed}
        whole = space.base
        for layer in filter(None, (variant.fixed | values, space.override, repeat)):
            whole = set_all(counted_anew(whole, layer), layer.items())
        fields, lost = own_fields(whole)
        dropped = frozenset(lost)
        own = {p: v for p, v in (values | repeat).items() if _field(p) not in dropped}
        point = Point(
            variant=variant.name,
            baseline=variant.baseline,
            values=own,
            fields=fields,
            later=later,
        )
        try:
            config = TrialConfig.model_validate(fields)
        except ValidationError as error:
            if error.errors(include_url=False)[0]["type"] != "value_error":
                raise InvalidInput(first_problem(error)) from None
            yield replace(point, reason=first_problem(error), dropped=dropped)
            continue
        if config.privacy.sampling == "full":
            dropped |= {_BATCH}
        broken = broken_constraint(now, config.model_dump(mode="json"))
        reason = None if broken is None else broken.why
        yield replace(point, config=config, reason=reason, dropped=dropped)


def counted_anew(fields: dict[str, Any], layer: Mapping[str, Any]) -> dict[str, Any]:
    """Fields without their epochs where a later layer counts steps, and the other way
    round.
    """
    steps, epochs = (
        layer.get(f"training.{name}") is not None for name in ("steps", "epochs")
    )
    gone = {"epochs"} if steps else set()
    gone |= {"steps", "evaluate_every"} if epochs else set()
    training = fields.get("training")
    if not gone or not isinstance(training, dict):
        return fields
    kept = {name: value for name, value in training.items() if name not in gone}
    return {**fields, "training": kept}


def axes_of(space: SearchSpace, variant: Variant) -> dict[str, Axis]:
    """The axes of a variant: the space's without those it drops or fixes, and added
    ones.
    """
    every = {**({} if variant.drop_axes else space.axes), **variant.axes}
    fixed = (*variant.fixed, *space.override)
    return {
        path: axis
        for path, axis in every.items()
        if not any(
            is_within(path, o)
            for o in (space.override if path in variant.axes else fixed)
        )
    }


def seeds_at(
    space: SearchSpace, variant: Variant, values: dict[str, Any]
) -> tuple[int | None, ...]:
    """The seeds of the points at `values` of a variant's axes; None where `repeats`
    gives none.
    """
    given = variant.fixed | values | space.override
    training = given.get("training")
    # Seeds of its own are a variant's repeats.
    if _SEED in given or (isinstance(training, dict) and "seed" in training):
        return (None,)
    return space.repeats or (None,)


def _field(path: str) -> str:
    """A section's field that a deeper path is part of."""
    return ".".join(path.split(".")[:2])


def at_ends(
    space: SearchSpace, variant: str, values: dict[str, Any]
) -> Iterator[tuple[str, Point]]:
    """The points that differ from one at `values` of a variant's axes by an end of one
    range, and the range's path.
    """
    [own] = [each for each in space.searched_variants if each.name == variant]
    for path, axis in axes_of(space, own).items():
        if axis.range is not None and path in values:
            for end in (axis.at(0.0), axis.at(1.0)):
                for point in points_at(space, own, {**values, path: end}):
                    yield path, point


def broken_constraint(
    rules: Iterable[Constraint], names: dict[str, Any]
) -> Constraint | None:
    """The first constraint that does not hold for `names`. One over a field that this
    config's entries lack, such as the noise of an engine without any, does not apply. A
    constraint may depend on earlier ones, such as one that a field is not null.

    Raises: InvalidInput as `constraints.holds`.
    """
    for rule in rules:
        used = [
            _field(path).split(".")
            for path in constraints.names(rule.require)
            if "." in path
        ]
        lacking = [
            (s, name)
            for s, name in used
            if s in REGISTRIES and name not in names.get(s, {})
        ]
        is_known = any(is_field(*each) for each in lacking)
        if not is_known and not constraints.holds(rule.require, names):
            return rule
    return None


def _refuse_hopeless(points: list[Point]) -> None:
    """Raise where a variant, or one value of an axis, is invalid in every point that
    has it.
    """
    groups: dict[tuple[str, str], list[Point]] = {}
    for point in points:
        for path, value in {VARIANT: point.variant, **point.values}.items():
            groups.setdefault((path, repr(value)), []).append(point)
    hopeless = [
        members
        for (path, _), members in groups.items()
        # A value drawn once from a range says nothing of the range: its partner may be
        # to blame.
        if (path == VARIANT or len(members) > 1 or len(points) == 1)
        and all(point.config is None for point in members)
    ]
    if hopeless:
        # The culprit is wrong in the same way wherever it is.
        culprit = min(
            hopeless, key=lambda members: len({point.reason for point in members})
        )
        raise InvalidInput(str(culprit[0].reason))


def _values(space: SearchSpace, axes: dict[str, Axis]) -> Iterator[dict[str, Any]]:
    """The values of all axes of each point, by path.

    Raises: InvalidInput for a range without `num` where values are listed, or too many
    points.
    """
    search = space.search
    drawn = {
        p: axis
        for p, axis in axes.items()
        if search.kind == "drawn" and axis.grid is None
    }
    lists: dict[str, Sequence[Any]] = {}
    for path, axis in axes.items():
        if axis.range is not None and search.is_private_selection:
            # One point represents all that differ from it along a range only.
            lists[path] = (axis.range.at(0.5),)
        elif path not in drawn and axis.values is None:
            raise InvalidInput(
                f"axes.{path}: expected a baseline without a range in an adaptive"
                " search (drop_axes: all)"
                if search.is_adaptive
                else f"axes.{path}: expected num in a range with strategy"
                f" {search.strategy}"
            )
        elif path not in drawn:
            lists[path] = axis.values or ()
    if math.prod(map(len, lists.values())) > MAX_POINTS:
        raise InvalidInput(f"expected at most {MAX_POINTS} points in a space")
    for sample in _distinct(space, drawn) if search.kind == "drawn" else [{}]:
        for corner in itertools.product(*lists.values()):
            found = sample | dict(zip(lists, corner, strict=True))
            yield {path: found[path] for path in axes}  # in the order of the file


def _distinct(space: SearchSpace, axes: dict[str, Axis]) -> Iterator[dict[str, Any]]:
    """`num_samples` distinct draws, or fewer where the space has fewer points."""
    wanted = space.search.num_samples or 1
    seen: set[str] = set()
    # A finite space is exhausted long before this many repeats in a row.
    misses, patience = 0, 200 + 20 * wanted
    random = generator(space.search.seed, "search")
    for shares in space.search.entry.shares(random, num_axes=len(axes)):
        if len(seen) == wanted or misses > patience:
            return
        sample = {
            p: axis.at(s) for (p, axis), s in zip(axes.items(), shares, strict=True)
        }
        misses = misses + 1 if repr(sample) in seen else 0
        if not misses:
            seen.add(repr(sample))
            yield sample


def _samples(space: SearchSpace, variant: Variant) -> Iterator[Point]:
    """Points of a variant that have every listed value of its axes once."""
    axes = axes_of(space, variant)
    lists = {path: axis.values or (axis.at(0.0),) for path, axis in axes.items()}
    first = {path: values[0] for path, values in lists.items()}
    for path, values in lists.items():
        for value in values:
            yield next(points_at(space, variant, {**first, path: value}))
    yield next(points_at(space, variant, first))


def _require_read(space: SearchSpace, points: Sequence[Point]) -> None:
    """Raises: InvalidInput for a field of the base, of an axis, of a variant or an
    overridden one that none of its points reads: their entries lack it, or their other
    fields leave it unread. Of a section that is set as a whole, as an exported config
    has it, only fields that no entry has are refused.
    """
    _, alone = own_fields(
        space.base
    )  # not read where nothing else of the space is set either
    scopes = [("", alone | space.override, space.axes, points)]
    for variant in space.variants:
        mine = [point for point in points if point.variant == variant.name]
        scopes.append(
            (f" of variant {variant.name}", variant.fixed, variant.axes, mine)
        )
    for of, given, axes, own in scopes:
        found = [
            (p, f"{p}{of}", f", got {quote(v)}", own)
            for p, v in given.items()
            if v is not None
        ]
        found += [(path, f"axis {path}{of}", "", own) for path in axes]
        wholes = [(path, value, own) for path, value in given.items()]
        for path, axis in axes.items():
            for value in axis.values or () if "." not in path else ():
                wholes.append(
                    (path, value, [p for p in own if p.values.get(path) == value])
                )
        for path, whole, some in wholes:
            if isinstance(whole, dict) and "." not in path:
                found += [(f"{path}.{name}", "", "", some) for name in whole]
        for path, what, got, some in found:
            field = _field(path)
            section, _, name = field.partition(".")
            is_dropped = any(field in point.dropped for point in some) or (
                path in alone and not of
            )
            own_part = (
                point.fields.get(section)
                for point in some
                if field not in point.dropped
            )
            if not is_dropped or any(
                name in part for part in own_part if isinstance(part, dict)
            ):
                continue
            configs = [*([] if of else [space.base]), *(point.fields for point in some)]
            entries = [entry_of(section, fields) for fields in configs]
            known = {e: names for e in entries if (names := entry_fields(section, e))}
            every = sorted({field for fields in known.values() for field in fields})
            if name not in every:
                tag = TAGS[section].split(".")[0]
                raise InvalidInput(
                    f"unknown field {section}.{name} for {tag} {' or '.join(known)}"
                    f"{nearest(name, every)}"
                )
            if what:
                because = ", whose batches are full (B = n)" if path == _BATCH else ""
                raise InvalidInput(
                    f"expected no {what}, which no trial reads with its other"
                    f" fields{because}{got}"
                )


def own_fields(fields: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """A config's fields without those that its entries lack, or do not read beside the
    others, and these by their paths.
    """
    kept, dropped = dict(fields), dict[str, Any]()
    for section in REGISTRIES:
        part, entry = fields.get(section), entry_of(section, fields)
        known = entry_fields(section, entry)
        if not isinstance(part, dict) or known is None:
            continue  # reported by the config's check
        own = {name: value for name, value in part.items() if name in known}
        if (
            section != "training"
        ):  # epochs beside steps are two answers, which the config refuses
            unread = class_of(section, entry).unread(own)
            own = {name: value for name, value in own.items() if name not in unread}
        dropped |= {f"{section}.{name}": part[name] for name in part if name not in own}
        kept[section] = own
    return kept, dropped


@dataclass(frozen=True)
class Domain:
    """The values of one axis: a `range`, or a list of `values`; `ordered` where they
    rise.
    """

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
        return self.value(
            self.range.at(share) if self.range else share * len(self.values)
        )

    def param(self, value: Any) -> float | int:
        """The parameter of one of its values."""
        return value if self.range is not None else self.values.index(value)

    def matching(self, value: Any) -> list[Any]:
        """The value of the domain that a config's value is; empty where it is none.

        >>> domain_of(Axis(grid=({"kind": "linear"}, 1))).matching({"kind": "linear", "tau": 0.1})
        [{'kind': 'linear'}]
        >>> domain_of(Axis(range={"low": 1, "high": 2})).matching(3)
        []
        """
        if self.range is not None:
            low, high = self.range.ends
            is_number = isinstance(value, int | float) and not isinstance(value, bool)
            return [value] if is_number and low <= value <= high else []
        return [own for own in self.values if _is_part(own, value)][:1]


def _is_part(own: Any, value: Any) -> bool:
    """Whether a value is another one, or a mapping that has its fields and more."""
    if isinstance(own, dict) and isinstance(value, dict):
        return all(value.get(name) == part for name, part in own.items())
    return bool(own == value)


def domain_of(axis: Axis) -> Domain:
    """The domain of an axis of any kind."""
    values = tuple(axis.values or ()) if axis.range is None else ()
    ordered = len(values) > 2 and None not in map(rank, values)
    if ordered:
        values = tuple(sorted(values, key=lambda value: rank(value) or 0.0))
    return Domain(range=axis.range, values=values, ordered=ordered)


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
        return {path: domain.at(0.0) for path, domain in self.domains.items()}

    def params(self, values: Mapping[str, Any]) -> dict[str, float | int]:
        """The parameters of values of its axes, which are given by path, by their
        names.
        """
        return {
            self.name_of(path): self.domains[path].param(v)
            for path, v in values.items()
        }


def branches(space: SearchSpace) -> tuple[Branch, ...]:
    """Every variant of the search with its domains.

    Raises: InvalidInput without an axis and without two variants.
    """
    found = tuple(
        Branch(
            variant,
            {path: domain_of(axis) for path, axis in axes_of(space, variant).items()},
        )
        for variant in space.searched_variants
    )
    if not found or (len(found) == 1 and not found[0].domains):
        raise InvalidInput(
            f"expected an axis or two variants for strategy {space.search.strategy},"
            f" got none"
        )
    return found


def at_shares(
    found: Sequence[Branch], share: Callable[[str], float]
) -> tuple[Variant, dict[str, Any]]:
    """A variant and the values of its axes, at the `share` in [0, 1) of each parameter
    by name.
    """
    branch = found[int(share(VARIANT) * len(found))]
    values = {
        p: domain.at(share(branch.name_of(p))) for p, domain in branch.domains.items()
    }
    return branch.variant, values


def num_seeds(space: SearchSpace) -> int:
    """The largest number of trials, one a seed, of a configuration of an adaptive
    search.
    """
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
