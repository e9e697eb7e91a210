"""The part of a search space about the choice of points."""

from __future__ import annotations

from types import ModuleType
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, field_validator, model_validator

from search_spaces.parts import Part, Positive
from trainables import catalogue, figures
from trainables.catalogue import NameOf
from trainables.config.sections import Epochs, Seed
from trainables.fields import Listed, ReadOnlyIf

STRATEGIES = "search_spaces.strategies"  # the shelf


def _require_objective(name: str) -> str:
    if name not in figures.objectives():
        raise ValueError(
            f"expected one of {', '.join(figures.objectives())}, got {name!r}"
        )
    return name


Objective = Annotated[str, AfterValidator(_require_objective)]
_SELECTS = ReadOnlyIf(strategy="private_selection")
Samples = Annotated[int, Field(ge=1, le=100_000)]
_RESULTS = "its theorem needs trials that are drawn without regard to results"
_NOT_INDEPENDENT = {  # fields of a search, and why a private selection has none of them
    "num_samples": "the number of trials is drawn from the law in num_trials",
    "seed": "number and points are drawn by a secret key of the operating system",
    "objectives": "the score is the task's validation metric",
    "num_startup": _RESULTS,
    "scheduler": "a trial that is stopped by its results is no independent draw",
}


class NumTrials(Part):
    """The law of the number of trials of a private selection, and its mean.

    Geometric and logarithmic numbers are at least 1; a Poisson number may be 0.
    """

    law: Literal["geometric", "logarithmic", "poisson"] = "geometric"
    """law of the number of trials"""
    mean: Annotated[float, Field(gt=1, le=10_000)]
    """mean number of trials"""


class Search(Part):
    """The choice of points: all beforehand (listed or drawn), sequentially by earlier
    results (adaptive), or a random number of independent draws of which only the best
    is released (private_selection). `num_samples` counts draws for each variant, in an
    adaptive search configurations over all variants.
    """

    strategy: Annotated[str, NameOf(STRATEGIES)] = catalogue.default(STRATEGIES)
    """entry of search_spaces/strategies"""
    num_samples: Samples | None = None
    """number of draws for each variant; in an adaptive search number of configurations
    over all variants
    """
    num_trials: Annotated[NumTrials | None, _SELECTS] = None
    """distribution of the number of trials"""
    target_epsilon: Annotated[Positive | None, _SELECTS] = None
    """epsilon of the released trial, for which one noise multiplier of all trials is
    calibrated
    """
    seed: Seed = 0
    """seed of the draws"""
    objectives: Annotated[Listed[Objective], Field(min_length=1)] = ("validation_ser",)
    """objectives of an adaptive search; several are searched for their Pareto front;
    default with task=synthesis: mauve_states
    """
    num_startup: Samples | None = None
    """adaptive: number of space-filling configurations before the first one that a
    model suggests
    """
    start_from: Listed[str] = ()
    """adaptive: sweeps whose results are the first observations of the search"""
    scheduler: Literal["none", "asha", "median"] = "none"
    """scheduler that stops trials early by validation SER, or by loss with
    task=synthesis
    """
    grace_epochs: Epochs = 1
    """epochs that every trial completes before it may be stopped"""

    @property
    def kind(self) -> str | None:
        """The kind of the strategy: listed, drawn, adaptive or private_selection."""
        return catalogue.kind_of(STRATEGIES, self.strategy)

    @property
    def entry(self) -> ModuleType:
        """The module of the strategy."""
        found: ModuleType = catalogue.entry(STRATEGIES, self.strategy)
        return found

    @property
    def is_adaptive(self) -> bool:
        """Whether points are chosen by earlier results."""
        return self.kind == "adaptive"

    @property
    def is_private_selection(self) -> bool:
        """Whether only the best of a secret number of independent draws is released."""
        return self.kind == "private_selection"

    @field_validator("objectives", "start_from", mode="before")
    @classmethod
    def _one_or_more(cls, names: Any) -> Any:
        return (names,) if isinstance(names, str) else names

    @model_validator(mode="after")
    def _fits_the_strategy(self) -> Search:
        if self.is_private_selection and self.num_trials is None:
            raise ValueError(
                "expected num_trials (law and mean) with strategy private_selection"
            )
        for name, why in _NOT_INDEPENDENT.items() if self.is_private_selection else ():
            if getattr(self, name) != type(self).model_fields[name].default:
                raise ValueError(
                    f"expected no {name} with strategy private_selection: {why}"
                )
        if len(set(self.objectives)) < len(self.objectives):
            raise ValueError(
                f"expected different objectives, got {', '.join(self.objectives)}"
            )
        for name in ("objectives", "num_startup", "start_from"):
            if (
                name in self.model_fields_set
                and not self.is_adaptive
                and getattr(self, name)
            ):
                able = ", ".join(catalogue.names(STRATEGIES, kind="adaptive"))
                raise ValueError(
                    f"expected {name} with strategy {able}, got {self.strategy}"
                )
        without = self.kind == "listed" or self.is_private_selection
        if without != (self.num_samples is None):
            word = "no num_samples" if without else "num_samples"
            raise ValueError(f"expected {word} with strategy {self.strategy}")
        return self
