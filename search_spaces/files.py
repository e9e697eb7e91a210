"""Search spaces as YAML files: the shipped ones by name, any other by its path, each
with the space that it extends.
"""

import re
from importlib import resources
from pathlib import Path
from typing import Any

from trainables.errors import InvalidInput, did_you_mean, kind_of, quote
from trainables.io.files import read_yaml

LONGEST_NAME = 80


def shipped_spaces() -> tuple[str, ...]:
    """Names of the spaces that come with the project, sorted."""
    files = resources.files("search_spaces").iterdir()
    return tuple(
        sorted(f.name.removesuffix(".yaml") for f in files if f.name.endswith(".yaml"))
    )


def locate(source: str | Path) -> Path:
    """The file of a path, or of the shipped space of that name.

    Raises: InvalidInput where there is neither.
    """
    path = Path(source)
    try:
        if path.is_file():
            return path
    except OSError as error:  # a name that no file can have
        raise InvalidInput(
            f"cannot read SPACE {quote(str(path))}: {error.strerror}"
        ) from None
    shipped = Path(str(resources.files("search_spaces")))
    if isinstance(source, str) and source in shipped_spaces():
        return shipped / f"{source}.yaml"
    raise InvalidInput(
        f"expected SPACE to be a file or a shipped space, got {quote(str(source))}"
        f"{did_you_mean(path.stem, shipped_spaces())} (all: {shipped}/*.yaml)"
    )


def name_of(stem: str) -> str:
    """A space's name from its file's; what is not allowed becomes dashes.

    >>> name_of("My space"), name_of("a..b")
    ('my-space', 'a-b')
    """
    cleaned = re.sub(r"[^a-z0-9_.-]+|\.{2,}", "-", stem.lower()).lstrip("-._")
    return cleaned[:LONGEST_NAME].rstrip("-._") or "sweep"


def is_bare_config(document: dict[str, Any]) -> bool:
    """Whether plain data is one trial's config and not a space."""
    from search_spaces.parts import (
        CONFIG_FIELDS,
    )  # the classes of configs, which load slowly

    return bool(document) and set(document) <= CONFIG_FIELDS


def document_in(path: Path, *, extending: tuple[Path, ...] = ()) -> dict[str, Any]:
    """The fields of the space in a file as plain data, without `extends`.

    A file extends a shipped space or a file, whose path is relative to it. Its fields
    replace those of that space, and `base` is merged field by field. `extending` are
    the files that extend this one. A bare config is the base of a space.

    Raises: InvalidInput for a file that is missing or no YAML, or that extends itself.
    """
    document = read_yaml(path)
    if not isinstance(document, dict):
        raise InvalidInput(f"expected a mapping in {path}, got {kind_of(document)}")
    if is_bare_config(document):
        return {"name": name_of(path.stem), "base": document}
    document.setdefault("name", name_of(path.stem))
    if document.get("extends") is None:
        return document
    parent, chain = document.pop("extends"), (*extending, path.resolve())
    if not isinstance(parent, str):
        raise InvalidInput(
            f"expected extends to name a space in {path}, got {quote(parent)}"
        )
    place: Path | None = None
    for each in (path.parent / parent, parent):  # a file beside it first
        try:
            place = place or locate(each)
        except InvalidInput as problem:
            said = str(problem)
    if place is None:
        raise InvalidInput(f"extends: {said}")
    if place.resolve() in chain:
        raise InvalidInput(
            f"expected a space that does not extend itself, got extends={parent}"
        )
    found = document_in(place, extending=chain)
    return {
        **found,
        **document,
        "base": _merge(found.get("base", {}), document.get("base", {})),
    }


def _merge(base: Any, own: Any) -> Any:
    """Own fields in the place of those of `base`; mappings are merged."""
    if not isinstance(base, dict) or not isinstance(own, dict):
        return own
    return {
        **base,
        **{name: _merge(base.get(name), value) for name, value in own.items()},
    }
