"""`sweep resume`: continue an interrupted sweep, or extend it by a changed space."""

from __future__ import annotations

from typing import Annotated

import typer

from sweep.commands._options import Address, JsonFlag, Name, Tracking, TrackingUri
from sweep.commands._output import console, finish


def resume(
    name: Name,
    space: Annotated[
        str | None,
        typer.Option(
            "--space",
            metavar="SPACE",
            help="Continue with this changed space; the changes are listed.",
        ),
    ] = None,
    accept: Annotated[
        bool, typer.Option("--accept-changes", help="Accept the changes to the space.")
    ] = False,
    tracking: Tracking = None,
    tracking_uri: TrackingUri = None,
    address: Address = None,
    as_json: JsonFlag = False,
) -> None:
    """Continue a sweep. Finished trials are kept, others resume from their last checkpoint."""
    from sweep.planning.prepare import extend
    from sweep.runtime import shown
    from sweep.settings import from_environment
    from sweep.store.sweeps import open_sweep

    settings = from_environment(tracking_uri=tracking_uri, tracking=tracking)
    folder = open_sweep(settings.home, name)
    if space is not None:
        extend(folder, space, settings=settings, accept=accept)
    screen = console(stderr=True)
    done = shown.resume(folder, settings, screen, quiet=as_json, address=address)
    finish(done, as_json=as_json, export=False)
