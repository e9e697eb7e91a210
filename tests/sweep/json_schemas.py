"""What of a printed document is not as `_schemas.yaml` says."""

import json

from jsonschema import Draft202012Validator
from jsonschema.validators import extend

from sweep.commands import _schemas

_TYPES = {"truth": "boolean", "text": "string"}  # others have the names of JSON Schema
_INTEGERS = Draft202012Validator.TYPE_CHECKER.redefine(
    "integer", lambda _, value: type(value) is int
)
_Validator = extend(Draft202012Validator, type_checker=_INTEGERS)  # 1.0 is none


def checked(command, printed):
    """The document that a command has printed, without its key `schema`, as its schema
    says.
    """
    document = json.loads(printed)
    schema = _schemas.schema(command)
    assert document.pop("schema") == f"{command}/{schema.version}"
    assert problems(schema, document) == []
    return document


def problems(schema, document):
    """What of a document (without its key `schema`) is not as its schema says."""
    return [
        each.message for each in _Validator(_json_schema(schema)).iter_errors(document)
    ]


def _json_schema(schema):
    """A list or a mapping may be null, and a mapping with free keys have others beside
    them.
    """
    whole = {}
    for field in schema.fields:
        inner = whole
        for part in field.path.split("."):
            name, *lists = part.split("[]")
            inner["type"] = ["object", "null"]
            if name == "*":
                inner["additionalProperties"] = inner.get("additionalProperties") or {}
                inner = inner["additionalProperties"]
            else:
                inner.setdefault("additionalProperties", False)
                if not field.is_optional:
                    inner.setdefault("required", []).append(name)
                inner = inner.setdefault("properties", {}).setdefault(name, {})
            for _ in lists:
                inner["type"] = ["array", "null"]
                inner = inner.setdefault("items", {})
        if "any" not in field.types:
            types = {"type": [_TYPES.get(each, each) for each in field.types]}
            infinite = [{"enum": ["inf", "-inf"]}] if "number" in field.types else []
            inner["anyOf"] = [types, *infinite]
    return whole
