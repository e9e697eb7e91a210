"""Restrictions of a space whose trials must be independent draws from one distribution
(`search.strategy: private_selection`; Papernot & Steinke 2022, "Hyperparameter Tuning
with Renyi Differential Privacy").
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from search_spaces import constraints
from search_spaces.paths import is_within
from trainables.config import objectives
from trainables.figures import VALIDATION

if TYPE_CHECKING:
    from search_spaces.space import SearchSpace

NOISE = "privacy.noise_multiplier"
# Axes that would change a trial's training or scored records, or its guarantee.
_SHARED = (
    "task",
    "data",
    "evaluation",
    "training.seed",
    "privacy.delta",
    "privacy.unit",
)


def require_independent_draws(space: SearchSpace) -> None:
    """Raises: ValueError for a setting with which trials are not independent draws with
    comparable scores.
    """
    able = [
        task
        for task in objectives.tasks()
        if objectives.quality(task)[0].startswith(VALIDATION)
    ]
    if space.task not in able:
        raise ValueError(
            f"expected task {' or '.join(able)} with strategy private_selection, got"
            f" {space.task}:"
            " its score is the error on validation records that no training touches"
        )
    if space.repeats:
        raise ValueError(
            "expected no repeats with strategy private_selection: each trial is a"
            " single draw, and a repeat would be a trial that was not drawn"
        )
    if space.budget.trials is not None:
        raise ValueError(
            "expected no budget.trials with strategy private_selection: its price"
            " assumes the law of the number of trials, which a limit would change"
        )
    if space.budget.accountant not in ("sound", "selection"):
        raise ValueError(
            "expected budget.accountant sound or selection with strategy"
            f" private_selection, got {space.budget.accountant}"
        )
    for variant in space.variants:
        if variant.baseline:
            raise ValueError(
                f"expected no baseline with strategy private_selection, got variant"
                f" {variant.name}:"
                " run it as a sweep of its own, which has its own price"
            )
    axes = [
        *space.axes.items(),
        *(axis for v in space.variants for axis in v.axes.items()),
    ]
    given = {path for path, _ in axes} | {
        path for v in space.variants for path in v.fixed
    }
    privacy = space.base.get("privacy")
    if isinstance(privacy, dict) and "noise_multiplier" in privacy:
        given.add(NOISE)
    if (
        space.search.target_epsilon is not None and NOISE in given
    ):  # an override may calibrate it
        raise ValueError(
            f"expected no {NOISE} with search.target_epsilon: one value for all trials"
            " is found for the target"
        )
    for path, axis in axes:
        _refuse_shared(path, axis.values or (), what=f"axis {path}")
        for (
            rule
        ) in space.constraints:  # so that the configurations are known before any draw
            if axis.range is not None and path in constraints.names(rule.require):
                raise ValueError(
                    "expected constraints over lists of values with strategy"
                    f" private_selection, got {rule.require!r} over the range {path}"
                )
    for variant in space.variants:
        for path, value in variant.fixed.items():
            _refuse_shared(path, (value,), what=f"{path} in variant {variant.name}")


def _refuse_shared(path: str, values: Iterable[Any], *, what: str) -> None:
    """Refuse a field, or whole sections of fields, that all trials must share."""
    for each in (path, *(inner for value in values for inner in _paths(path, value))):
        if any(is_within(each, shared) for shared in _SHARED):
            raise ValueError(
                f"expected no {what} with strategy private_selection: all trials share"
                " their records, their seed and their"
                f" guarantee{'' if each == path else f' ({each})'}"
            )


def _paths(path: str, value: Any) -> Iterator[str]:
    """The dotted paths of the fields of a value."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield f"{path}.{name}"
            yield from _paths(f"{path}.{name}", inner)
