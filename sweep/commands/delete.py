"""`sweep delete`: remove a sweep from disk and from MLflow, or the cache of corpora."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from sweep.commands._options import TrackingUri
from sweep.commands._output import say

if TYPE_CHECKING:
    from pathlib import Path

    from sweep.settings import Settings
    from sweep.store.sweeps import SweepFolder

# Prefixes of names and the content of the files or folders; the others are corpora and locks.
_KINDS = {
    "parser-": "a parser with the words of its training pairs",
    "programs-": "programs of private utterances",
    "rows-": "features of private utterances",
    "shadows": "predictions of shadow models for private records",
    "figures": "computed epsilons; no private text",
}
_CORPUS = "a corpus: its distinct words, tokens and labels"
_UNKNOWN = "unknown; treated as private"


def delete(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="[NAME]",
            help="Name of a sweep; omitted with --cache.",
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
    """Raises: InvalidInput while a sweep runs, because its trials read the cache."""
    import shutil

    from sweep.store import sweeps as store
    from trainables.errors import InvalidInput

    found = sorted(path for path in settings.cache_dir.glob("*") if path.suffix != ".lock")
    for path in found:
        say(f"{path}: {_holds(path)}, {_size(path) / 1e6:.1f} MB")
    if not found:
        say(f"{settings.cache_dir} is empty.")
        return
    if not yes:
        typer.confirm("Delete all of this? It is rebuilt when needed.", abort=True)
    for name in store.names(settings.home):
        if store.open_sweep(settings.home, name).is_running:
            raise InvalidInput(f"sweep {name} is running and reads the cache: stop it first")
    for path in found:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    say(
        f"{len(found)} entries are deleted. Private text and its features are also in each sweep's"
        " folder (`sweep delete NAME`) and in the corpora themselves."
    )


def _holds(path: Path) -> str:
    for beginning, what in _KINDS.items():
        if path.name.startswith(beginning):
            return what
    return _CORPUS if (path / "corpus.json").exists() else _UNKNOWN


def _size(path: Path) -> int:
    """Bytes of a file, or of those in a folder."""
    if path.is_file() or path.is_symlink():
        return path.lstat().st_size
    return sum(each.lstat().st_size for each in path.rglob("*") if not each.is_dir())
