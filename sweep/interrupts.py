"""Interrupts: Ctrl-C (SIGINT), SIGTERM, SIGHUP, and `sweep stop`, which counts as SIGTERM.

First a thread prints one line on stderr, so that no long call delays it; later output to stderr is
dropped. Then KeyboardInterrupt is raised in the main thread. When that has unwound, or after
`GRACE_SECONDS`, or at a second signal, the process ends with all that it started, with the exit
code 128 + the signal's number. In a library, where nothing calls `run`, signals are unchanged.
"""

from __future__ import annotations

import atexit
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from trainables.system import processes

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
GRACE_SECONDS = 10.0


class now:  # noqa: N801
    """Plain flags, because a handler that waits for a lock of the interrupted thread deadlocks."""

    number = 0  # of the first signal; 0: none has come
    has_printed = is_leaving = False
    read = -1  # of the pipe that Python writes signals to; -1: in a library
    # What is saved, and how to resume.
    explain: Callable[[], str] = lambda: "no file is incomplete; run the same command again"
    is_requested: Callable[[], bool] = lambda: False  # called often: True counts as SIGTERM


def run(work: Callable[[], int]) -> int:
    """Handle signals from now on, except those that this process was started to ignore. Returns
    the exit code of `work`; after an interrupt the process ends here.
    """
    now.read, write = os.pipe()
    os.set_blocking(write, False)
    try:
        signal.set_wakeup_fd(write, warn_on_full_buffer=False)
        reinstall()
        os.register_at_fork(after_in_child=lambda: reinstall(signal.SIG_DFL))
        os.register_at_fork(after_in_child=lambda: signal.set_wakeup_fd(-1))
        # The interpreter drops its handlers when it ends, and a signal would kill. The first to be
        # registered is the last to be called.
        atexit.register(reinstall, signal.SIG_IGN)
        threading.Thread(target=_watch, name="interrupts", daemon=True).start()
        code = work()
        now.is_leaving = True
    except BaseException as error:
        now.is_leaving = True
        if not now.number and not isinstance(error, KeyboardInterrupt):
            raise
        code = 128 + signal.SIGINT
    if now.number:
        with suppress(OSError, ValueError, AttributeError):  # closed by the caller
            sys.stdout.flush()
        _handle(now.number)
    return code


def is_stopping() -> bool:
    """Whether an interrupt has come; in a library, which must poll it, whether one is requested."""
    return bool(now.number) or (now.read < 0 and now.is_requested())


def _handle(number: int, frame: object = None) -> None:
    now.number = now.number or number
    for _ in range(400):  # for two seconds at most
        if not now.has_printed:
            time.sleep(0.005)
    if now.is_leaving:
        processes.end_with_own(128 + now.number)
    raise KeyboardInterrupt


def reinstall(handler: Any = _handle) -> None:
    """Reinstall the handlers after a library has replaced them; nothing in a library."""
    for number in SIGNALS if now.read >= 0 else ():
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, handler)


def _watch() -> None:
    """Print the line at the first signal; end at the second, or after the grace period."""
    first = 0
    while first not in SIGNALS:
        with suppress(OSError):
            if select.select([now.read], [], [], 0.2)[0]:
                first = os.read(now.read, 1)[0]
            elif now.is_requested():  # sent to that thread, so that it wakes up
                signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGTERM)
    now.number = first
    with suppress(Exception):
        line = f"interrupted: {now.explain()}\n".encode()
        # A live table may be shown, with the cursor hidden in the last line.
        line = b"\r\n\x1b[?25h" + line if os.isatty(2) else line
        screen = os.dup(2)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        time.sleep(0.05)  # what another thread had begun to write comes first
        os.write(screen, line)
    now.has_printed = True
    select.select([now.read], [], [], GRACE_SECONDS)
    processes.end_with_own(128 + now.number)
