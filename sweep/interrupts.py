"""Interrupts: Ctrl-C (SIGINT), SIGTERM, SIGHUP, and `sweep stop`, which counts as
SIGTERM.

First a thread prints one line on stderr, so that no long call delays it; later output
to stderr is dropped. Then KeyboardInterrupt is raised in the main thread. When that has
unwound, or after ten seconds, or at a second signal, the process ends with all that it
started, with the exit code 128 + the signal's number. In a library, where nothing calls
`run`, signals are unchanged.
"""

import atexit
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from trainables.system import processes

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass
class Flags:
    """Plain flags of this process, because a handler that waits for a lock of the
    interrupted thread deadlocks.
    """

    number: int = 0  # of the first signal; 0: none has come
    has_printed: bool = False
    is_leaving: bool = False
    read: int = -1  # of the pipe that Python writes signals to; -1: in a library
    explain: Callable[[], str] = lambda: (
        "no file is incomplete; run the same command again"
    )
    # Called often: True counts as SIGTERM.
    is_requested: Callable[[], bool] = lambda: False


now = Flags()


def run(work: Callable[[], int]) -> int:
    """The exit code of `work`, which is called at once. Signals are handled from now
    on, unless they were ignored before; an interrupt ends the process with 128 + the
    signal's number.
    """
    now.read, write = os.pipe()
    os.set_blocking(write, False)
    try:
        signal.set_wakeup_fd(write, warn_on_full_buffer=False)
        reinstall()
        os.register_at_fork(after_in_child=lambda: reinstall(signal.SIG_DFL))
        os.register_at_fork(after_in_child=lambda: signal.set_wakeup_fd(-1))
        # Called last of all, before the interpreter drops its handlers: a signal would
        # kill it.
        atexit.register(reinstall, signal.SIG_IGN)
        threading.Thread(target=_watch, name="interrupts", daemon=True).start()
        return work()
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    finally:
        now.is_leaving = True
        if now.number:
            with suppress(OSError, ValueError, AttributeError):  # closed by the caller
                sys.stdout.flush()
            _handle(now.number)


def is_stopping() -> bool:
    """Whether an interrupt has come, so that work should end at its next safe place. In
    a library, which has no thread that watches, this polls whether one is requested.
    """
    return bool(now.number) or (now.read < 0 and now.is_requested())


def _handle(number: int, frame: object = None) -> None:
    now.number = now.number or number
    for _ in range(400):  # for two seconds at most
        if not now.has_printed:
            time.sleep(0.005)
    if now.is_leaving:
        processes.end_with_own(128 + now.number)
    raise KeyboardInterrupt


def reinstall(handler: Callable[..., object] | signal.Handlers = _handle) -> None:
    """Reinstall the handlers of `SIGNALS` after a library has replaced them, or
    `handler` instead. A signal that was ignored before stays ignored; in a library
    nothing is changed.
    """
    for number in SIGNALS if now.read >= 0 else ():
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, handler)


def _watch() -> None:
    """Print the line at the first signal; end at the second, or after the grace
    period.
    """
    first = 0
    while first not in SIGNALS:
        with suppress(OSError):
            if select.select([now.read], [], [], 0.2)[0]:
                first = os.read(now.read, 1)[0]
            elif now.is_requested():  # sent to that thread, so that it wakes up
                signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGTERM)
    now.number = first
    with suppress(Exception):
        # The cursor, which a live table hides.
        shown = "\r\n\x1b[?25h" if os.isatty(2) else ""
        line = f"{shown}interrupted: {now.explain()}\n".encode()
        screen = os.dup(2)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        time.sleep(0.05)  # what another thread had begun to write comes first
        os.write(screen, line)
    now.has_printed = True
    select.select([now.read], [], [], 10.0)
    processes.end_with_own(128 + now.number)
