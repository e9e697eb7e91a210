"""Errors of a failing disk during a sweep, in one sentence with the cause and the next step."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from sweep.settings import Settings
from sweep.store.sweeps import SweepFolder
from trainables.errors import InvalidInput, StorageFailed, SweepError
from trainables.system import disk


@contextmanager
def storage_faults(folder: SweepFolder) -> Iterator[None]:
    """Raises: StorageFailed instead of any error that the disk of a running sweep has caused."""
    was_there = folder.is_there
    try:
        yield
    except Exception as error:
        failure = disk.failure_of(error, folder.path)
        if was_there and not folder.is_there:
            shutil.rmtree(folder.path, ignore_errors=True)  # trials had recreated parts of it
            raise StorageFailed(
                f"the folder {folder.path} was removed while the sweep ran: it cannot continue, and"
                " the ledger keeps what was spent"
            ) from None
        if failure is None:
            raise
        raise StorageFailed(
            f"{failure}: saved results are intact and trials are paused; when the disk works again,"
            f" `sweep resume {folder.name}` continues"
        ) from None


def require_storage(settings: Settings) -> None:
    """Check that the folders of all sweeps can be written to, before anything is started.

    Raises: StorageFailed where the disk fails; InvalidInput for any other reason.
    """
    _for_each_folder(settings, disk.require_writable)


def make_folders(settings: Settings) -> None:
    """Make the folders of all sweeps where they are missing.

    Raises: as `require_storage`.
    """
    _for_each_folder(settings, partial(Path.mkdir, mode=0o700, parents=True, exist_ok=True))


def _for_each_folder(settings: Settings, check: Callable[[Path], None]) -> None:
    for name, folder in (("SWEEP_HOME", settings.home), ("SWEEP_CACHE_DIR", settings.cache_dir)):
        try:
            check(folder)
        except (OSError, StorageFailed) as error:
            raise _cannot_write(name, folder, error) from None


def _cannot_write(name: str, folder: Path, error: OSError | StorageFailed) -> SweepError:
    if (failure := disk.failure_of(error, folder)) is not None:
        return StorageFailed(f"{failure}: nothing was started; run the same command again")
    return InvalidInput(f"cannot write to {name}={folder}: {getattr(error, 'strerror', error)}")
