"""`sweep delete`: remove a sweep from disk and from MLflow, or the cache of corpora."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from sweep.commands import _complete
from sweep.commands._options import TrackingUri
from sweep.commands._output import say

if TYPE_CHECKING:
    from sweep.settings import Settings
    from sweep.store.sweeps import SweepFolder


def delete(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="[NAME]",
            help="Name of a sweep; omitted with --cache.",
            autocompletion=_complete.sweeps,
        ),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Delete without confirmation.")] = False,
    keep_tracking: Annotated[
        bool,
        typer.Option("--keep-tracking", help="Keep its runs in MLflow."),
    ] = False,
    cache: Annotated[
        bool,
        typer.Option("--cache", help="Remove the cached corpora of all sweeps and list them."),
    ] = False,
    tracking_uri: TrackingUri = None,
) -> None:
    """Remove a sweep and its results, or the cache. The ledger keeps its charges."""
    from sweep.settings import from_environment
    from trainables.errors import InvalidInput

    settings = from_environment(tracking_uri=tracking_uri)
    if (name is None) != cache:
        raise InvalidInput("expected either the NAME of a sweep or --cache")
    if name is None:
        _delete_cache(settings, yes=yes)
    else:
        _delete_sweep(settings, name, yes=yes, keep_tracking=keep_tracking)


def _delete_sweep(settings: Settings, name: str, *, yes: bool, keep_tracking: bool) -> None:
    from sweep.store import sweeps as store
    from sweep.tracking.delivery import has_store

    folder = store.open_sweep(settings.home, name)
    if not yes:
        typer.confirm(f"Delete {folder.path} and its results?", abort=True)
    if not keep_tracking:
        folder.require_at_rest()
        if settings.tracking and has_store(settings):
            _delete_runs(settings, folder)
    folder.delete()
    say(f"{name} is deleted; the ledger keeps what it spent.")


def _delete_runs(settings: Settings, folder: SweepFolder) -> None:
    """Raises: InvalidInput where MLflow fails, in whatever way."""
    from sweep.settings import first_line
    from sweep.tracking.mlflow_store import Tracker
    from trainables.errors import InvalidInput

    try:
        Tracker(settings).delete(folder)
    except Exception as problem:  # noqa: BLE001  whatever MLflow raises
        raise InvalidInput(
            f"{first_line(problem)}; with --keep-tracking its runs stay in MLflow"
        ) from None


def _delete_cache(settings: Settings, *, yes: bool) -> None:
    from sweep.store import caches

    found = caches.cache_entries(settings.cache_dir)
    for entry in found:
        say(f"{entry.path}: {entry.holds}, {entry.bytes / 1e6:.1f} MB")
    if not found:
        say(f"{settings.cache_dir} is empty.")
        return
    if not yes:
        typer.confirm("Delete all of this? It is rebuilt when needed.", abort=True)
    caches.remove(found, home=settings.home)
    say(
        f"{len(found)} entries are deleted. Private text and its features are also in each sweep's"
        " folder (`sweep delete NAME`) and in the corpora themselves."
    )
