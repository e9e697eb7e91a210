"""The base of frozen descriptions, and the one line that says what is wrong with
one.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    Strict,
    ValidationError,
    model_serializer,
    model_validator,
)
from pydantic_core import PydanticCustomError

from trainables.errors import InvalidInput, did_you_mean, one_line, quote

MAX_NUMBER = (
    1e9  # of sizes, rates and factors: no computation with them leaves a float's range
)
MAX_SEED = 2**63 - 1
MAX_RECORDS = 10**9
MAX_EPOCHS = 100_000
MAX_WIDTH = 65_536
MAX_ROWS = 10**7  # of a table of vectors
# In place of pydantic's words, which are those of Python.
_EXPECTED = {
    "bool_type": "expected true or false",
    "dict_type": "expected a mapping",
    "model_type": "expected a mapping",
    "model_attributes_type": "expected a mapping",
    "tuple_type": "expected a list",
    "string_type": "expected text",
    "float_type": "expected a number",
    "int_type": "expected a whole number",
    "too_short": "expected at least one value",
}
# Of a place in a document pydantic also names the form of a union that it tried.
_FORMS = {
    "str",
    "int",
    "float",
    "bool",
    "constrained-str",
    "constrained-int",
    "constrained-float",
}
Item = TypeVar("Item")
Part = TypeVar("Part", bound="Frozen")
Listed = Annotated[tuple[Item, ...], Strict(False)]  # a list in a document
PositiveFloat = Annotated[float, Field(gt=0, le=MAX_NUMBER)]
NotNegative = Annotated[float, Field(ge=0, le=MAX_NUMBER)]
Share = Annotated[float, Field(gt=0, lt=1)]
Count = Annotated[int, Field(ge=1, le=MAX_RECORDS)]
# A tag that a config writes at its top, or never.
INTERNAL_DISCRIMINATOR = Field(exclude=True, repr=False)


class ReadOnlyIf:
    """Marks a field that is read only where other fields have these values.

    A tuple stands for any of its values, a type for all of its own. Of several marks
    one must hold.
    """

    def __init__(self, **others: Any) -> None:
        self.others = {
            n: v if isinstance(v, tuple) else (v,) for n, v in others.items()
        }

    def holds(self, fields: Mapping[str, Any]) -> bool:
        """Whether the other fields have such values, of those that there are."""
        return all(
            fields[name] in allowed or type(fields[name]) in allowed
            for name, allowed in self.others.items()
            if name in fields
        )

    def words(self, prefix: str) -> str:
        """The condition, with the path of the fields' section before their names."""
        return " and ".join(
            f"{prefix}{name}={' or '.join(map(_word, allowed))}"
            for name, allowed in self.others.items()
        )


def _word(value: Any) -> str:
    if isinstance(value, type):
        return "a number"
    return json.dumps(value) if value is None or isinstance(value, bool) else str(value)


