"""Sections of a config as tagged unions, each parsed by the class of the entry that owns it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import (
    BeforeValidator,
    SerializeAsAny,
    ValidationError,
    ValidationInfo,
)

from trainables import catalogue
from trainables.documents import kind_of
from trainables.errors import InvalidInput
from trainables.frozen import Frozen, first_problem
from trainables.sections import DataConfig, ModelConfig, PrivacyConfig, TrainingConfig
from trainables.synthesis_section import SynthesisConfig

# Where the entries that own a section stand.
SHELVES = {
    "data": "datasets",
    "model": "models",
    "privacy": "engines",
    "training": "engines",
    "synthesis": "generation",
}
# The path that names a section's entry.
TAGS = {
    "data": "data.name",
    "model": "model.name",
    "privacy": "engine",
    "training": "engine",
    "synthesis": "synthesis.method",
}


def tasks() -> tuple[str, ...]:
    """The entries of tasks that a trial can run."""
    return catalogue.names("tasks", kind="trial")


def kind_for(task: str, shelf: str) -> str | None:
    """The `KIND` of the entries of a shelf that a task uses, which it states as `DATASETS`,
    `MODELS` and so on; None where it does not use the shelf.

    >>> kind_for("nlu", "models"), kind_for("nlu", "generation")
    ('frames', None)
    """
    return catalogue.constant("tasks", task, shelf.upper())


def kinds_of(shelf: str) -> frozenset[str]:
    """The `KIND`s of a shelf's entries that some task uses."""
    found = (kind_for(task, shelf) for task in tasks())
    return frozenset(kind for kind in found if kind is not None)


def default_entry(section: str) -> str:
    """The entry of a section where none is named."""
    return catalogue.marked_entry(SHELVES[section], "DEFAULT")


def entry_of(section: str, fields: Mapping[str, Any]) -> Any:
    """The name of the entry that owns a section of a config; the entry may not exist."""
    found: Any = fields
    for part in TAGS[section].split("."):
        found = found.get(part) if isinstance(found, dict) else None
    return default_entry(section) if found is None else found


def entry_config(section: str, fields: dict[str, Any], *, kind: str | None = None) -> Any:
    """The part of a config that an entry owns, of the class of the entry that `name` names.

    Raises: ValueError for a name that the shelf lacks; ValidationError, a subclass, for unknown
        fields of the entry and invalid values.
    """
    shelf = SHELVES[section]
    _require_mapping(fields)
    name = fields.get("name", default_entry(section))
    entries = _entries(shelf) if kind is None else catalogue.names(shelf, kind=kind)
    if name not in entries:
        raise ValueError(f"expected {section}.name to be one of {', '.join(entries)}, got {name!r}")
    return catalogue.entry(shelf, name).Config.model_validate(fields)


def entry_fields(section: str, name: Any) -> tuple[str, ...] | None:
    """The fields that a section has with this entry; None where there is no such entry."""
    shelf = SHELVES[section]
    if name not in _entries(shelf):
        return None
    found = catalogue.entry(shelf, name)
    if section == "training":
        return tuple(getattr(found, "TRAINING", TrainingConfig.fields()))
    own: type[Frozen] = found.Config
    return own.fields()


def _entries(shelf: str) -> tuple[str, ...]:
    """Those that some task can use."""
    kinds = kinds_of(shelf)
    if not kinds:
        return catalogue.names(shelf)
    return tuple(name for name in catalogue.names(shelf) if catalogue.kind_of(shelf, name) in kinds)


def _require_mapping(fields: Any) -> None:
    if not isinstance(fields, dict):
        raise ValueError(f"expected a mapping of fields, got {kind_of(fields)}")


def _of_entry(section: str) -> BeforeValidator:
    shelf = SHELVES[section]

    def read(fields: Any, info: ValidationInfo) -> Any:
        task = info.data.get("task") or catalogue.marked_entry("tasks", "DEFAULT")
        kind = kind_for(task, shelf)
        if isinstance(fields, DataConfig | ModelConfig):
            if catalogue.kind_of(shelf, fields.name) == kind:
                return fields
            fields = fields.model_dump()
        _require_mapping(fields)
        try:
            return entry_config(section, fields, kind=kind)
        except ValidationError:
            raise
        except ValueError as problem:
            raise ValueError(str(problem).replace(", got", f" with task={task}, got")) from None

    return BeforeValidator(read)


Task = Annotated[str, catalogue.NameOf("tasks", kind="trial")]
Engine = Annotated[str, catalogue.NameOf("engines")]
Data = Annotated[SerializeAsAny[DataConfig], _of_entry("data")]
Model = Annotated[SerializeAsAny[ModelConfig], _of_entry("model")]


def engine_config(engine: str, fields: Any) -> PrivacyConfig:
    """The privacy part of a config in its engine's class, from plain data or from the part of
    another engine or none, of which it keeps the set fields that this engine has.

    Raises: ValidationError for unknown fields of the engine and invalid values.
    """
    own: type[PrivacyConfig] = catalogue.entry("engines", engine).Config
    if isinstance(fields, PrivacyConfig):
        if type(fields) is own:
            return fields
        given = fields.model_dump(exclude_unset=True)
        fields = {name: value for name, value in given.items() if name in own.fields()}
    return own.model_validate(fields)


def _of_engine(fields: Any, info: ValidationInfo) -> Any:
    # A problem with the engine's name is reported first, and alone.
    return engine_config(info.data["engine"], fields) if "engine" in info.data else PrivacyConfig()


Privacy = Annotated[SerializeAsAny[PrivacyConfig], BeforeValidator(_of_engine)]


def synthesis_config(fields: dict[str, Any]) -> SynthesisConfig:
    """The part of a config on generating text, of the class of its method.

    Raises: ValueError for an unknown method; ValidationError, a subclass, for unknown fields of
        the method and invalid values.
    """
    methods = catalogue.names("generation", kind="method")
    name = fields.get("method", default_entry("synthesis"))
    if name not in methods:
        raise ValueError(f"expected method to be one of {', '.join(methods)}, got {name!r}")
    own: type[SynthesisConfig] = catalogue.entry("generation", name).Config
    return own.model_validate(fields)


def _of_method(fields: Any) -> SynthesisConfig:
    if isinstance(fields, SynthesisConfig):
        if type(fields) is not SynthesisConfig:
            return fields
        fields = fields.model_dump(exclude_unset=True)
    _require_mapping(fields)
    return synthesis_config(fields)


Synthesis = Annotated[SerializeAsAny[SynthesisConfig], BeforeValidator(_of_method)]


def data_config(**fields: Any) -> DataConfig:
    """The data part of a config alone, of any kind of corpus.

    Raises: InvalidInput, one sentence for the first thing that is wrong.
    """
    found: DataConfig = _part("data", fields)
    return found


def model_part(**fields: Any) -> ModelConfig:
    """The model part of a config alone, of any kind of model.

    Raises: InvalidInput, one sentence for the first thing that is wrong.
    """
    found: ModelConfig = _part("model", fields)
    return found


def _part(section: str, fields: dict[str, Any]) -> Any:
    try:
        return entry_config(section, fields)
    except ValidationError as error:
        raise InvalidInput(first_problem(error, section=section)) from None
    except ValueError as problem:
        raise InvalidInput(str(problem)) from None
