"""Checks of a space with `search.strategy: linear_scaling` (Panda et al. 2024, "A New Linear
Scaling Rule for Private Adaptive Hyperparameter Optimization"), and its stages as variants.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from search_spaces.independent_draws import NOISE
from search_spaces.parts import Variant
from trainables import goals

if TYPE_CHECKING:
    from search_spaces.space import SearchSpace

LEARNING_RATE = "training.learning_rate"
STAGES = ("probe-1", "probe-2", "last")


def require_stages(space: SearchSpace) -> None:
    """Raises: ValueError for a space that is no search for one learning rate under one total."""
    able = goals.validated_tasks()
    if space.task not in able:
        raise ValueError(
            f"expected task {' or '.join(able)} with strategy linear_scaling, got {space.task}"
        )
    if space.budget.total is None:
        raise ValueError(
            "expected budget.total with strategy linear_scaling: its probes take a share of it, and"
            " the last run the rest"
        )
    if set(space.axes) != {LEARNING_RATE} or space.axes[LEARNING_RATE].range is None:
        raise ValueError(
            f"expected one axis, a range of {LEARNING_RATE}, with strategy linear_scaling, got"
            f" {', '.join(space.axes) or 'none'}"
        )
    if space.variants and tuple(variant.name for variant in space.variants) != STAGES:
        raise ValueError("expected no variants with strategy linear_scaling, which makes its own")
    privacy = space.base.get("privacy")
    given = isinstance(privacy, dict) and "noise_multiplier" in privacy
    if given or NOISE in space.override:
        raise ValueError(
            f"expected no {NOISE} with strategy linear_scaling, which calibrates it for the share"
            " of budget.total of each stage"
        )
    if space.repeats or space.budget.trials is not None:
        raise ValueError("expected no repeats and no budget.trials with strategy linear_scaling")
    if space.resources.slots not in ("auto", 1):
        raise ValueError(
            "expected resources.slots auto or 1 with strategy linear_scaling: the last run waits"
            f" for the probes, got {space.resources.slots}"
        )


def stages_as_variants(space: SearchSpace, noise: Sequence[float]) -> SearchSpace:
    """The space with its stages as variants, one trial at a time; `noise` has the noise multiplier
    of each.
    """
    variants = tuple(
        Variant.model_validate({"name": name, "set": {NOISE: each}})
        for name, each in zip(STAGES, noise, strict=True)
    )
    resources = space.resources.model_copy(update={"slots": 1})
    return space.model_copy(update={"variants": variants, "resources": resources})
