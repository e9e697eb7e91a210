"""Work in a forked child: its answer, or how it ended."""

from __future__ import annotations

import json
import os
import resource
import select
import signal
import time
import traceback
from collections.abc import Callable
from typing import Any

_MEMORY = 8 << 30


def in_child(work: Callable[[], Any], *, cpu_seconds: float, seconds: float) -> Any:
    """What `work` returns in a fork of this process, plain data; "timeout" or "crashed" otherwise.

    The limit that counts is of the processor's time, which a busy machine does not shorten.

    Raises: RuntimeError where `work` raises.
    """
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        _serve(work, writer, cpu_seconds)
    os.close(writer)
    answer, ended = _read(reader, until=time.monotonic() + seconds)
    os.close(reader)
    if not ended:
        _kill(child)
    _, status = os.waitpid(child, 0)
    _kill(child)  # what it left running
    if not ended or (os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGXCPU):
        return "timeout"
    try:
        found = json.loads(answer)
    except ValueError:
        return "crashed"
    if isinstance(found, dict) and "broken" in found:
        raise RuntimeError(found["broken"])
    return found


def _serve(work: Callable[[], Any], writer: int, cpu_seconds: float) -> None:
    """Never returns."""
    try:
        os.setsid()
        used = sum(resource.getrusage(resource.RUSAGE_SELF)[:2])
        limit = int(used + cpu_seconds) + 1
        resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 5))
        resource.setrlimit(resource.RLIMIT_DATA, (_MEMORY, _MEMORY))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        signal.signal(signal.SIGXCPU, signal.SIG_DFL)
        try:
            answer = json.dumps(work()).encode()
        except BaseException:  # noqa: BLE001  # sent to the parent: no fault of the mutant's
            answer = json.dumps({"broken": traceback.format_exc()}).encode()
        while answer:
            answer = answer[os.write(writer, answer) :]
    finally:
        os._exit(0)


def _read(reader: int, *, until: float) -> tuple[bytes, bool]:
    parts = []
    while True:
        left = until - time.monotonic()
        if left <= 0 or not select.select([reader], [], [], left)[0]:
            return b"".join(parts), False
        part = os.read(reader, 1 << 16)
        if not part:
            return b"".join(parts), True
        parts.append(part)


def _kill(child: int) -> None:
    """Its whole session."""
    try:
        os.killpg(child, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return