class Frozen(BaseModel):
    """The base of every description that users write: an immutable pydantic model of
    exact types. It refuses unknown fields with the nearest known one, and fields that
    the values of others leave unread (`ReadOnlyIf`), which are also left out of dumps.
    Equal fields give equal objects, so a dump can be hashed to an id.

    Raises: ValidationError, of which `first_problem` makes one line.
    """

    model_config = ConfigDict(
        frozen=True, extra="forbid", allow_inf_nan=False, strict=True, defer_build=True
    )

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        _FORMS.update({cls.__name__, *cls.tag().values()})

    @classmethod
    def tag(cls) -> dict[str, str]:
        """The field whose only value tells the class from others of a union."""
        return {
            name: info.default
            for name, info in cls.model_fields.items()
            if get_origin(info.annotation) is Literal
            and len(get_args(info.annotation)) == 1
        }

    @classmethod
    def unread(cls, given: Mapping[str, Any]) -> dict[str, list[ReadOnlyIf]]:
        """Fields that are not read beside the `given` ones, and what they are read
        with.
        """
        marks = marks_of(cls)
        values = {
            n: given.get(n, info.default)
            for n, info in cls.model_fields.items()
            if marks
        }
        return {
            name: found
            for name, found in marks.items()
            if not any(mark.holds(values) for mark in found)
        }

    @model_validator(mode="before")
    @classmethod
    def _known_fields(cls, fields: Any) -> Any:
        """3.0 is 3, as in JSON, and null no value of a field with conditions. Raises:
        PydanticCustomError for an unknown field."""
        if not isinstance(fields, dict):
            return fields
        for name in fields:
            if name not in cls.model_fields and name not in written_fields(cls):
                raise PydanticCustomError(
                    "unknown", "unknown field {name}", {"name": name, "of": cls}
                )
        return {
            name: int(value) if type(value) is float and value.is_integer() else value
            for name, value in fields.items()
            if value is not None or name not in marks_of(cls)
        }

    def model_post_init(self, context: Any, /) -> None:
        """Raises: PydanticCustomError for a given field that is not read."""
        for name, marks in self.unread(self.__dict__).items():
            if name in self.model_fields_set:
                found = {"field": name, "marks": marks, "value": getattr(self, name)}
                raise PydanticCustomError("unread", "{field} is not read", found)

    @model_serializer(mode="wrap")
    def _what_is_read(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        unread = self.unread(self.__dict__)
        return {name: value for name, value in dump(self).items() if name not in unread}


def fixed_fields(
    whole: type[Frozen], **others: Any
) -> Callable[[type[Part]], type[Part]]:
    """A class decorator that gives a part of a union constants in place of the fields
    of `whole` that the part lacks: those in `others`, or the defaults of `whole`. Code
    of any component can then read every field, and a component cannot be configured by
    one that it does not read.
    """

    def complete(part: type[Part]) -> type[Part]:
        for name, info in whole.model_fields.items():
            if name not in part.model_fields:
                setattr(part, name, others.get(name, info.default))
        return part

    return complete


@cache
def marks_of(model: type[BaseModel]) -> dict[str, list[ReadOnlyIf]]:
    """The conditions under which fields of a model are read."""
    found = {
        name: [each for each in info.metadata if isinstance(each, ReadOnlyIf)]
        for name, info in model.model_fields.items()
    }
    return {name: marks for name, marks in found.items() if marks}


@cache
def written_fields(model: type[BaseModel]) -> tuple[str, ...]:
    """Names of a model's fields as a user writes them, in their order: aliases where
    there are some, without the tags that are handed in by other fields. These are the
    names that messages about unknown fields suggest.
    """
    fields = model.model_fields.items()
    return tuple(info.alias or name for name, info in fields if not info.exclude)


def nearest(name: str, known: Iterable[str]) -> str:
    """The end of a message about an unknown field: the nearest known one, or all of
    them.

    >>> nearest("num_heads", ["num_layers", "dropout"]), nearest("x", ["b", "a"])
    (': did you mean num_layers?', ' (its fields: a, b)')
    """
    return did_you_mean(name, known) or f" (its fields: {', '.join(sorted(known))})"


def first_problem(error: ValidationError) -> str:
    """The first problem of a pydantic error in one line: the path of the field, the
    allowed values and the given one, in our words. An unknown field comes before all
    others, because a typo explains them; of a value that may have several forms, the
    problem with the form that was meant.
    """

    def path(problem: Any) -> list[str]:
        place = [str(each) for each in problem["loc"] if each not in _FORMS]
        return [one_line(each, characters=80) for each in place if "[" not in each]

    problems = error.errors(include_url=False)
    if unknown := [problem for problem in problems if problem["type"] == "unknown"]:
        return _unknown(path(unknown[0]), **unknown[0]["ctx"])
    # Of a value that may have several forms, the problem with the form that was meant.
    first = path(problems[0])
    same = [each for each in problems if path(each)[: len(first)] == first]
    problem = min(same, key=lambda p: (p["type"].endswith("_type"), -len(path(p))))
    return _sentence(".".join(path(problem)), problem)


def _unknown(path: list[str], name: Any, of: type[Frozen]) -> str:
    section = path[-1] if path else "name"
    tags = of.tag().items()
    whose = "".join(
        f" for {section if tag == 'name' else tag} {entry}" for tag, entry in tags
    )
    field = ".".join([*path, one_line(str(name), characters=80)])
    return f"unknown field {field}{whose}{nearest(str(name), written_fields(of))}"


def _sentence(field: str, problem: Any) -> str:
    kind, value, about = problem["type"], problem["input"], problem.get("ctx", {})
    prefix = f"{field}." if field else ""
    if kind == "unread":
        read, value = (
            " or ".join(mark.words(prefix) for mark in about["marks"]),
            about["value"],
        )
        value = (
            value.model_dump(exclude_unset=True)
            if isinstance(value, BaseModel)
            else value
        )
        return (
            f"expected no {prefix}{about['field']}, which is read only with {read}, got"
            f" {quote(value)}"
        )
    if kind == "missing":
        return f"expected {field}, got none"
    if kind in ("union_tag_invalid", "union_tag_not_found"):
        tag = about["discriminator"].strip("'")
        given = value.get(tag) if isinstance(value, Mapping) else None
        allowed = about.get("expected_tags", "a name").replace("'", "")
        return (
            f"expected {prefix}{tag} to be one of {allowed}, got {quote(given)}"
            f"{did_you_mean(str(given), allowed.split(', '))}"
        )
    field = field or "config"
    message = _EXPECTED.get(kind) or problem["msg"].removeprefix("Value error, ")
    if kind not in _EXPECTED and message.startswith("expected "):
        said = field == "config" or message.startswith(f"expected {field}.")
        return message if said else f"{field}: {message}"
    return f"{field}: {message[0].lower()}{message[1:]}, got {quote(value)}"


def validated(check: Callable[[Any], Item], fields: Any) -> Item:
    """What the pydantic validator `check` makes of the plain data `fields`, with its
    first problem as one sentence instead of a list. Use it wherever a document of a
    user is read.

    Raises: InvalidInput naming the field, what is allowed and what was given.
    """
    try:
        return check(fields)
    except ValidationError as error:
        raise InvalidInput(first_problem(error)) from None
