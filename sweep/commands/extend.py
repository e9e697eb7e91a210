"""`sweep extend`: add points to a sweep that is finished or stopped."""

from typing import Annotated

import typer

from sweep.commands._options import (
    Address,
    JsonFlag,
    Name,
    Set,
    Tracking,
    TrackingUri,
    overrides,
)
from sweep.commands._output import console, finish


def extend(
    name: Name,
    space: Annotated[
        str | None,
        typer.Argument(
            metavar="[SPACE]",
            help="YAML file of the space with the new points; default: the sweep's own.",
        ),
    ] = None,
    assignments: Set = [],  # noqa: B006  typer copies it
    reuse: Annotated[
        bool,
        typer.Option(
            "--reuse/--no-reuse",
            help="Take over trials that other sweeps have trained, or train all.",
        ),
    ] = True,
    tracking: Tracking = None,
    tracking_uri: TrackingUri = None,
    address: Address = None,
    as_json: JsonFlag = False,
) -> None:
    """Add points to a sweep that is finished or stopped, and run them.

    A point that another sweep has trained on the same records is taken over.
    """
    from sweep import progress_display
    from sweep.planning.prepare import read
    from sweep.settings import from_environment
    from sweep.store.sweeps import open_sweep

    settings = from_environment(tracking_uri=tracking_uri, tracking=tracking)
    folder = open_sweep(settings.home, name)
    source = folder.space().document() if space is None else space
    screen = console(stderr=True)
    found = read(source, settings=settings, overrides=overrides(assignments), name=name)
    done = progress_display.extend(
        folder, found, settings, screen, quiet=as_json, reuse=reuse, address=address
    )
    finish(done, as_json=as_json, export=False)
