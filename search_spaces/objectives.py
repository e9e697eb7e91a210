"""The objectives of an adaptive search: figures that its trials measure."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from search_spaces.parts import Variant
from search_spaces.paths import replaced, set_all
from trainables import catalogue, figures, goals

if TYPE_CHECKING:
    from search_spaces.space import SearchSpace


def default_objectives(task: str) -> tuple[str, ...]:
    """The default objective of a search: the first measure of quality."""
    return (goals.quality(task)[0],)


def require_objectives(space: SearchSpace) -> None:
    """Raises: ValueError for an objective that some trial would not measure, which the search would
    observe as failures.
    """
    if not space.search.is_adaptive:
        return
    allowed = figures.objectives(space.task)
    for name in space.search.objectives:
        if name not in allowed:
            raise ValueError(f"expected no objective {name} with task={space.task}")
    if figures.LEAKAGE in space.search.objectives:
        _require_attacks(space)


def _require_attacks(space: SearchSpace) -> None:
    from trainables.attacks import attacks_on_models  # which imports NumPy

    measured = {
        name
        for name in attacks_on_models()
        if not catalogue.entry("attacks", name).NEEDS & {"references", "coins"}
    }
    for variant in space.all_variants:
        for attacks in () if variant.baseline else _attacks_of(space, variant):
            if isinstance(attacks, list | tuple) and not measured & {*map(str, attacks)}:
                raise ValueError(
                    "expected evaluation.attacks with"
                    f" {' or '.join(sorted(measured))}, or none given, with the objective"
                    f" leakage, got {list(attacks)}"
                )


def _attacks_of(space: SearchSpace, variant: Variant) -> Iterator[Any]:
    """Every `evaluation.attacks` that a point of the variant can have, as typed; None: default."""
    choices = [
        [(path, value) for value in axis.values or ()]
        for path, axis in variant.axes_beside(space.axes).items()
        if path in ("evaluation", "evaluation.attacks")
    ]
    for chosen in itertools.product(*choices):
        for last in (space.override, replaced(space.fallback, space.override)):
            fields = set_all(space.base, (*variant.fixed.items(), *chosen), last.items())
            evaluation = fields.get("evaluation")
            yield evaluation.get("attacks") if isinstance(evaluation, dict) else None
