"""`python -m tests.torture --minutes 10 --seed 1`: bad input and damage without end, counted.

It prints a line of counts for each harness, and what reproduces every traceback, every answer over
10 s of processor time or 1 GB, and every refusal of more than one line. Exit code 1 where there is
one.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.sweep.untracked import run_untracked
from tests.torture import bad_input, damage
from tests.torture.outcome import Tally

Rounds = Iterator[Callable[[Tally], None]]


def main() -> int:
    """Run both harnesses, each for half of the time."""
    parser = argparse.ArgumentParser(prog="python -m tests.torture", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    findings = 0
    with TemporaryDirectory(prefix="torture-") as place:
        work = Path(place)
        home = damage.Home(run_untracked(work / "made"), work)
        harnesses: dict[str, Rounds] = {
            "bad input": bad_input.rounds(work, given.seed),
            "damage": damage.rounds(home, given.seed),
        }
        for name, rounds in harnesses.items():
            tally = _for_a_while(rounds, 60 * given.minutes / len(harnesses))
            print(f"{name}: {tally.line()}")
            for finding in dict.fromkeys(tally.findings):
                print(f"\n{finding}")
            findings += len(tally.findings)
    return min(findings, 1)


def _for_a_while(rounds: Rounds, seconds: float) -> Tally:
    tally, end = Tally(), time.monotonic() + seconds
    for one in rounds:
        one(tally)
        if time.monotonic() > end:
            break
    return tally


if __name__ == "__main__":
    sys.exit(main())
