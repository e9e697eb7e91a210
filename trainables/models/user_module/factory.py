"""The factory function of a user's module, found by name; its source file is read and
not run.

The working directory is importable, as with `python -m`. No torch.
"""

import hashlib
import importlib
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from typing import Any

from trainables.errors import InvalidInput, one_line

_NAME = re.compile(r"([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*):([A-Za-z_]\w*)")
_FORM = "package.module:function"


def digest_of(factory: str) -> str:
    """SHA-256 of the factory's source file, without running it.

    Raises: InvalidInput where the name is invalid or has no source file.
    """
    module, _ = _parts(factory)
    here = str(Path.cwd())
    if here not in sys.path:  # for good, because imported code may import more later
        sys.path.append(here)
    importlib.invalidate_caches()
    spec = _find(module)
    place = None if spec is None or spec.origin is None else Path(spec.origin)
    if place is None or not place.is_file():
        raise InvalidInput(
            f"expected model.factory={_FORM} of a file that can be imported from {here}"
            f" or the Python path, got {factory!r}"
        )
    return hashlib.sha256(place.read_bytes()).hexdigest()


def require_source(factory: str, source: str | None) -> None:
    """Refuse code that has changed since the trial was planned.

    Raises: InvalidInput.
    """
    found = digest_of(factory)
    if found != source:
        raise InvalidInput(
            f"expected model.factory={factory} with the source that was planned"
            f" (SHA-256 {str(source)[:12]}), got another ({found[:12]}): plan again, or"
            " restore the old file"
        )


def load(factory: str) -> Callable[..., Any]:
    """Import and return the function, which runs its module.

    Raises: InvalidInput where it cannot be imported or is not callable.
    """
    digest_of(factory)
    module, name = _parts(factory)
    try:
        found = getattr(importlib.import_module(module), name)
    except Exception as error:
        raise InvalidInput(
            f"expected model.factory={factory} that can be imported, got"
            f" {one_line_of(error)}"
        ) from error
    if not callable(found):
        raise InvalidInput(
            f"expected model.factory={factory} to name a function, got"
            f" {type(found).__name__}"
        )
    call: Callable[..., Any] = found
    return call


def refusal(factory: str, wanted: str, got: str) -> InvalidInput:
    """The error for a module that does not keep to what is required of it."""
    return InvalidInput(
        f"expected a module {wanted} from model.factory={factory}, got {got}"
    )


@contextmanager
def refusing(factory: str, wanted: str) -> Iterator[None]:
    """A context of the user's code, in which any failure is a refusal of a module that
    is not what is `wanted`.

    Raises: InvalidInput with the failure in one line.
    """
    try:
        yield
    except Exception as error:
        raise refusal(factory, wanted, one_line_of(error)) from error


def one_line_of(error: BaseException) -> str:
    """An error of the user's code, in one line."""
    return one_line(f"{type(error).__name__}: {error}", characters=200)


def _parts(factory: str) -> tuple[str, str]:
    found = _NAME.fullmatch(factory)
    if found is None:
        raise InvalidInput(f"expected model.factory={_FORM}, got {factory!r}")
    return found[1], found[2]


def _find(module: str) -> ModuleSpec | None:
    """The spec of a module, without importing its parent packages."""
    path: list[str] | None = None
    spec = None
    names = module.split(".")
    for count in range(1, len(names) + 1):
        spec = PathFinder.find_spec(".".join(names[:count]), path)
        if spec is None:
            return None
        path = list(spec.submodule_search_locations or ())
    return spec
