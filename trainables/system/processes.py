"""Processes of this machine by psutil's handles, none of which ever stands for a later
process of the same id.
"""

import ctypes
import os
import time
from collections.abc import Iterable
from contextlib import suppress
from typing import NoReturn

import psutil


def is_alive(process: psutil.Process) -> bool:
    """Whether it still runs; one that has ended and was not waited for does not."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def children(*, command: str) -> list[psutil.Process]:
    """Those of this process with `command` in a word of their command line."""
    found = []
    for child in psutil.Process().children():
        with suppress(psutil.Error):
            if any(command in word for word in child.cmdline()):
                found.append(child)
    return found


def descendants(processes: Iterable[psutil.Process]) -> list[psutil.Process]:
    """What they have started, and what that has started; of a process that has ended
    nothing.
    """
    found: list[psutil.Process] = []
    for process in processes:
        with suppress(psutil.Error):
            found += process.children(recursive=True)
    return found


def words(number: int) -> str:
    """A process by its id, with its command where it can be read, without the words of
    it that are addresses and may have a password.
    """
    try:
        process = psutil.Process(number)
        command = " ".join(word for word in process.cmdline() if "://" not in word)
        is_stopped = process.status() == psutil.STATUS_STOPPED
    except psutil.Error:
        return f"process {number}"
    state = (
        f", which is stopped (`kill -CONT {number}` continues it),"
        if is_stopped
        else ""
    )
    return f"process {number} ({command[:80] or process.name()}){state}"


def is_own_port(host: str, port: int) -> bool:
    """Whether all that listens at a TCP port of this machine are processes of this
    user; False where none does, or where the system does not tell.
    """
    try:
        listening = [
            each.pid
            for each in psutil.net_connections("tcp")
            if each.status == psutil.CONN_LISTEN
            and tuple(each.laddr)
            in {(place, port) for place in (host, "0.0.0.0", "::")}
        ]
        # Without an id: of another user or of another container.
        owners = [pid and psutil.Process(pid).uids().real for pid in listening]
    except psutil.Error:
        return False
    return bool(owners) and all(owner == os.getuid() for owner in owners)


def kill(processes: Iterable[psutil.Process]) -> None:
    """Kill those that still run."""
    for process in processes:
        with suppress(psutil.Error):
            process.kill()


def end_with_own(code: int) -> NoReturn:
    """End this process and all processes that it started, orphans and new ones
    included.
    """
    try:
        with suppress(
            OSError, AttributeError
        ):  # adopts the children of dead children (Linux)
            ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER
        deadline = time.monotonic() + 5.0
        while (left := descendants([psutil.Process()])) and time.monotonic() < deadline:
            kill(left)
            with suppress(ChildProcessError):
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass
            time.sleep(0.01)
    finally:
        os._exit(code)
