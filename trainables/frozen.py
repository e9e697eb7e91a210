"""Immutable parts of a config, and their problems in one line each."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Annotated, Any, ClassVar, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    ValidationError,
    model_serializer,
    model_validator,
)
from pydantic_core import PydanticCustomError

from trainables.documents import one_line, shown

PositiveFloat = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class Frozen(BaseModel):
    """Immutable, and an unknown key is an error that names the nearest field.

    A field that the others make irrelevant (`unread`) has its default value and is not dumped.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)
    section: ClassVar[str] = ""  # where it stands in a trial's config, for messages
    lacks: ClassVar[frozenset[str]] = frozenset()  # fields of its base class that it does not have

    @classmethod
    def fields(cls) -> tuple[str, ...]:
        """Names of the fields that may be given."""
        return tuple(name for name in cls.model_fields if name not in cls.lacks)

    def unread(self) -> frozenset[str]:
        """Names of the fields that nothing reads because of what the other fields say."""
        return frozenset()

    @classmethod
    def title(cls) -> str:
        """The entry that the fields belong to, such as `model clc`; empty where there is none."""
        name = cls.model_fields.get("name")
        return f"{cls.section} {name.default}" if name is not None and cls.section else ""

    @model_validator(mode="before")
    @classmethod
    def _own_fields_alone(cls, fields: Any) -> Any:
        if not isinstance(fields, dict):
            return fields
        known, lacks = cls.__pydantic_fields__, cls.lacks
        for name in fields:
            if name not in known or name in lacks:
                raise foreign_field(str(name), cls.fields(), title=cls.title())
        return fields

    @model_validator(mode="after")
    def _unread_is_default(self) -> Self:
        for name in self.unread() | self.lacks:
            default = type(self).model_fields[name].get_default(call_default_factory=True)
            object.__setattr__(self, name, default)
        return self

    @model_serializer(mode="wrap")
    def _what_is_read(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        fields: dict[str, Any] = dump(self)
        return {name: value for name, value in fields.items() if name not in self._left_out()}

    def _left_out(self) -> frozenset[str]:
        return self.unread() | self.lacks


def foreign_field(name: str, known: Iterable[str], *, title: str) -> PydanticCustomError:
    """The problem of a field that is not among the `known` ones of an entry."""
    hint = (f" for {title}" if title else "") + nearest(name, known)
    return PydanticCustomError("foreign_field", "{hint}", {"field": name, "hint": hint})


def nearest(name: str, known: Iterable[str]) -> str:
    """The end of a sentence about an unknown name: which known one it may have meant.

    >>> nearest("num_heads", ["num_layers", "dropout"]), nearest("x", ["b", "a"])
    (': did you mean num_layers?', ' (its fields: a, b)')
    """
    near = difflib.get_close_matches(name, known, n=1)
    return f": did you mean {near[0]}?" if near else f" (its fields: {', '.join(sorted(known))})"


def first_problem(error: ValidationError, *, section: str = "") -> str:
    """The first problem of a pydantic error in one line: field, what is allowed, what came.

    `section` names the part of a config that was read by itself.
    """
    problem = error.errors(include_url=False)[0]
    place = [section] * bool(section) + [one_line(str(p), characters=80) for p in problem["loc"]]
    if problem["type"] == "foreign_field":
        name = one_line(str(problem.get("ctx", {})["field"]), characters=80)
        return f"unknown field {'.'.join([*place, name])}{problem['msg']}"
    field = ".".join(place) or "config"
    message = problem["msg"].removeprefix("Value error, ")
    if message.startswith("expected "):
        said = field == "config" or message.startswith(f"expected {field}.")
        return message if said else f"{field}: {message}"
    return f"{field}: {message[0].lower()}{message[1:]}, got {shown(problem['input'])}"
