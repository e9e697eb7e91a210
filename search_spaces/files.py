"""Search spaces as YAML files: the shipped ones by name, any other by its path."""

from __future__ import annotations

import re
from importlib import resources
from pathlib import Path
from typing import Any

import yaml

from trainables.errors import InvalidInput


def shipped() -> tuple[str, ...]:
    """Names of the spaces that come with the project, sorted."""
    files = resources.files("search_spaces").iterdir()
    return tuple(sorted(f.name.removesuffix(".yaml") for f in files if f.name.endswith(".yaml")))


def locate(source: str | Path) -> Path:
    """The file of a path, or of the shipped space of that name.

    Raises: InvalidInput where there is neither.
    """
    path = Path(source)
    if path.is_file():
        return path
    if isinstance(source, str) and source in shipped():
        return Path(str(resources.files("search_spaces").joinpath(f"{source}.yaml")))
    names = ", ".join(shipped()) or "none"
    raise InvalidInput(f"expected SPACE to be a file or a shipped space ({names}), got '{source}'")


def mapping_in(path: Path) -> dict[str, Any]:
    """What a YAML file holds, which must be a mapping with text keys.

    Raises: InvalidInput for a file that cannot be read or holds something else.
    """
    try:
        loaded = yaml.load(path.read_text(encoding="utf-8"), Loader=_Loader)  # a SafeLoader
    except OSError as error:
        raise InvalidInput(f"cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise InvalidInput(f"expected {path} to be UTF-8 text") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f", line {mark.line + 1}" if mark is not None else ""
        problem = getattr(error, "problem", None) or "not readable"
        raise InvalidInput(f"expected YAML in {path}{where}: {problem}") from None
    if not isinstance(loaded, dict):
        raise InvalidInput(f"expected a mapping in {path}, got {type(loaded).__name__}")
    if any(not isinstance(key, str) for key in loaded):
        raise InvalidInput(f"expected text keys in {path}")
    return loaded


def name_of(stem: str) -> str:
    """A space's name by its file's: what no name may have becomes a dash.

    >>> name_of("My space")
    'my-space'
    """
    cleaned = re.sub(r"[^a-z0-9_.-]+", "-", stem.lower()).strip("-._")
    return cleaned or "sweep"


class _Loader(yaml.SafeLoader):
    """Safe YAML in which 1e-3 is a number and a key that comes twice is an error."""

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        seen: set[Any] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if isinstance(key, str) and key in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key {key} comes twice", key_node.start_mark
                )
            if isinstance(key, str):
                seen.add(key)
        return super().construct_mapping(node, deep=deep)


# YAML 1.1, which PyYAML reads, takes 1e-3 for text: its floats need a dot.
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"[-+]?([0-9][0-9_]*)(\.[0-9_]*)?[eE][-+]?[0-9]+$"),
    list("-+0123456789"),
)
