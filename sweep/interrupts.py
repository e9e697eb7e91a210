"""Handles interrupts of this process: Ctrl-C (SIGINT), signals of the system (SIGTERM, SIGHUP),
and `sweep stop`, which counts as SIGTERM.

The order is the same in every phase. First a separate thread prints one line on stderr, so that no
long call delays it; later output to stderr is dropped. Then KeyboardInterrupt is raised once in the
main thread. When that has unwound, or after `GRACE_SECONDS`, or at a second signal, the process
ends with all processes that it started, with the exit code 128 + the signal's number. Files on disk
are complete at any moment, so an early end loses nothing.

A program calls `run` before it imports anything else; in a library (`sweep.run` in a notebook)
signals are unchanged. Until a signal, only the standard library is imported here.
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
from types import FrameType
from typing import Any, NoReturn

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
GRACE_SECONDS = 10.0
_LOOK_SECONDS = 0.2
_LINE_SECONDS = 2.0
_FRAME_SECONDS = 0.05
_KILL_SECONDS = 5.0
_SHOW_CURSOR = b"\x1b[?25h"
_PR_SET_CHILD_SUBREAPER = 36


class _State:
    """Plain flags, because a handler that waits for a lock of the interrupted thread deadlocks."""

    number = 0  # of the first signal; 0: none has come
    is_printed = may_raise = is_leaving = False
    num_postponing = 0
    read = -1  # of the pipe that Python writes signals to; -1: in a library


_now = _State()
_BY_DEFAULT = "no file is incomplete; run the same command again"
_explanations: list[Callable[[], str]] = [lambda: _BY_DEFAULT]
_stops: list[Callable[[], bool]] = []


def run(work: Callable[[], int]) -> int:
    """Handle signals from now on, except those that this process was started to ignore. Returns
    the exit code of `work`; after an interrupt the process ends here.
    """
    _now.read, write = os.pipe()
    os.set_blocking(write, False)
    reinstall()
    signal.set_wakeup_fd(write, warn_on_full_buffer=False)
    os.register_at_fork(after_in_child=_forget)
    # When the interpreter ends, it drops its handlers, and a signal would kill. The first to be
    # registered is the last to be called.
    atexit.register(_replace, signal.SIG_IGN)
    threading.Thread(target=_watch, name="interrupts", daemon=True).start()
    try:
        _now.may_raise = True
        if _now.number:
            _raise()
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
        _wait_for_line()
        _end(_now.number)
    return code


def reinstall() -> None:
    """Reinstall the handlers after a library has replaced them; nothing in a library."""
    for number in SIGNALS if _now.read >= 0 else ():
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _handle)


def is_stopping() -> bool:
    """Whether this process was requested to end, and is about to; never in a library."""
    return bool(_now.number)


@contextmanager
def explain(message: Callable[[], str]) -> Iterator[None]:
    """Set the message of an interrupt inside the block, and of the outermost block until the
    process ends: what is saved, and how to resume.
    """
    _explanations.append(message)
    try:
        yield
    finally:
        if len(_explanations) > 2:
            _explanations.pop()


@contextmanager
def stop_when(requested: Callable[[], bool]) -> Iterator[Callable[[], bool]]:
    """Interrupt as by SIGTERM once `requested`, called often in the block, returns True. Yields
    a function for whether an interrupt has come; in a library the block must poll it.
    """
    _stops.append(requested)
    try:
        yield is_stopping if _now.read >= 0 else requested
    finally:
        _stops.remove(requested)


@contextmanager
def postpone() -> Iterator[Callable[[], bool]]:
    """Raise no exception inside the block, which must poll the yielded function often. In a library
    signals are handled for this block only, and a second one ends the process at once.
    """
    if _now.read < 0:
        with expected() as event:
            yield event.is_set
        return
    _now.num_postponing += 1
    try:
        yield is_stopping
    finally:
        _now.num_postponing -= 1
    if _now.number and not _now.num_postponing:
        _raise()


@contextmanager
def expected() -> Iterator[threading.Event]:
    """An event that a signal sets inside the block instead of its effect; a second one ends the
    process at once. Outside the main thread Python allows no signal handlers.
    """
    requested = threading.Event()

    def ask(number: int, frame: FrameType | None) -> None:
        if requested.is_set():
            os._exit(128 + number)
        requested.set()

    if threading.current_thread() is not threading.main_thread():
        yield requested
        return
    before = {n: h for n in SIGNALS if (h := signal.getsignal(n)) is not signal.SIG_IGN}
    told = signal.set_wakeup_fd(-1)
    for number in before:
        signal.signal(number, ask)
    try:
        yield requested
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(told, warn_on_full_buffer=False)


def _handle(number: int, frame: FrameType | None) -> None:
    """The handler in the main thread; `_watch` notices the signal independently."""
    _now.number = _now.number or number
    _wait_for_line()
    if _now.is_leaving:
        _end(_now.number)
    if not _now.num_postponing:
        _raise()


def _raise() -> None:
    if _now.may_raise:
        _now.may_raise = False
        raise KeyboardInterrupt


def _watch() -> None:
    """Print the line at the first signal; end at the second, or after the grace period."""
    first = 0
    while not first:
        if select.select([_now.read], [], [], _LOOK_SECONDS)[0]:
            received = os.read(_now.read, 1)[0]
            first = received if received in SIGNALS else 0
            continue
        with suppress(OSError):
            if any(requested() for requested in _stops):
                # Sent to that thread, so that it wakes up.
                signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGTERM)
    _now.number = first
    _print_line()
    _now.is_printed = True
    select.select([_now.read], [], [], GRACE_SECONDS)
    _end(first)


def _print_line() -> None:
    """The line, and nothing after it."""
    line = _BY_DEFAULT
    with suppress(Exception):
        line = _explanations[-1]()
    words = f"interrupted: {line}\n".encode()
    with suppress(OSError):
        if os.isatty(2):  # a live table may be shown, with the cursor hidden in the last line
            words = b"\r\n" + _SHOW_CURSOR + words
        screen = os.dup(2)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        time.sleep(_FRAME_SECONDS)  # what another thread had begun to write comes first
        os.write(screen, words)


def _wait_for_line() -> None:
    """Wait until the line is printed, with the state at the signal."""
    deadline = time.monotonic() + _LINE_SECONDS
    while not _now.is_printed and time.monotonic() < deadline:
        time.sleep(0.005)


def _replace(handler: Any) -> None:
    for number in SIGNALS:
        if signal.getsignal(number) == _handle:
            signal.signal(number, handler)


def _forget() -> None:
    """Forget the signals in a forked process."""
    with suppress(ValueError):
        signal.set_wakeup_fd(-1)
        _replace(signal.SIG_DFL)


def _end(number: int) -> NoReturn:
    """End this process and all processes that it started, orphans and new ones included."""
    try:
        import ctypes

        import psutil

        with suppress(OSError, AttributeError):  # adopts the children of dead children (Linux)
            ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        deadline = time.monotonic() + _KILL_SECONDS
        while time.monotonic() < deadline:
            with suppress(ChildProcessError):
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass
            children = psutil.Process().children(recursive=True)
            if not children:
                break
            for child in children:
                with suppress(psutil.Error):
                    child.kill()
            time.sleep(0.01)
    finally:
        os._exit(128 + number)
