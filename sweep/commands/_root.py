"""The options of `sweep` before any command."""

from importlib import metadata
from typing import Annotated

import typer


def version() -> str:
    """The installed version, `unknown` where the code is not installed."""
    try:
        return metadata.version("dp-nlu-sweep")
    except metadata.PackageNotFoundError:
        return "unknown"


def _print_version(value: bool) -> None:
    if value:
        typer.echo(f"sweep {version()}")
        raise typer.Exit


def root(
    _version: Annotated[
        bool,
        typer.Option(
            "--version",
            callback=_print_version,
            is_eager=True,
            help="Print the version.",
        ),
    ] = False,
) -> None:
    """Hyperparameter sweeps for differentially private intent-and-slot models."""
