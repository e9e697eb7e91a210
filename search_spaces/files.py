"""Search spaces as YAML files: the shipped ones by name, any other by its path."""

from __future__ import annotations

import re
from importlib import resources
from pathlib import Path
from typing import Any

from trainables.documents import did_you_mean, kind_of, quote, read_yaml
from trainables.errors import InvalidInput

LONGEST_NAME = 80


def shipped_spaces() -> tuple[str, ...]:
    """Names of the spaces that come with the project, sorted."""
    files = resources.files("search_spaces").iterdir()
    return tuple(sorted(f.name.removesuffix(".yaml") for f in files if f.name.endswith(".yaml")))


def locate(source: str | Path) -> Path:
    """The file of a path, or of the shipped space of that name.

    Raises: InvalidInput where there is neither.
    """
    path = Path(source)
    try:
        if path.is_file():
            return path
    except OSError as error:  # a name that no file can have
        raise InvalidInput(f"cannot read SPACE {quote(str(path))}: {error.strerror}") from None
    shipped = Path(str(resources.files("search_spaces")))
    if isinstance(source, str) and source in shipped_spaces():
        return shipped / f"{source}.yaml"
    raise InvalidInput(
        f"expected SPACE to be a file or a shipped space, got {quote(str(source))}"
        f"{did_you_mean(path.stem, shipped_spaces())} (all: {shipped}/*.yaml)"
    )


def mapping_in(path: Path) -> dict[str, Any]:
    """The mapping with text keys in a YAML file.

    Raises: InvalidInput for a file that cannot be read or has other content, with its line.
    """
    loaded = read_yaml(path)
    if not isinstance(loaded, dict):
        raise InvalidInput(f"expected a mapping in {path}, got {kind_of(loaded)}")
    return loaded


def name_of(stem: str) -> str:
    """A space's name from its file's; what is not allowed becomes dashes.

    >>> name_of("My space"), name_of("a..b")
    ('my-space', 'a-b')
    """
    cleaned = re.sub(r"[^a-z0-9_.-]+|\.{2,}", "-", stem.lower()).lstrip("-._")
    return cleaned[:LONGEST_NAME].rstrip("-._") or "sweep"
