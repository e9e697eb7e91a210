"""Fields that some entries of a space have and others have not.

`base`, the shared axes and `override` are for every variant. Where a variant or an axis changes an
entry (such as `model.name`), those of their fields that the new entry lacks are dropped. Each must
belong to at least one entry that the base or the space uses, and a field that a variant sets must
belong to one that this variant uses; other fields are refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from search_spaces.parts import Axis, Variant
from search_spaces.paths import outermost_first
from search_spaces.space import SearchSpace
from trainables import catalogue
from trainables.config import SHELVES, TAGS, classes_of, entry_fields, entry_of
from trainables.errors import InvalidInput
from trainables.frozen import nearest


def refuse_foreign(
    space: SearchSpace,
    variants: Sequence[Variant],
    *,
    axes: Mapping[str, Mapping[str, Axis]],
    section: str,
) -> None:
    """Raise for a field of a section that none of its possible entries has; `axes` of variants by
    name.

    Raises: InvalidInput, one line with the nearest name.
    """
    used = {v.name: _entries(space, v, axes[v.name], section=section) for v in variants}
    every = [entry for entries in used.values() for entry in entries]
    base = space.base.get(section)
    shared = [*(base if isinstance(base, dict) else ()), *_below(section, space.axes)]
    # The base's entry may have been replaced by each variant, or by an override.
    _refuse(shared, [entry_of(section, space.base), *every], section=section)
    _refuse(_below(section, space.override), every, section=section)
    for whole in _whole(section, space.override, space.axes):
        _refuse(whole, _entries_of(section, whole, every), section=section)
    for variant in variants:
        own = list(_below(section, [*variant.fixed, *variant.axes]))
        _refuse(own, used[variant.name], section=section)
        for whole in _whole(section, variant.fixed, variant.axes):
            _refuse(whole, _entries_of(section, whole, used[variant.name]), section=section)


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


def lacks_a_field(paths: Iterable[str], config: Mapping[str, Any]) -> bool:
    """Whether a config's entries lack a field that others have, of those that `paths` name."""
    for path in paths:
        section, _, rest = path.partition(".")
        field = rest.split(".")[0]
        if section in SHELVES and field and field not in config.get(section, {}):
            known = (entry_fields(section, entry) for entry in catalogue.names(SHELVES[section]))
            if any(field in fields for fields in known if fields):
                return True
    return False


def _refuse(names: Iterable[str], entries: list[Any], *, section: str) -> None:
    known = {entry: found for entry in entries if (found := entry_fields(section, entry))}
    if not known:
        return
    tag = TAGS[section].split(".")[0]
    every = sorted({name for fields in known.values() for name in fields})
    for name in names:
        if name not in every:
            raise InvalidInput(
                f"unknown field {section}.{name} for {tag} {' or '.join(known)}"
                f"{nearest(name, every)}"
            )


def _entries_of(section: str, whole: dict[str, Any], others: list[Any]) -> list[Any]:
    """The entries of a section that is set as a whole; `others` where it names none."""
    return [entry_of(section, {section: whole})] if _names_itself(section) else others


def _names_itself(section: str) -> bool:
    return TAGS[section].startswith(f"{section}.")


def _whole(
    section: str, fixed: Mapping[str, Any], axes: Mapping[str, Axis]
) -> Iterator[dict[str, Any]]:
    """Sections that are set as a whole."""
    values = [fixed.get(section), *((axes[section].values or ()) if section in axes else ())]
    yield from (value for value in values if isinstance(value, dict))


def _below(section: str, paths: Iterable[str]) -> Iterator[str]:
    """The fields of a section that dotted paths name.

    >>> list(_below("model", ["model.dropout", "engine", "model"]))
    ['dropout']
    """
    for path in paths:
        head, _, rest = path.partition(".")
        if head == section and rest:
            yield rest.split(".")[0]


def _entries(
    space: SearchSpace, variant: Variant, axes: Mapping[str, Axis], *, section: str
) -> list[Any]:
    """The entries of a section that a variant's points can have."""
    found = [entry_of(section, space.base)]
    fixed: Iterable[tuple[str, Iterable[Any]]] = ((p, (v,)) for p, v in variant.fixed.items())
    drawn = ((path, axis.values or ()) for path, axis in axes.items())
    last = ((path, (value,)) for path, value in space.override.items())
    for path, values in (*outermost_first((*fixed, *drawn)), *outermost_first(last)):
        found = _after(found, path, values, section=section)
    return found


def _after(before: list[Any], path: str, values: Iterable[Any], *, section: str) -> list[Any]:
    """The entries once a path has been set to one of `values`."""
    if path == TAGS[section]:
        return list(dict.fromkeys(map(str, values)))
    if path == section and _names_itself(section):
        return list(dict.fromkeys(str(entry_of(section, {section: v})) for v in values))
    return before
