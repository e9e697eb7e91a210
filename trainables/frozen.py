"""Immutable parts of a config, and one-line messages for their errors."""

from __future__ import annotations

import operator
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, reduce
from types import UnionType
from typing import Annotated, Any, ClassVar, Literal, Self, TypeVar, Union, get_args, get_origin

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    ValidationError,
    model_serializer,
    model_validator,
)
from pydantic_core import InitErrorDetails, PydanticCustomError

from trainables.documents import did_you_mean, one_line, quote
from trainables.errors import InvalidInput

MAX_NUMBER = 1e9  # of sizes, rates and factors: no computation with them leaves a float's range
MAX_SEED = 2**63 - 1
MAX_RECORDS = 10**9
MAX_EPOCHS = 100_000
MAX_WIDTH = 65_536
MAX_ROWS = 10**7  # of a table of vectors
# What pydantic calls one of several forms of a field, and the ends of its problems with a value
# that is of another one.
_FORM = re.compile(r"(constrained-)?(float|int|str|bool)|literal\[.*\]|function-.*|[A-Z]\w*")
# In place of pydantic's words, which are those of Python.
_EXPECTED = {
    "dict_type": "expected a mapping",
    "model_type": "expected a mapping",
    "tuple_type": "expected a list",
    "string_type": "expected text",
    "float_type": "expected a number",
    "int_type": "expected a whole number",
    "int_from_float": "expected a whole number",
    "too_short": "expected at least one value",
}
_OF_ANOTHER_FORM = ("_type", "_parsing", "literal_error")
Model = TypeVar("Model", bound=BaseModel)
PositiveFloat = Annotated[float, Field(gt=0, le=MAX_NUMBER, allow_inf_nan=False)]


