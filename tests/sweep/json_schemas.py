"""What of a printed document is not as `_schemas.yaml` says."""

import json

from sweep.commands import _schemas

_NAMES = (("truth", bool), ("integer", int), ("number", float), ("text", str), ("null", type(None)))


def checked(command, printed):
    """The document that a command has printed, without its key `schema`, as its schema says."""
    document = json.loads(printed)
    schema = _schemas.schema(command)
    assert document.pop("schema") == f"{command}/{schema.version}"
    assert problems(schema, document) == []
    return document


def problems(schema, document):
    """What of a document (without its key `schema`) is not as its schema says."""
    known = {field.path: field for field in schema.fields}
    found = list(_unknown(document, known, ""))
    return found + [
        f"{field.path} is missing"
        for field in schema.fields
        if not field.is_optional and not _is_there(document, field.path)
    ]


def _unknown(value, known, path):
    """Fields of a value that no path names, and values of another type."""
    field = known.get(path)
    if field is not None and "any" in field.types:
        return
    if value is None and field is None and _leads(path, known):
        return  # a list or a mapping that is not there
    if isinstance(value, dict):
        for key, inner in value.items():
            below = f"{path}.{key}" if path else str(key)
            free = f"{path}.*" if path else "*"
            is_free = not _leads(below, known) and _leads(free, known)
            yield from _unknown(inner, known, free if is_free else below)
    elif isinstance(value, list):
        for inner in value:
            yield from _unknown(inner, known, f"{path}[]")
    elif field is None:
        yield f"{path} is not written down"
    elif not _fits(value, field.types):
        yield f"{path} is {value!r}, expected {' | '.join(field.types)}"


def _leads(path, known):
    """Whether a path is one of those known, or the beginning of one."""
    return any(each == path or each.startswith((f"{path}.", f"{path}[")) for each in known)


def _fits(value, types):
    if value in ("inf", "-inf") and "number" in types:
        return True
    is_a = next(name for name, kind in _NAMES if isinstance(value, kind))
    return is_a in types or (is_a == "integer" and "number" in types)


def _is_there(document, path):
    """Whether a document has a field: in every item of lists, in any key of free mappings."""
    head, _, rest = path.partition(".")
    is_list = head.endswith("[]")
    key = head.removesuffix("[]")
    if key == "*":
        return True
    if not isinstance(document, dict) or key not in document:
        return False
    value = document[key]
    if value is None or not rest:
        return True
    inner = value if is_list else [value]
    return isinstance(inner, list) and all(_is_there(each, rest) for each in inner)
