"""The outcome of one command: an answer, a refusal in one line, or a fault. A command
is a fork of this process, with all modules in memory, or, `installed`, the script,
begun from nothing.
"""

from __future__ import annotations

import gc
import importlib
import os
import pkgutil
import resource
import select
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TextIO, cast

import typer.main

from sweep import cli

SECONDS = (
    10.0  # of one answer; of processor time, so that a busy machine makes no finding
)
BYTES = 1 << 30  # of one answer, beyond what this process holds already
_PATIENCE_SECONDS = (
    300.0  # of a clock, until a command that waits for something is ended
)
_LIMIT_BYTES = 24 << 30  # of its address space, for the machine's sake
_LONGEST_REFUSAL = 5_000
_CODES = {0: "answered", 1: "refused", 2: "refused"}
_TRACEBACK = "Traceback (most recent call last)"


@dataclass(frozen=True, kw_only=True)
class Ended:
    """How a process ended. `seconds` are of processor time, `waited` of a clock,
    `growth` is what it held at most, in bytes, beyond what it began with. `code` is -N
    for signal N.
    """

    code: int
    out: str
    err: str
    seconds: float
    waited: float
    growth: int


@dataclass
class Tally:
    """Counts of outcomes, the largest costs, and what reproduces each that must never
    be.
    """

    counts: Counter[str] = field(default_factory=Counter)
    findings: list[str] = field(default_factory=list)
    seconds: float = 0.0
    growth: int = 0

    def add(self, outcome, *, how="", detail=""):
        """Count an outcome; a `detail` makes it a finding, printed now: a run may end
        early.
        """
        self.counts[outcome] += 1
        if detail:
            text = f"{outcome}: {how}\n{detail}"
            self.findings.append(text.encode("utf-8", "backslashreplace").decode())
            print(f"\n{self.findings[-1]}", flush=True)

    def line(self):
        counts = ", ".join(
            f"{count} {name}" for name, count in sorted(self.counts.items())
        )
        most = f"at most {self.seconds:.1f} s and {self.growth / 2**20:.0f} MB"
        return f"{counts}; {most}" if self.seconds else counts


def run(arguments, tally, *, how, stdin=b"", installed=False, environment=None):
    """Run one command line and count what came of it; (exit code, all that it
    printed).
    """
    ended = run_process(
        arguments, stdin=stdin, installed=installed, environment={**(environment or {})}
    )
    outcome, detail = classify(ended)
    tally.seconds = max(tally.seconds, ended.seconds)
    tally.growth = max(tally.growth, ended.growth)
    tally.add(outcome, how=f"{' '.join(arguments)[:2_000]} ({how})", detail=detail)
    return ended.code, ended.out + ended.err


def classify(ended):
    """The name of an outcome, and what is to be known of one that must never be."""
    if _TRACEBACK in ended.err:
        return "tracebacks", ended.err[-4_000:]
    if ended.seconds > SECONDS or ended.waited > _PATIENCE_SECONDS:
        return (
            "over 10 s",
            f"{ended.seconds:.1f} s of processor time, {ended.waited:.1f} s in all",
        )
    if ended.growth > BYTES:
        return "over 1 GB", f"{ended.growth / 2**20:.0f} MB"
    if ended.code == 1 and ended.out and not ended.err:
        return "answered", ""  # a check, which says what it found
    outcome = _CODES.get(ended.code, "other exit codes")
    if outcome == "other exit codes":
        return outcome, f"exit code {ended.code}: {ended.err[-2_000:]!r}"
    lines = ended.err.strip().splitlines()
    refused = [line for line in lines if line.startswith("error:")]
    if outcome == "refused" and (len(refused) != 1 or lines[-1] != refused[0]):
        return "refusals that are not one line", ended.err[
            :2_000
        ] or "nothing on stderr"
    if outcome == "refused" and len(refused[0]) > _LONGEST_REFUSAL:
        return "refusals that are not one line", f"{len(refused[0])} characters"
    return outcome, ""