class Frozen(BaseModel):
    """An immutable model that refuses unknown keys and names the nearest field.

    A field made irrelevant by others (`unread`) must have its default value and is not dumped.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)
    section: ClassVar[str] = ""  # where it stands in a trial's config, for messages
    lacks: ClassVar[frozenset[str]] = frozenset()  # fields of its base class that it does not have

    @classmethod
    def fields(cls) -> tuple[str, ...]:
        """Names of the fields that may be given."""
        return tuple(name for name in cls.model_fields if name not in cls.lacks)

    def unread(self) -> frozenset[str]:
        """Names of the fields that are not read because of the values of other fields."""
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
        require_types(cls, fields)
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
        left_out = self.unread() | self.lacks
        return {name: value for name, value in fields.items() if name not in left_out}


@dataclass(frozen=True)
class _Given:
    """The plain values that a field accepts: types (int stands for every number), words of a
    choice, and the values of each element of a list.
    """

    types: frozenset[type] = frozenset()
    words: frozenset[Any] = frozenset()
    elements: _Given | None = None

    def problem(self, value: Any) -> tuple[tuple[int, ...], Any, str] | None:
        """(index in a list, value, expected type) of a value that would be coerced to another."""
        if isinstance(value, list | tuple) and self.elements is not None:
            for place, each in enumerate(value):
                if (found := self.elements.problem(each)) is not None:
                    return (place, *found[0]), *found[1:]
        kind = int if isinstance(value, float) else type(value)
        if kind not in (bool, int, str) or kind in self.types or value in self.words:
            return None
        if int in self.types:
            return (), value, "a number"
        if bool in self.types:
            return (), value, "true or false"
        return None

    def __or__(self, other: _Given) -> _Given:
        return _Given(
            self.types | other.types, self.words | other.words, self.elements or other.elements
        )


def _given(annotation: Any) -> _Given:
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _given(inner[0])
    if origin is Literal:
        return _Given(words=frozenset(inner))
    if origin in (Union, UnionType):
        return reduce(operator.or_, map(_given, inner))
    if origin is tuple and inner:
        return _Given(elements=_given(inner[0]))
    kind = int if annotation is float else annotation
    return _Given(types=frozenset({kind}) if kind in (bool, int, str) else frozenset())


@cache
def _given_fields(model: type[BaseModel]) -> dict[str, _Given]:
    return {
        info.alias or name: _given(info.annotation) for name, info in model.model_fields.items()
    }


def require_types(model: type[BaseModel], fields: Mapping[str, Any]) -> None:
    """Refuse implicit conversions to numbers and booleans, such as "3" for 3 or true for 1.

    Raises: ValidationError for the first such field.
    """
    known = _given_fields(model)
    for name, value in fields.items():
        found = known[name].problem(value) if name in known else None
        if found is None:
            continue
        place, wrong, wanted = found
        problem = PydanticCustomError("another_type", "expected {wanted}", {"wanted": wanted})
        details = InitErrorDetails(type=problem, loc=(name, *place), input=wrong)
        raise ValidationError.from_exception_data(model.__name__, [details])


def foreign_field(name: str, known: Iterable[str], *, title: str) -> PydanticCustomError:
    """The problem of a field that is not among the `known` ones of an entry."""
    hint = (f" for {title}" if title else "") + nearest(name, known)
    return PydanticCustomError("foreign_field", "{hint}", {"field": name, "hint": hint})


def nearest(name: str, known: Iterable[str]) -> str:
    """The end of a message about an unknown field: the nearest known one, or all of them.

    >>> nearest("num_heads", ["num_layers", "dropout"]), nearest("x", ["b", "a"])
    (': did you mean num_layers?', ' (its fields: a, b)')
    """
    return did_you_mean(name, known) or f" (its fields: {', '.join(sorted(known))})"


def _intended_problem(problems: Sequence[Any]) -> Any:
    """The first problem; of a field with alternative forms, that of the form that was meant."""
    found = next((each for each in problems if each["type"] == "another_type"), problems[0])
    form = next((k for k, each in enumerate(found["loc"]) if _is_form(each)), None)
    if form is None:
        return found
    same = [each for each in problems if each["loc"][:form] == found["loc"][:form]]
    unknown = [each for each in same if each["type"] == "foreign_field"]
    meant = [each for each in same if not each["type"].endswith(_OF_ANOTHER_FORM)]
    return [*unknown, *meant, found][0]


def _is_form(place: Any) -> bool:
    """Whether a place in a problem is pydantic's name of one of several forms, and no field.

    >>> [_is_form(each) for each in ("constrained-float", "TargetEpsilon", "target_epsilon", 0)]
    [True, True, False, False]
    """
    return isinstance(place, str) and _FORM.fullmatch(place) is not None


def first_problem(error: ValidationError, *, section: str = "") -> str:
    """The first problem of a pydantic error in one line: field, allowed values, given value.

    `section` names the part of a config that was parsed alone.
    """
    problem = _intended_problem(error.errors(include_url=False))
    loc = [each for each in problem["loc"] if not _is_form(each)]
    place = [section] * bool(section) + [one_line(str(each), characters=80) for each in loc]
    if problem["type"] == "foreign_field":
        name = one_line(str(problem.get("ctx", {})["field"]), characters=80)
        return f"unknown field {'.'.join([*place, name])}{problem['msg']}"
    field = ".".join(place) or "config"
    message = _EXPECTED.get(problem["type"]) or problem["msg"].removeprefix("Value error, ")
    if problem["type"] == "another_type" or problem["type"] in _EXPECTED:
        return f"{field}: {message}, got {quote(problem['input'])}"
    if message.startswith("expected "):
        said = field == "config" or message.startswith(f"expected {field}.")
        return message if said else f"{field}: {message}"
    return f"{field}: {message[0].lower()}{message[1:]}, got {quote(problem['input'])}"


def validated(kind: type[Model], fields: Any) -> Model:
    """Plain data as a part of a config, a space or another description.

    Raises: InvalidInput, one sentence for the first problem.
    """
    try:
        return kind.model_validate(fields)
    except ValidationError as error:
        raise InvalidInput(first_problem(error)) from None
