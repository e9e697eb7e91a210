"""`sweep resume`: continue an interrupted sweep, or extend it by a changed space."""

from __future__ import annotations

from typing import Annotated

import typer

from sweep.commands import _complete
from sweep.commands._options import Address, JsonFlag, Name, Tracking, TrackingUri
from sweep.commands._output import console, finish

_TakeUp = Annotated[
    list[str],
    typer.Option(
        "--continue",
        metavar="ID",
        help="Also continue this stopped trial; may be repeated.",
    ),
]


def resume(
    name: Name,
    space: Annotated[
        str | None,
        typer.Option(
            "--space",
            metavar="SPACE",
            help="Continue with this changed space; the changes are listed.",
            autocompletion=_complete.spaces,
        ),
    ] = None,
    accept: Annotated[
        bool, typer.Option("--accept-changes", help="Accept the changes to the space.")
    ] = False,
    take_up: _TakeUp = [],  # noqa: B006  typer copies it
    tracking: Tracking = None,
    tracking_uri: TrackingUri = None,
    address: Address = None,
    as_json: JsonFlag = False,
) -> None:
    """Continue a sweep. Finished trials are kept, others resume from their last checkpoint."""
    from functools import partial

    from sweep import interrupts
    from sweep.planning.prepare import extend
    from sweep.runtime import live, runner
    from sweep.settings import from_environment
    from sweep.store import sweeps as store
    from sweep.store.starting import starting

    settings = from_environment(tracking_uri=tracking_uri, tracking=tracking)
    folder = store.open_sweep(settings.home, name)
    with (
        interrupts.explain(partial(store.how_to_go_on, settings.home, name)),
        starting(settings.home, name),
    ):
        if space is not None:
            extend(folder, space, settings=settings, accept=accept)
        view = live.view_of(folder.space(), folder.plan(), settings.home)
        with live.watching(view, console(stderr=True), quiet=as_json) as watch:
            done = runner.resume(folder, settings, take_up=take_up, address=address, watch=watch)
        finish(done, as_json=as_json, export=False)