def run_process(arguments, *, stdin=b"", installed=False, environment):
    """Run one command line as a process, and wait for its end."""
    _preloaded()
    with _file(stdin) as given, _file() as out, _file() as err:
        before, begun = (0 if installed else _own_bytes()), time.monotonic()
        sys.stdout.flush()
        sys.stderr.flush()
        child = os.fork()
        if child == 0:
            _become(arguments, (given, out, err), environment, installed=installed)
        code, usage = _wait(child)
        return Ended(
            code=code,
            out=_content(out),
            err=_content(err),
            seconds=usage.ru_utime + usage.ru_stime,
            waited=time.monotonic() - begun,
            growth=usage.ru_maxrss * 1024 - before,
        )


def _become(arguments, files, environment, *, installed):
    """In the child: be the command."""
    code = 70
    try:
        os.setpgid(0, 0)
        resource.setrlimit(resource.RLIMIT_AS, (_LIMIT_BYTES, _LIMIT_BYTES))
        for number, file in enumerate(files):
            os.dup2(file.fileno(), number)
        os.environ.update(environment)
        if installed:
            os.environ["PYTHONPATH"] = str(Path(__file__).parents[2])  # this tree
            script = str(Path(sys.executable).with_name("sweep"))
            os.execv(script, [script, *arguments])
        code = _main(arguments)
    except BaseException:  # noqa: BLE001 a child may never come back to what its parent does
        traceback.print_exc()
    finally:
        with suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def _main(arguments):
    """The exit code of the script's entry point, on the files 0, 1 and 2."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    sys.stdin, sys.stdout = _text(0, "r"), _text(1, "w")
    sys.stderr = _text(2, "w", errors="backslashreplace")
    sys.argv = ["sweep", *arguments]
    app, command = _preloaded()
    cli.build = lambda arguments: app
    typer.main.get_command = lambda _: command  # type: ignore[assignment]
    try:
        cli.main()
    except SystemExit as leaving:
        return leaving.code if isinstance(leaving.code, int) else 1
    return 0


def _text(descriptor, mode, *, errors=None):
    return cast(
        TextIO,
        os.fdopen(descriptor, mode, encoding="utf-8", errors=errors, closefd=False),
    )


@cache
def _preloaded():
    """The application, after all modules that commands import, but for Ray's and
    MLflow's own.
    """
    for package in ("sweep", "trainables", "search_spaces", "dashboards"):
        found = importlib.import_module(package)
        for module in pkgutil.walk_packages(found.__path__, f"{package}."):
            if not any(
                part in module.name for part in ("__main__", ".ray_", ".mlflow_")
            ):
                with suppress(ImportError):  # of an extra that is not installed
                    importlib.import_module(module.name)
    app = cli.build()
    command = typer.main.get_command(app)
    gc.collect()
    gc.freeze()  # a child that collects its garbage does not copy what it shares
    return app, command


def _wait(child):
    """Exit code and costs of a child, with what it started and waited for."""
    handle = os.pidfd_open(child)
    try:
        waiting = select.poll()
        waiting.register(handle, select.POLLIN)
        if not waiting.poll(1_000 * (_PATIENCE_SECONDS + 1)):
            _kill_group(child)
        _, status, usage = os.wait4(child, 0)
    finally:
        os.close(handle)
        _kill_group(child)
    return os.waitstatus_to_exitcode(status), usage


def _kill_group(leader):
    with suppress(ProcessLookupError):
        os.killpg(leader, signal.SIGKILL)


def _own_bytes():
    """Bytes in memory that a child of this process begins with: not those of files."""
    _, resident, shared, *_ = Path("/proc/self/statm").read_text().split()
    return (int(resident) - int(shared)) * resource.getpagesize()


@contextmanager
def _file(content=b""):
    with tempfile.TemporaryFile() as file:
        file.write(content)
        file.flush()
        file.seek(0)
        yield file


def _content(file):
    file.seek(0)
    return file.read().decode("utf-8", "replace")
