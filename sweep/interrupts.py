"""Interrupts: Ctrl-C (SIGINT), SIGTERM, SIGHUP, and `sweep stop`, which counts as SIGTERM.

First a thread prints one line on stderr, so that no long call delays it; later output to stderr is
dropped. Then KeyboardInterrupt is raised once in the main thread. When that has unwound, or after
`GRACE_SECONDS`, or at a second signal, the process ends with all processes that it started, with
the exit code 128 + the signal's number. Files on disk are complete at any moment.

A program calls `run` before it imports anything else; in a library signals are unchanged.
"""

from __future__ import annotations

import atexit
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import NoReturn

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
GRACE_SECONDS = 10.0


class _State:
    """Plain flags, because a handler that waits for a lock of the interrupted thread deadlocks."""

    def __init__(self) -> None:
        self.number = 0  # of the first signal; 0: none has come
        self.has_printed = self.has_raised = self.is_leaving = False
        self.read = -1  # of the pipe that Python writes signals to; -1: in a library
        self.explain: Callable[[], str] = lambda: (
            "no file is incomplete; run the same command again"
        )
        self.is_requested: Callable[[], bool] = lambda: False


_now = _State()


def run(work: Callable[[], int]) -> int:
    """Handle signals from now on, except those that this process was started to ignore. Returns
    the exit code of `work`; after an interrupt the process ends here.
    """
    _now.read, write = os.pipe()
    os.set_blocking(write, False)
    try:
        signal.set_wakeup_fd(write, warn_on_full_buffer=False)
        reinstall()
        os.register_at_fork(after_in_child=lambda: _give_up(signal.SIG_DFL))
        # The interpreter drops its handlers when it ends, and a signal would kill. The first to be
        # registered is the last to be called.
        atexit.register(_give_up, signal.SIG_IGN)
        threading.Thread(target=_watch, name="interrupts", daemon=True).start()
        code = work()
        _now.is_leaving = True
    except BaseException as error:
        _now.is_leaving = True
        if not _now.number and not isinstance(error, KeyboardInterrupt):
            raise
        code = 128 + signal.SIGINT
    if _now.number:
        with suppress(OSError, ValueError):
            if sys.stdout is not None:  # closed by the caller
                sys.stdout.flush()
        _handle(_now.number)
    return code


def reinstall() -> None:
    """Reinstall the handlers after a library has replaced them; nothing in a library."""
    for number in SIGNALS if _now.read >= 0 else ():
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _handle)


def is_stopping() -> bool:
    """Whether this process was requested to end, and is about to; never in a library."""
    return bool(_now.number)


def explain(message: Callable[[], str]) -> None:
    """What an interrupt says from now on: what is saved, and how to resume."""
    _now.explain = message


@contextmanager
def stop_when(requested: Callable[[], bool]) -> Iterator[Callable[[], bool]]:
    """Interrupt as by SIGTERM once `requested`, called often in the block, returns True. Yields
    a function for whether an interrupt has come; in a library the block must poll it.
    """
    _now.is_requested = requested
    try:
        yield is_stopping if _now.read >= 0 else requested
    finally:
        _now.is_requested = lambda: False


def _handle(number: int, frame: object = None) -> None:
    """The handler in the main thread; `_watch` notices the signal independently."""
    _now.number = _now.number or number
    deadline = time.monotonic() + 2.0
    while not _now.has_printed and time.monotonic() < deadline:
        time.sleep(0.005)
    if _now.is_leaving:
        _end()
    if not _now.has_raised:
        _now.has_raised = True
        raise KeyboardInterrupt


def _watch() -> None:
    """Print the line at the first signal; end at the second, or after the grace period."""
    first = 0
    while first not in SIGNALS:
        if select.select([_now.read], [], [], 0.2)[0]:
            first = os.read(_now.read, 1)[0]
            continue
        with suppress(OSError):
            if _now.is_requested():
                # Sent to that thread, so that it wakes up.
                signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGTERM)
    _now.number = first
    with suppress(Exception):
        _print_line(_now.explain())
    _now.has_printed = True
    select.select([_now.read], [], [], GRACE_SECONDS)
    _end()


def _print_line(message: str) -> None:
    words = f"interrupted: {message}\n".encode()
    if os.isatty(2):  # a live table may be shown, with the cursor hidden in the last line
        words = b"\r\n\x1b[?25h" + words
    screen = os.dup(2)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    time.sleep(0.05)  # what another thread had begun to write comes first
    os.write(screen, words)


def _give_up(handler: signal.Handlers) -> None:
    """Forget the signals, in a forked process or at the end of this one."""
    with suppress(ValueError):
        if handler is signal.SIG_DFL:
            signal.set_wakeup_fd(-1)
        for number in SIGNALS:
            if signal.getsignal(number) == _handle:
                signal.signal(number, handler)


def _end() -> NoReturn:
    """End this process and all processes that it started, orphans and new ones included."""
    try:
        import ctypes

        import psutil

        with suppress(OSError, AttributeError):  # adopts the children of dead children (Linux)
            ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER
        deadline = time.monotonic() + 5.0
        while (left := psutil.Process().children(recursive=True)) and time.monotonic() < deadline:
            for child in left:
                with suppress(psutil.Error):
                    child.kill()
            with suppress(ChildProcessError):
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass
            time.sleep(0.01)
    finally:
        os._exit(128 + _now.number)
