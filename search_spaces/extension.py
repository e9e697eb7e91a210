"""The document of a space file, with the base config and the space that it refers to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from search_spaces.files import locate, mapping_in, name_of
from search_spaces.parts import CONFIG_FIELDS
from trainables.documents import quote
from trainables.errors import InvalidInput


def is_bare_config(document: dict[str, Any]) -> bool:
    """Whether plain data is one trial's config and not a space."""
    return bool(document) and set(document) <= CONFIG_FIELDS


def document_in(path: Path, *, extending: tuple[Path, ...] = ()) -> dict[str, Any]:
    """The fields of the space in a file as plain data, without `extends`.

    A file extends a shipped space or a file, whose path is relative to it. Its fields replace those
    of that space, and `base` is merged field by field. `extending` are the files that extend this
    one. A bare config is the base of a space.

    Raises: InvalidInput for a file that is missing or no YAML, or that extends itself.
    """
    document = mapping_in(path)
    if is_bare_config(document):
        return {"name": name_of(path.stem), "base": document}
    if isinstance(document.get("base"), str):
        document["base"] = mapping_in(path.parent / document["base"])
    document.setdefault("name", name_of(path.stem))
    if document.get("extends") is None:
        return document
    parent, chain = document.pop("extends"), (*extending, path.resolve())
    if not isinstance(parent, str):
        raise InvalidInput(f"expected extends to name a space in {path}, got {quote(parent)}")
    place = _place_of(parent, path.parent)
    if place.resolve() in chain:
        raise InvalidInput(f"expected a space that does not extend itself, got extends={parent}")
    found = document_in(place, extending=chain)
    return {**found, **document, "base": _merge(found.get("base", {}), document.get("base", {}))}


def _place_of(parent: str, folder: Path) -> Path:
    try:
        return locate(folder / parent)
    except InvalidInput:  # no file beside it
        pass
    try:
        return locate(parent)
    except InvalidInput as problem:
        raise InvalidInput(f"extends: {problem}") from None


def _merge(base: Any, own: Any) -> Any:
    """Own fields in the place of those of `base`; mappings are merged."""
    if not isinstance(base, dict) or not isinstance(own, dict):
        return own
    return {**base, **{name: _merge(base.get(name), value) for name, value in own.items()}}
