"""Errors of a failing disk during a sweep, in one sentence with the cause and the next step."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager

from sweep.settings import Settings
from sweep.store.sweeps import SweepFolder
from trainables.errors import InvalidInput, StorageFailed
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
    for name, folder in (("SWEEP_HOME", settings.home), ("SWEEP_CACHE_DIR", settings.cache_dir)):
        try:
            disk.require_writable(folder)
        except OSError as error:
            raise InvalidInput(f"cannot write to {name}={folder}: {error.strerror}") from None
        except StorageFailed as failure:
            raise StorageFailed(
                f"{failure}: nothing was started; run the same command again"
            ) from None
