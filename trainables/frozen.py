"""The base of frozen descriptions, and the one line that says what is wrong with one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from types import UnionType
from typing import Annotated, Any, ClassVar, Literal, TypeVar, Union, get_args, get_origin

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

MAX_NUMBER = 1e9  # of sizes, rates and factors: no computation with them leaves a float's range
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
Item = TypeVar("Item")
Model = TypeVar("Model", bound=BaseModel)
Listed = Annotated[tuple[Item, ...], Strict(False)]  # a list in a document
PositiveFloat = Annotated[float, Field(gt=0, le=MAX_NUMBER, allow_inf_nan=False)]


class With:
    """Marks a field that is read only where other fields have these values.

    A tuple stands for any of its values, a type for all of its own. Of several marks one must hold.
    """

    def __init__(self, **others: Any) -> None:
        self.others = {n: v if isinstance(v, tuple) else (v,) for n, v in others.items()}

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
    return str(value).lower() if isinstance(value, bool) else str(value)


class Frozen(BaseModel):
    """An immutable model of exact types that refuses unknown fields, and those that the values of
    others leave unread (`With`), which are not dumped.
    """

    model_config = ConfigDict(
        frozen=True, extra="forbid", allow_inf_nan=False, strict=True, defer_build=True
    )
    whose: ClassVar[str | None] = None  # in a message on an unknown field; None: that of its tag

    @classmethod
    def unread(cls, given: Mapping[str, Any]) -> dict[str, list[With]]:
        """Fields that are not read beside the `given` ones, and what they are read with."""
        marks = marks_of(cls)
        values = {n: given.get(n, info.default) for n, info in cls.model_fields.items() if marks}
        return {
            name: found
            for name, found in marks.items()
            if not any(mark.holds(values) for mark in found)
        }

    @model_validator(mode="before")
    @classmethod
    def _whole_numbers(cls, fields: Any) -> Any:
        """3.0 is 3, as in JSON."""
        if not isinstance(fields, dict):
            return fields
        whole = (n for n, v in fields.items() if type(v) is float and v.is_integer())
        return {**fields, **{name: int(fields[name]) for name in whole}}

    def model_post_init(self, context: Any, /) -> None:
        """Raises: PydanticCustomError for a given field that is not read."""
        for name, marks in self.unread(self.__dict__).items():
            value = getattr(self, name)
            if name in self.model_fields_set and value is not None:
                found = {"field": name, "marks": marks, "value": value}
                raise PydanticCustomError("unread", "{field} is not read", found)

    @model_serializer(mode="wrap")
    def _what_is_read(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        fields: dict[str, Any] = dump(self)
        unread = self.unread(self.__dict__)
        return {name: value for name, value in fields.items() if name not in unread}


@cache
def marks_of(model: type[BaseModel]) -> dict[str, list[With]]:
    """The conditions under which fields of a model are read."""
    found = {
        name: [each for each in info.metadata if isinstance(each, With)]
        for name, info in model.model_fields.items()
    }
    return {name: marks for name, marks in found.items() if marks}


def written_fields(model: type[BaseModel]) -> tuple[str, ...]:
    """Names of a model's fields as they are written, without tags that are handed in."""
    fields = model.model_fields.items()
    return tuple(info.alias or name for name, info in fields if not info.exclude)


def forms(annotation: Any) -> list[Any]:
    """The alternatives of a type, without None and without what annotates them.

    >>> forms(Annotated[int | Annotated[str, "a"] | None, "b"])
    [<class 'int'>, <class 'str'>]
    """
    if get_origin(annotation) in (Union, UnionType):
        return [each for part in get_args(annotation) for each in forms(part)]
    if get_origin(annotation) is Annotated:
        return forms(get_args(annotation)[0])
    return [] if annotation is type(None) else [annotation]


def nearest(name: str, known: Iterable[str]) -> str:
    """The end of a message about an unknown field: the nearest known one, or all of them.

    >>> nearest("num_heads", ["num_layers", "dropout"]), nearest("x", ["b", "a"])
    (': did you mean num_layers?', ' (its fields: a, b)')
    """
    return did_you_mean(name, known) or f" (its fields: {', '.join(sorted(known))})"


