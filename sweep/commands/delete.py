"""`sweep delete`: remove a sweep from disk and from MLflow."""

from __future__ import annotations

from typing import Annotated

import typer

from sweep.commands._options import Name, TrackingUri
from sweep.commands._output import say


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(delete)


def delete(
    name: Name,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    keep_tracking: Annotated[
        bool, typer.Option("--keep-tracking", help="Leave its MLflow runs as they are.")
    ] = False,
    tracking_uri: TrackingUri = None,
) -> None:
    """Remove a sweep and all that it made. What it spent stays in the ledger."""
    from sweep.runtime.start_up import tracking
    from sweep.settings import from_environment
    from sweep.store import sweeps as store

    settings = from_environment(tracking_uri=tracking_uri)
    folder = store.open_sweep(settings.home, name)
    if not yes:
        typer.confirm(f"Delete {folder.path} and its results?", abort=True)
    if not keep_tracking:
        folder.require_at_rest()
        with tracking(settings) as tracker:
            tracker.delete(folder)
    folder.delete()
    say(f"{name} is deleted; the ledger keeps what it spent.")
