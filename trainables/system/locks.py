"""Locks between processes, by files. The system releases a lock when its process
ends.
"""

import errno
import os
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from filelock import FileLock

from trainables.errors import InvalidInput, one_line, system_words
from trainables.system import processes

_POLL_SECONDS = 0.005
# A check holds the lock for an instant, which another check waits for. Tries are
# counted, not seconds: a process that was not scheduled for a second has not waited.
_TRIES = 20
_SILENT_SECONDS = 3.0  # of waiting before a line says for whom
_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)


@contextmanager
def alone(path: Path, *, patience: float = -1) -> Iterator[None]:
    """Hold the lock file at `path` exclusively, among processes and threads; it is
    created where missing. `patience`: seconds to wait, negative: without limit. After
    three seconds a line on stderr says who holds it.

    Raises: TimeoutError where another process holds it for longer; FileNotFoundError
    where its folder is missing; InvalidInput where its disk grants no locks.
    """
    if not path.parent.is_dir():
        raise FileNotFoundError(path.parent)
    lock, is_patient = file_lock(path), not 0 <= patience <= _SILENT_SECONDS
    with ExitStack() as held:
        try:
            held.enter_context(
                hold(lock, patience=_SILENT_SECONDS if is_patient else patience)
            )
        except TimeoutError:
            if not is_patient:
                raise
            _say_who_holds(path)
            held.enter_context(hold(lock, patience=max(patience - _SILENT_SECONDS, -1)))
        yield


def file_lock(path: Path) -> FileLock:
    """The lock of a file, for `hold`; the thread that holds it may hold it once
    more.
    """
    # A soft lock, which is a mere file, would outlive a process that is killed.
    return FileLock(
        path, mode=0o600, poll_interval=_POLL_SECONDS, fallback_to_soft=False
    )


@contextmanager
def hold(lock: FileLock, *, patience: float) -> Iterator[None]:
    """Hold a lock, for which `patience` seconds are waited; negative: without limit.

    Raises: TimeoutError where another process holds it for longer; InvalidInput where
    its disk grants no locks.
    """
    try:
        held = lock.acquire(patience)
    except OSError as problem:
        if problem.errno not in _NO_LOCKS:
            raise
        folder = Path(lock.lock_file).parent
        raise InvalidInput(
            f"expected a disk that grants locks in {folder}, got"
            f" {system_words(problem)!r} (as NFS says without its lock daemon): keep it"
            " on a local disk, such as with SWEEP_HOME or SWEEP_CACHE_DIR"
        ) from None
    with held:
        yield


def is_held(path: Path) -> bool:
    """Whether a process holds the lock file at `path`. False where there is none, or
    where this process may not write it.
    """
    if not os.access(path, os.W_OK):
        return False
    for _ in range(_TRIES):
        try:
            with hold(file_lock(path), patience=0):
                return False
        except TimeoutError:
            time.sleep(_POLL_SECONDS)
        except (OSError, InvalidInput):  # no file that a process could hold
            return False
    return True


def _say_who_holds(path: Path) -> None:
    found = _holder(path)
    who = (
        "a process that this machine does not show"
        if found is None
        else processes.words(found)
    )
    with suppress(OSError, ValueError, AttributeError):  # closed by the caller
        line = one_line(f"waiting for {path}, which {who} holds")
        sys.stderr.write(f"{line}\n")
        sys.stderr.flush()


def _holder(path: Path) -> int | None:
    """The id of the process that holds a lock file, as Linux lists them; None where it
    does not.
    """
    with suppress(OSError, ValueError):
        found = path.stat()
        place = (
            f"{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}:{found.st_ino}"
        )
        for line in Path("/proc/locks").read_text(encoding="ascii").splitlines():
            words = line.split()
            # 1: FLOCK  ADVISORY  WRITE 4711 08:01:1234 0 EOF; "->" in place of FLOCK:
            # it waits
            if words[1] == "FLOCK" and words[5] == place:
                return int(words[4]) or None
    return None