def _below(form: Any, place: str | int) -> list[Any]:
    """The forms of what stands at a place in a value of one form."""
    if isinstance(form, type) and issubclass(form, BaseModel):
        fields = form.model_fields
        found = [info for name, info in fields.items() if place in (name, info.alias)]
        return forms(found[0].annotation) if found else []
    inner = [each for each in get_args(form) if each is not Ellipsis]
    return forms(inner[-1]) if inner else []


def _tags(form: Any) -> dict[Any, str]:
    """The words of pydantic for a form of a union, and the field whose value a word is."""
    if not (isinstance(form, type) and issubclass(form, BaseModel)):
        return {}
    fields = form.model_fields.items()
    tags = {info.default: n for n, info in fields if get_origin(info.annotation) is Literal}
    return {form.__name__: "", **tags}


def _walk(place: Sequence[str | int], of: Any, section: str) -> tuple[list[str], Any, str]:
    """A problem's path in the document, the class of what stands there, and in words whose fields
    these are. Pydantic's own place also has names for the forms of a union.
    """
    path = [section] * bool(section)
    found, whose = forms(of), ""
    for each in place:
        if len(found) > 1:
            word = str(each).removesuffix("]").rpartition(" ")[2]  # function-before[..., Name]
            found = [form for form in found if word in _tags(form)]
            tag = _tags(found[0])[word] if found else ""
            whose = f" for {path[-1] if tag == 'name' else tag} {word}" if tag else ""
            continue
        path.append(one_line(str(each), characters=80))
        found, whose = _below(found[0], each) if found else [], ""
    model = found[0] if len(found) == 1 else None
    own = getattr(model, "whose", None)
    return path, model, whose if own is None else own


def first_problem(error: ValidationError, of: Any = None, *, section: str = "") -> str:
    """The first problem of a pydantic error in one line: field, allowed values, given value.

    `of` is the type that was parsed, for the nearest name of an unknown field; `section` names the
    part of a config that was parsed alone.
    """
    problems = error.errors(include_url=False)
    for problem in problems:
        if problem["type"] in ("extra_forbidden", "invalid_key"):
            *place, name = problem["loc"]
            path, model, whose = _walk(place, of, section)
            field = ".".join([*path, one_line(str(name), characters=80)])
            known = written_fields(model) if model is not None else ()
            return f"unknown field {field}{whose}{nearest(str(name), known) if known else ''}"
    # Of a value that may have several forms, the problem with the form that was meant.
    places = [(_walk(each["loc"], of, section)[0], each) for each in problems]
    first = places[0][0]
    same = [(path, each) for path, each in places if path[: len(first)] == first]
    path, problem = min(same, key=lambda p: (p[1]["type"].endswith("_type"), -len(p[0])))
    return _sentence(".".join(path), problem)


def _sentence(field: str, problem: Any) -> str:
    kind, value, about = problem["type"], problem["input"], problem.get("ctx", {})
    prefix = f"{field}." if field else ""
    if kind == "unread":
        read = " or ".join(mark.words(prefix) for mark in about["marks"])
        return (
            f"expected no {prefix}{about['field']}, which is read only with {read}, got"
            f" {quote(about['value'])}"
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
    if kind in _EXPECTED:
        return f"{field}: {message}, got {quote(value)}"
    if message.startswith("expected "):
        said = field == "config" or message.startswith(f"expected {field}.")
        return message if said else f"{field}: {message}"
    return f"{field}: {message[0].lower()}{message[1:]}, got {quote(value)}"


def validated(kind: type[Model], fields: Any) -> Model:
    """Plain data as a part of a config, a space or another description.

    Raises: InvalidInput, one sentence for the first problem.
    """
    try:
        return kind.model_validate(fields)
    except ValidationError as error:
        raise InvalidInput(first_problem(error, kind)) from None
