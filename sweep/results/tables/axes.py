"""Columns of a table of trials: one for each axis that varies, and short ids. Pure."""

from collections.abc import Sequence
from typing import Any

from search_spaces.paths import label, short
from sweep.results.tables.fitting import ALWAYS, Column
from sweep.store.plans import PlannedTrial
from trainables.config.mechanism import claims_privacy

_SHORTEST_ID = 6
_PAIRS = 18  # cells of several settings in one column


def short_ids(ids: Sequence[str]) -> dict[str, str]:
    """Unique prefixes of ids, all of one length, which commands accept.

    >>> short_ids(["8158fb36f603", "8158fb99f603"])
    {'8158fb36f603': '8158fb3', '8158fb99f603': '8158fb9'}
    """
    longest = max(map(len, ids), default=0)
    length = next(
        (
            n
            for n in range(_SHORTEST_ID, longest)
            if len({one[:n] for one in ids}) == len(set(ids))
        ),
        longest,
    )
    return {one: one[:length] for one in ids}


def varied_paths(plans: Sequence[PlannedTrial]) -> list[str]:
    """The axes that have more than one value among trials, in the order of the
    space.
    """
    seen: dict[str, set[str]] = {}
    for plan in plans:
        for path, value in plan.values.items():
            seen.setdefault(path, set()).add(repr(value))
    everywhere = {path for path in seen if all(path in plan.values for plan in plans)}
    return [
        path
        for path, values in seen.items()
        if len(values) > 1 or path not in everywhere
    ]


def value_at(plan: PlannedTrial, path: str) -> Any:
    """The value of an axis, from the point or else from the trial's fields; None where
    the field does not exist or the engine does not read it.
    """
    if path in plan.values:
        return plan.values[path]
    if path.startswith("privacy.") and not claims_privacy(plan.engine):
        return None
    found: Any = plan.fields
    for key in path.split("."):
        found = found.get(key) if isinstance(found, dict) else None
    return found


def setting_columns(
    plans: Sequence[PlannedTrial], paths: Sequence[str], *, more_to_come: bool = False
) -> tuple[list[Column], Column]:
    """A column for each of `paths` that varies among `plans`, one for their variants
    where they differ, and one that combines all of it. `more_to_come`: trials that
    differ follow, so each has its column from the start.
    """
    columns = []
    for path in paths:
        values = [value_at(plan, path) for plan in plans]
        cells = ["" if value is None else short(value) for value in values]
        if len({cell for cell in cells if cell}) > (0 if more_to_come else 1):
            words = any(
                isinstance(v, str) or (isinstance(v, dict) and "kind" in v)
                for v in values
            )
            column = Column(
                head=label(path), cells=cells, is_setting=True, is_left=words
            )
            columns.append((path, values, column))
    variants = [plan.variant for plan in plans]
    differ = more_to_come or len(set(variants)) > 1 or not columns
    pairs = [
        ", ".join(
            [
                *([variant] if differ else []),
                *(
                    f"{label(path)} {short(v[place])}"
                    for path, v, _ in columns
                    if v[place] is not None
                ),
            ]
        )
        for place, variant in enumerate(variants)
    ]
    together = Column(head="trial", cells=pairs, is_text=True, at_least=_PAIRS)
    apart = [column for _, _, column in columns]
    if differ:
        apart.insert(
            0, Column(head="trial", cells=variants, is_text=True, is_one_line=True)
        )
    return apart, together


def trial_columns(
    plans: Sequence[PlannedTrial],
    every: Sequence[PlannedTrial],
    *,
    worth: int = ALWAYS,
    more_to_come: bool = False,
) -> tuple[list[Column], Column]:
    """A column of ids, short among `every` trial, and `setting_columns` of what varies
    there.
    """
    ids = short_ids([plan.id for plan in every])
    found = Column(
        head="id", cells=[ids[plan.id] for plan in plans], worth=worth, is_left=True
    )
    apart, together = setting_columns(
        plans, varied_paths(every), more_to_come=more_to_come
    )
    return [found, *apart], together
