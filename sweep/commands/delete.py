"""`sweep delete`: remove a sweep from disk and from MLflow."""

from typing import Annotated

import typer

from sweep.commands._options import Name, TrackingUri
from sweep.commands._output import say


def delete(
    name: Name,
    yes: Annotated[
        bool, typer.Option("--yes", help="Delete without confirmation.")
    ] = False,
    keep_tracking: Annotated[
        bool, typer.Option("--keep-tracking", help="Keep its runs in MLflow.")
    ] = False,
    tracking_uri: TrackingUri = None,
) -> None:
    """Remove a sweep and its results. The ledger keeps its charges."""
    from sweep.settings import first_line, from_environment, sqlite_file
    from sweep.store import sweeps as store
    from sweep.tracking.delivery import open_store
    from trainables.errors import InvalidInput

    settings = from_environment(tracking_uri=tracking_uri)
    folder = store.open_sweep(settings.home, name)
    if not yes:
        typer.confirm(f"Delete {folder.path} and its results?", abort=True)
    if not keep_tracking:
        folder.require_at_rest()
        file = sqlite_file(settings.tracking_uri)
        if settings.tracking and (file is None or file.exists()):
            try:
                open_store(settings).delete(folder)
            except Exception as problem:  # noqa: BLE001  whatever MLflow raises
                raise InvalidInput(
                    f"{first_line(problem)}; with --keep-tracking its runs stay in"
                    f" MLflow"
                ) from None
    folder.delete()
    say(f"{name} is deleted; the ledger keeps what it spent.")
