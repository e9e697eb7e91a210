"""What came of one command: an answer, a refusal in one line, or what must never be."""

from __future__ import annotations

import contextlib
import io
import resource
import signal
import time
import traceback
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from types import FrameType
from typing import NoReturn
from unittest import mock

from sweep import cli

SECONDS = 10.0  # of one answer; of processor time, so that a busy machine makes no finding
BYTES = 1 << 30
_CODES = {0: "answered", 1: "refused", 2: "refused"}


class Overtime(BaseException):
    """The answer takes too long; no handler of the project catches this."""


@dataclass
class Tally:
    """Counts of outcomes, and what reproduces each that must never be."""

    counts: Counter[str] = field(default_factory=Counter)
    findings: list[str] = field(default_factory=list)

    def add(self, outcome: str, *, how: str = "", detail: str = "") -> None:
        """Count an outcome; a `detail` makes it a finding."""
        self.counts[outcome] += 1
        if detail:
            self.findings.append(f"{outcome}: {how}\n{detail}")

    def line(self) -> str:
        """The counts in one line."""
        return ", ".join(f"{count} {name}" for name, count in sorted(self.counts.items()))


def run(arguments: Sequence[str], tally: Tally, *, how: str, stdin: bytes = b"") -> tuple[int, str]:
    """Run one command line in this process; (exit code, what it printed), -1 for a finding."""
    out, err = io.StringIO(), io.StringIO()
    before = _peak()
    code, detail, outcome = -1, "", "tracebacks"
    signal.signal(signal.SIGPROF, _overtime)
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    begun = time.process_time()
    try:
        with (
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
            mock.patch.object(cli, "build", _application),
            mock.patch("sys.stdin", io.TextIOWrapper(io.BytesIO(stdin))),
        ):
            code = cli.run(list(arguments))
        outcome = _CODES.get(code, "other exit codes")
    except Overtime:
        outcome, detail = "over 10 s", f"{time.process_time() - begun:.1f} s"
    except Exception:  # noqa: BLE001 what the harness looks for
        detail = traceback.format_exc(limit=-6)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    said = err.getvalue()
    if outcome == "refused" and (len(said.strip().splitlines()) > 1 or len(said) > 5_000):
        outcome, detail = "refusals of many lines", said[:2_000]
    if _peak() - before > BYTES:
        outcome, detail = "over 1 GB", detail or str(_peak() - before)
    tally.add(outcome, how=f"{' '.join(arguments)} ({how})", detail=detail)
    return code, out.getvalue() + said


_application = cache(cli.build)  # building it takes longer than most answers


def _overtime(signum: int, frame: FrameType | None) -> NoReturn:
    raise Overtime


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
