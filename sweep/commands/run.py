"""`sweep run`: run a space, or repeat an exported config."""

import sys
from typing import Annotated

import typer

from sweep.commands._options import (
    Address,
    JsonFlag,
    Set,
    Space,
    Tracking,
    TrackingUri,
    overrides,
)
from sweep.commands._output import console, finish
from trainables.errors import InvalidInput


def run(
    space: Space,
    name: Annotated[
        str | None, typer.Option(help="Name of the sweep; default: the space's.")
    ] = None,
    assignments: Set = [],  # noqa: B006  typer copies it
    export: Annotated[
        bool, typer.Option("--export", help="Export the best trial at the end.")
    ] = False,
    epsilon_max: Annotated[
        float | None,
        typer.Option(
            min=0,
            metavar="EPSILON",
            help="With --export: largest epsilon of the exported trial.",
        ),
    ] = None,
    budget_total: Annotated[
        float | None,
        typer.Option(
            metavar="EPSILON",
            min=0.0,
            help="Reject the sweep if all sweeps on its data together would exceed this"
            " epsilon.",
        ),
    ] = None,
    tracking: Tracking = None,
    tracking_uri: TrackingUri = None,
    address: Address = None,
    as_json: JsonFlag = False,
) -> None:
    """Run all trials of a space except the refused ones."""
    from sweep import progress_display
    from sweep.planning.prepare import read
    from sweep.settings import from_environment

    if epsilon_max is not None and not export:
        raise InvalidInput("expected --epsilon-max with --export")
    settings = from_environment(tracking_uri=tracking_uri, tracking=tracking)
    screen = console(stderr=True)
    with progress_display.preparing(screen, quiet=as_json):
        search_space = read(
            space, settings=settings, overrides=overrides(assignments), name=name
        )
    done = progress_display.start(
        search_space,
        settings,
        screen,
        quiet=as_json,
        command=["sweep", *sys.argv[1:]],
        address=address,
        budget_total=budget_total,
    )
    finish(done, as_json=as_json, export=export, epsilon_max=epsilon_max)
