"""Options and output that commands share."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from trainables.errors import InvalidInput

if TYPE_CHECKING:
    from rich.console import Console

JsonFlag = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]
Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of a sweep (see `sweep list`).")]
Space = Annotated[
    str,
    typer.Argument(metavar="SPACE", help="YAML file of a space or a config, or a shipped name."),
]
Set = Annotated[
    list[str],
    typer.Option(
        "--set", metavar="PATH=VALUE", help="Override one field, such as training.epochs=3."
    ),
]


def overrides(assignments: list[str]) -> dict[str, Any]:
    """Dotted paths and their values, read as YAML.

    >>> overrides(["training.epochs=3", "privacy.noise_decay={kind: linear, tau: 0.1}"])
    {'training.epochs': 3, 'privacy.noise_decay': {'kind': 'linear', 'tau': 0.1}}

    Raises: InvalidInput for what is no PATH=VALUE.
    """
    import yaml

    found: dict[str, Any] = {}
    for assignment in assignments:
        path, sign, text = assignment.partition("=")
        if not sign or not path:
            raise InvalidInput(f"expected --set PATH=VALUE, got {assignment!r}")
        try:
            found[path] = yaml.safe_load(text)
        except yaml.YAMLError:
            raise InvalidInput(f"expected a YAML value in --set {assignment!r}") from None
        found[path] = _number(found[path])
    return found


def _number(value: Any) -> Any:
    """1e-3, which YAML 1.1 takes for text, as the number it is."""
    if isinstance(value, str):
        try:
            return float(value)
        except ValueError:
            return value
    return value


def print_json(value: Any) -> None:
    """One JSON document on stdout; infinity is the string "inf"."""
    from trainables.privacy.summary import plain

    typer.echo(json.dumps(plain(value), indent=1, allow_nan=False))


def console(*, stderr: bool = False) -> Console:
    """Where people read."""
    from rich.console import Console

    out = Console(stderr=stderr, highlight=False)
    if not out.is_terminal:
        out.width = 140  # a file or a pipe has no edge at which tables must be cut
    return out
