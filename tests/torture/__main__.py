"""`python -m tests.torture --minutes 10 --seed 1`: bad input, damage and interrupts,
counted.

It prints a line of counts for each part, and what reproduces everything that must never
be: a traceback, an answer over 10 s of processor time or 1 GB, a refusal that is not
one line, a figure that damage changed in silence, an interrupt without its line. Exit
code 1 where there is one. A part ends after its share of the minutes, or at the number
that is given. Kills are `benchmarks/faults.py`.
"""

import argparse
import sys
import time
from collections import defaultdict
from pathlib import Path
from tempfile import TemporaryDirectory

from sweep.planning import prepare
from sweep.runtime import runner
from tests.sweep.sweeps import settings_in, space_in
from tests.sweep.untracked import without_mlflow
from tests.torture import bad_input, damage, interrupts
from tests.torture.outcome import Tally

PARTS = ("bad-input", "damage", "interrupts")


def main():
    """Run the parts, each for its share of the time."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.torture", description=__doc__
    )
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--number", type=int, help="rounds of each part at most")
    given = parser.parse_args()
    findings = 0
    for part in given.parts:
        with TemporaryDirectory(prefix="torture-") as place:
            rounds = _rounds(part, Path(place), given.seed)
            seconds = 60 * given.minutes / len(given.parts)
            findings += _count(part, rounds, seconds=seconds, number=given.number)
    return min(findings, 1)


def _rounds(part, work, seed):
    if part == "interrupts":
        return interrupts.rounds(work, seed)
    home = damage.Home(finished_sweep(work / "made"), work)
    if part == "damage":
        return damage.rounds(home, seed)
    return bad_input.rounds(bad_input.Bench(home, work), seed)


def finished_sweep(folder):
    """A sweep of small models that were trained, whose exports answer."""
    folder.mkdir()
    model = {"name": "clc", "word_vectors": "hashed", "hidden_size": 8, "num_layers": 1}
    training = {"epochs": 2, "expected_batch_size": 30, "num_workers": 1}
    settings = settings_in(folder)
    space = space_in(folder, base={"model": model, "training": training})
    with without_mlflow():
        return runner.start(
            prepare.prepare_space(space, settings=settings), settings
        ).folder


def _count(part, rounds, *, seconds, number):
    """Run rounds, and print what came of them so far; the number of findings."""
    tallies = defaultdict(Tally)
    begun = time.monotonic()
    for done, one in enumerate(rounds, 1):
        one(tallies)
        is_over = time.monotonic() > begun + seconds or done == number
        if is_over or done % 100 == 0:
            print(
                f"{part}: {done} after {(time.monotonic() - begun) / 60:.1f} minutes",
                flush=True,
            )
            for name, tally in tallies.items():
                print(f"  {name}: {tally.line()}", flush=True)
        if is_over:
            break
    return sum(len(tally.findings) for tally in tallies.values())


if __name__ == "__main__":
    sys.exit(main())
