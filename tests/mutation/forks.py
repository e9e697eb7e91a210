"""Work in a forked child: its answer, or how it ended."""

import multiprocessing
import os
import resource
import signal
import traceback
from contextlib import suppress

_MEMORY = 8 << 30
_FORK = multiprocessing.get_context("fork")


def in_child(work, *, cpu_seconds, seconds):
    """What `work` returns in a fork, plain data. Otherwise "timeout" after
    `cpu_seconds` of processor time, which a busy machine does not shorten, "waited"
    after `seconds` on the clock, which says nothing about the work, or "crashed".
    RuntimeError if it raises.
    """
    reader, writer = _FORK.Pipe(duplex=False)
    child = _FORK.Process(target=_serve, args=(work, writer, cpu_seconds))
    child.start()
    writer.close()
    found, broken = "waited", None
    if reader.poll(seconds):
        try:
            found, broken = reader.recv()
        except EOFError:
            found = "crashed"
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)  # and what it left running
    child.join()
    if broken:
        raise RuntimeError(broken)
    return "timeout" if child.exitcode == -signal.SIGXCPU else found


def _serve(work, writer, cpu_seconds):
    os.setsid()
    used = sum(resource.getrusage(resource.RUSAGE_SELF)[:2])
    limit = int(used + cpu_seconds) + 1
    resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 5))
    resource.setrlimit(resource.RLIMIT_DATA, (_MEMORY, _MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGXCPU, signal.SIG_DFL)
    try:
        writer.send((work(), None))
    except BaseException:  # noqa: BLE001  # sent to the parent: no fault of the mutant's
        writer.send((None, traceback.format_exc()))
    os._exit(0)
