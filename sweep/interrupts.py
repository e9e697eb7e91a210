"""Handles interrupts of this process: Ctrl-C (SIGINT), signals of the system (SIGTERM, SIGHUP),
and `sweep stop`, which counts as SIGTERM.

The order is the same in every phase. First a separate thread prints one line on stderr, so that no
long call delays it; later output to stderr is dropped. Then KeyboardInterrupt is raised once in the
main thread. When that has unwound, or after `GRACE_SECONDS`, or at a second signal, the process
ends with all processes that it started, with the exit code 128 + the signal's number. Files on disk
are complete at any moment, so an early end loses nothing.

A program installs this before it imports anything else; in a library (`sweep.run` in a notebook)
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
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from types import FrameType
from typing import NoReturn

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
GRACE_SECONDS = 10.0
_LOOK_SECONDS = 0.2
_LINE_SECONDS = 2.0
_FRAME_SECONDS = 0.05
_KILL_SECONDS = 5.0
_SHOW_CURSOR = b"\x1b[?25h"
_BY_DEFAULT = "no file is incomplete; run the same command again"
_PR_SET_CHILD_SUBREAPER = 36


class Interrupts:
    """The signal handling of this process. Create it once, in the main thread."""

    def __init__(self) -> None:
        self._number: int = signal.SIGINT  # of the first signal
        # Plain flags, because a handler that waits for a lock of the interrupted thread deadlocks.
        self._requested = self._printed = self._may_raise = self._leaving = False
        self._explanations: list[Callable[[], str]] = []
        self._stops: list[Callable[[], bool]] = []
        self._num_postponing = 0
        self._expected: threading.Event | None = None
        self._read, self._write = os.pipe()
        os.set_blocking(self._write, False)

    @property
    def is_stopping(self) -> bool:
        """Whether this process was requested to end."""
        return self._requested

    def install(self) -> None:
        """Handle signals from now on, except those that this process was started to ignore."""
        self.reinstall()
        signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
        os.register_at_fork(after_in_child=self._forget)
        atexit.register(self._ignore)  # the first to be registered is the last to be called
        threading.Thread(target=self._watch, name="interrupts", daemon=True).start()

    def _ignore(self) -> None:
        """Ignore signals at exit, when the interpreter drops its handlers and one would kill."""
        for number in SIGNALS:
            if signal.getsignal(number) == self._handle:
                signal.signal(number, signal.SIG_IGN)

    def reinstall(self) -> None:
        """Reinstall the handlers after a library has replaced them."""
        for number in SIGNALS:
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, self._handle)

    def run(self, work: Callable[[], int]) -> int:
        """The exit code of `work`; after an interrupt the process ends here."""
        try:
            self._may_raise = True
            if self._requested:
                self._raise()
            code = work()
            self._leaving = True
        except BaseException as error:
            self._leaving = True
            if not self._requested and not isinstance(error, KeyboardInterrupt):
                raise
            code = 128 + signal.SIGINT
        if self._requested:
            with suppress(OSError, ValueError):
                if sys.stdout is not None:  # closed by the caller
                    sys.stdout.flush()
            self._wait_for_line()
            self._end()
        return code

    def _handle(self, number: int, frame: FrameType | None) -> None:
        """The handler in the main thread; `_watch` notices the signal independently."""
        if self._expected is not None:
            return
        self._requested = True
        self._wait_for_line()
        if self._leaving:
            self._end()
        if not self._num_postponing:
            self._raise()

    def _raise(self) -> None:
        if self._may_raise:
            self._may_raise = False
            raise KeyboardInterrupt

    def _watch(self) -> None:
        """Print the line at the first signal; end at the second, or after the grace period."""
        first = self._first_signal()
        self._number = first
        if self._expected is not None:
            self._expected.set()
            patience = None
        else:
            self._requested = True
            self._print_line()
            self._printed = True
            patience = GRACE_SECONDS
        select.select([self._read], [], [], patience)
        self._end()

    def _first_signal(self) -> int:
        while True:
            ready, _, _ = select.select([self._read], [], [], _LOOK_SECONDS)
            received = [n for n in os.read(self._read, 1) if n in SIGNALS] if ready else []
            if received:
                return received[0]
            if self._is_stopped():
                # Sent to that thread, so that it wakes up.
                signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGTERM)

    def _is_stopped(self) -> bool:
        try:
            return any(requested() for requested in self._stops)
        except OSError:
            return False

    def _print_line(self) -> None:
        """The line, and nothing after it."""
        line = _BY_DEFAULT
        with suppress(Exception):
            line = self._explanations[-1]() if self._explanations else line
        words = f"interrupted: {line}\n".encode()
        with suppress(OSError):
            if os.isatty(2):  # a live table may be shown, with the cursor hidden in the last line
                words = b"\r\n" + _SHOW_CURSOR + words
            screen = os.dup(2)
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            time.sleep(_FRAME_SECONDS)  # what another thread had begun to write comes first
            os.write(screen, words)

    def _wait_for_line(self) -> None:
        """Wait until the line is printed, with the state at the signal."""
        deadline = time.monotonic() + _LINE_SECONDS
        while not self._printed and time.monotonic() < deadline:
            time.sleep(0.005)

    def _end(self) -> NoReturn:
        """End this process and all processes that it started."""
        try:
            _kill_children()
        finally:
            os._exit(128 + self._number)

    def _forget(self) -> None:
        """Forget the signals in a forked process."""
        with suppress(ValueError):
            signal.set_wakeup_fd(-1)
            for number in SIGNALS:
                if signal.getsignal(number) == self._handle:
                    signal.signal(number, signal.SIG_DFL)

    # ---- for the phases of a run

    @contextmanager
    def explain(self, message: Callable[[], str]) -> Iterator[None]:
        """Set the message of an interrupt inside the block, and of the outermost block until the
        process ends: what is saved, and how to resume.
        """
        self._explanations.append(message)
        try:
            yield
        finally:
            if len(self._explanations) > 1:
                self._explanations.pop()

    @contextmanager
    def stop_when(self, requested: Callable[[], bool]) -> Iterator[Callable[[], bool]]:
        """Interrupt as by SIGTERM once `requested`, called often in the block, returns True. Yields
        a function for whether an interrupt has come.
        """
        self._stops.append(requested)
        try:
            yield lambda: self._requested
        finally:
            self._stops.pop()

    @contextmanager
    def postpone(self) -> Iterator[Callable[[], bool]]:
        """Raise no exception inside the block, which must poll the yielded function often."""
        self._num_postponing += 1
        try:
            yield lambda: self._requested
        finally:
            self._num_postponing -= 1
        if self._requested and not self._num_postponing:
            self._raise()

    @contextmanager
    def expected(self) -> Iterator[threading.Event]:
        """An event that a signal sets, as the normal end of the rest of this process."""
        self._expected = threading.Event()
        yield self._expected


_installed: Interrupts | None = None


def install() -> Interrupts:
    """Handle the signals of this process."""
    global _installed
    _installed = Interrupts()
    _installed.install()
    return _installed


def reinstall() -> None:
    """As `Interrupts.reinstall`; nothing in a library."""
    if _installed is not None:
        _installed.reinstall()


def is_stopping() -> bool:
    """Whether this process was requested to end, and is about to; never in a library."""
    return _installed is not None and _installed.is_stopping


def explain(message: Callable[[], str]) -> AbstractContextManager[None]:
    """As `Interrupts.explain`; nothing in a library."""
    return nullcontext() if _installed is None else _installed.explain(message)


def stop_when(
    requested: Callable[[], bool],
) -> AbstractContextManager[Callable[[], bool]]:
    """As `Interrupts.stop_when`; in a library the block must poll `requested`."""
    return nullcontext(requested) if _installed is None else _installed.stop_when(requested)


@contextmanager
def postpone() -> Iterator[Callable[[], bool]]:
    """As `Interrupts.postpone`; in a library, whose signals are handled for this block only, a
    second one ends the process at once.
    """
    if _installed is not None:
        with _installed.postpone() as requested:
            yield requested
        return
    with _event_of_signals() as event:
        yield event.is_set


def expected() -> AbstractContextManager[threading.Event]:
    """As `Interrupts.expected`; in a library for this block only."""
    return _event_of_signals() if _installed is None else _installed.expected()


@contextmanager
def _event_of_signals() -> Iterator[threading.Event]:
    """An event that SIGINT and SIGTERM set instead of their earlier effect. Outside the main
    thread Python allows no signal handlers.
    """
    requested = threading.Event()

    def ask(number: int, frame: FrameType | None) -> None:
        if requested.is_set():
            os._exit(128 + number)
        requested.set()

    if threading.current_thread() is not threading.main_thread():
        yield requested
        return
    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield requested
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _kill_children() -> None:
    """Kill every descendant of this process, including new ones."""
    import psutil

    _adopt_orphans()
    me, deadline = psutil.Process(), time.monotonic() + _KILL_SECONDS
    while time.monotonic() < deadline:
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        children = me.children(recursive=True)
        if not children:
            return
        for child in children:
            with suppress(psutil.Error):
                child.kill()
        time.sleep(0.01)


def _adopt_orphans() -> None:
    """Adopt the children of dead children (Linux)."""
    import ctypes

    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
