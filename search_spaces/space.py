"""A search space as frozen data, and reading one from a YAML file.

A space names a base config, axes over dotted paths of it, variants (each with its own
fixed values and axes), constraints, the search, repeats over seeds, the budget and the
resources of a trial. A bare trial config, such as an exported one, is a space of one
point.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, Field, field_validator, model_validator

from search_spaces.files import LONGEST_NAME, document_in, is_bare_config, locate
from search_spaces.independent_draws import require_independent_draws
from search_spaces.parts import (
    CONFIG_FIELDS,
    Axes,
    Budget,
    Constraint,
    Fields,
    Part,
    Resources,
    Variant,
)
from search_spaces.paths import is_within, set_path
from search_spaces.search import STRATEGIES, Search
from search_spaces.set_axes import is_list, with_axis
from trainables import catalogue, figures
from trainables.config import objectives
from trainables.errors import InvalidInput, quote
from trainables.fields import Listed, validated
from trainables.io.documents import DocumentProblem, require_storable

NAME = re.compile(rf"[a-z0-9][a-z0-9_.-]{{0,{LONGEST_NAME - 1}}}")


def check_name(name: str) -> str:
    """`name`, where it is a valid folder name.

    Raises: ValueError otherwise.
    """
    if not NAME.fullmatch(name) or ".." in name:
        raise ValueError(
            f"expected a name of lower-case letters, digits, '_', '-' and '.' (at most"
            f" {LONGEST_NAME}, a letter or a digit first, no two dots in a row), got"
            f" {name!r}"
        )
    return name


class SearchSpace(Part):
    """The definition of a sweep's trials. `override` is applied last, to every
    trial.
    """

    name: Annotated[str, AfterValidator(check_name)]
    """name of the sweep, if --name gives none"""
    description: str = ""
    """free text"""
    source: str = ""
    """origin of the values, as free text"""
    extends: None = None
    """in a file: shipped space or file whose fields are the defaults of this one; base
    is merged field by field
    """
    base: dict[str, Any] = Field(default_factory=dict)
    """fields of the config that all trials share"""
    variants: Listed[Variant] = ()
    """kinds of trials, each with a name, and optionally baseline, set and axes"""
    axes: Axes = Field(default_factory=dict)
    """values to try, as a list or a range, by field"""
    constraints: Listed[Constraint] = ()
    """conditions (require) that refuse points, with a reason"""
    search: Search = Search()
    repeats: Listed[int] = ()
    """values of training.seed; a number n stands for 0 to n-1"""
    budget: Budget = Budget()
    resources: Resources = Resources()
    fallback: Fields = Field(default_factory=dict)
    """overrides that apply if the data set is not available"""
    override: Fields = Field(default_factory=dict)
    """fields applied last, to every trial, as by --set"""

    @field_validator("constraints", mode="before")
    @classmethod
    def _texts(cls, items: Any) -> Any:
        if not isinstance(items, list | tuple):
            return items
        return [{"require": item} if isinstance(item, str) else item for item in items]

    @field_validator("repeats", mode="before")
    @classmethod
    def _count(cls, repeats: Any) -> Any:
        if isinstance(repeats, int) and not isinstance(repeats, bool):
            if not 1 <= repeats <= 1_000:
                raise ValueError(f"expected 1 to 1000, got {repeats}")
            return tuple(range(repeats))
        if not isinstance(repeats, list | tuple):
            raise ValueError(
                f"expected a number or a list of seeds, got {quote(repeats)}"
            )
        return repeats

    @model_validator(mode="before")
    @classmethod
    def _objectives_of_the_task(cls, fields: Any) -> Any:
        search = fields.get("search") if isinstance(fields, dict) else None
        if not isinstance(search, dict) or "objectives" in search:
            return fields
        if catalogue.kind_of(STRATEGIES, str(search.get("strategy"))) != "adaptive":
            return fields
        task = _task_of(fields.get("base"), fields.get("override"))
        best = objectives.quality(task)[0]
        return {**fields, "search": {**search, "objectives": (best,)}}

    @model_validator(mode="after")
    def _variants_differ(self) -> SearchSpace:
        names = [variant.name for variant in self.variants]
        if len(set(names)) < len(names):
            raise ValueError(
                f"expected variants with different names, got {', '.join(names)}"
            )
        return self

    @model_validator(mode="after")
    def _permitted_by_the_strategy(self) -> SearchSpace:
        if self.search.is_private_selection:
            require_independent_draws(self)
        if not self.search.is_adaptive:
            return self
        if self.budget.accountant == "selection":
            raise ValueError(
                "expected budget.accountant other than selection with an adaptive"
                " search: its price holds where trials are independent draws"
            )
        chosen = [variant.axes for variant in self.variants if not variant.baseline]
        for path in {path for axes in (self.axes, *chosen) for path in axes}:
            if path == "privacy.delta" or path.split(".")[0] == "data":
                raise ValueError(f"expected no axis {path} in an adaptive search")
        for name in self.search.objectives:  # others would be observed as failures
            if name not in figures.objectives(self.task):
                raise ValueError(f"expected no objective {name} with task={self.task}")
        return self

    @property
    def task(self) -> str:
        """The task of the trials: that of the base, which variants and axes share."""
        return _task_of(self.base, self.override)

    @property
    def metric(self) -> str:
        """The figure that a scheduler compares after an epoch."""
        return objectives.after_an_epoch(self.task)

    @property
    def all_variants(self) -> tuple[Variant, ...]:
        """The variants; one of all trials where the space has none."""
        return self.variants or (Variant(name="all"),)

    @property
    def searched_variants(self) -> tuple[Variant, ...]:
        """The variants of a search that chooses or draws its trials: all but the
        baselines.
        """
        return tuple(variant for variant in self.all_variants if not variant.baseline)

    def document(self) -> dict[str, Any]:
        """The space as plain data that `parse` reads back to an equal space."""
        return self.model_dump(mode="json", by_alias=True, exclude_defaults=True)


def _task_of(base: Any, override: Any) -> str:
    """Raises: ValueError for a task that there is not."""
    given = [
        part["task"]
        for part in (override, base)
        if isinstance(part, dict) and "task" in part
    ]
    task, known = [*given, objectives.default_task()][0], catalogue.names("tasks")
    if task not in known:
        raise ValueError(
            f"expected task to be one of {', '.join(known)}, got {quote(task)}"
        )
    return str(task)


def rename(space: SearchSpace, name: str) -> SearchSpace:
    """The space under another name.

    Raises: InvalidInput for an invalid name.
    """
    try:
        return space.model_copy(update={"name": check_name(name)})
    except ValueError as problem:
        raise InvalidInput(f"name: {problem}") from None


def with_fallback(space: SearchSpace) -> SearchSpace:
    """The space with its fallback values in every trial; overridden values are kept."""
    kept = {
        path: value
        for path, value in space.fallback.items()
        if not any(is_within(path, other) for other in space.override)
    }
    return space.model_copy(update={"override": kept | space.override})


def parse(document: dict[str, Any]) -> SearchSpace:
    """A space from plain data whose `base` is a mapping.

    Raises: InvalidInput, one sentence for the first problem.
    """
    return validated(SearchSpace.model_validate, document)


def read(
    source: str | Path | dict[str, Any], *, overrides: dict[str, Any] | None = None
) -> SearchSpace:
    """The space in a file, the shipped one of that name or that of a document, whose
    `base` is a mapping, with `overrides` by dotted path.

    Raises: InvalidInput for a file that is missing or no YAML, for its first problem,
        and for what a sweep's files cannot hold, such as text with NUL.
    """
    changes = overrides or {}
    try:
        require_storable(source if isinstance(source, dict) else {})
        require_storable(changes)
    except DocumentProblem as problem:
        raise InvalidInput(str(problem)) from None
    if isinstance(source, dict):
        document = {"base": source} if is_bare_config(source) else source
        return parse(_with_overrides({"name": "sweep", **document}, changes))
    path = locate(source)
    document = document_in(path)
    found = parse(_with_overrides(document, changes))
    if not document.keys() & {"base", "axes", "variants"}:  # as in a truncated file
        raise InvalidInput(
            f"expected base, axes or variants in the space {path}, got none of them"
        )
    return found


def _with_overrides(
    document: dict[str, Any], overrides: dict[str, Any]
) -> dict[str, Any]:
    """The document with each change. A value of a config's field is for every trial. A
    list on a field that takes none is an axis, as `axes.PATH` is.
    """
    merged = dict(document)
    for path, value in overrides.items():
        head, _, rest = path.partition(".")
        if head == "axes" and rest:
            merged = with_axis(merged, rest, value)
        elif head in CONFIG_FIELDS and isinstance(value, list) and not is_list(path):
            merged = with_axis(merged, path, value)
        elif head in CONFIG_FIELDS:
            merged["override"] = {**(merged.get("override") or {}), path: value}
        elif head in ("budget", "search", "resources", "repeats"):
            merged = set_path(merged, path, value)
        else:
            allowed = ", ".join(
                sorted({*CONFIG_FIELDS, "axes", "budget", "search", "resources"})
            )
            raise InvalidInput(
                f"expected a path that starts with one of {allowed}, got {path!r}"
            )
    return merged
