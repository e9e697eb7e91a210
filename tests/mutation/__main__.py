"""The command line: `watch` which test reaches what, `run` mutants, the `fixed`
ones.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

from .fixed import choose, run_fixed
from .operators import KINDS
from .reach import FOLDER, reach, watch
from .reviewed import review_of, sorted_out
from .runs import Runner, all_mutants, append_to, rows, sample
from .targets import ROOT

_RESULTS = FOLDER / "results.jsonl"


def main():
    """Parse and do."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.mutation", description=__doc__
    )
    jobs = parser.add_subparsers(dest="job", required=True)
    watching = jobs.add_parser(
        "watch", help="find which test reaches which line (minutes; kept)"
    )
    watching.add_argument(
        "tests", nargs="*", help="files and folders; by default all of them"
    )
    watching.add_argument(
        "--only-new", action="store_true", help="tests never watched alone"
    )
    watching.add_argument(
        "--cases", type=int, default=1_000_000, help="of a parametrised test"
    )
    run = jobs.add_parser("run", help="run a sample of the mutants")
    run.add_argument("--minutes", type=float, default=10.0)
    run.add_argument("--count", type=int, default=100_000, help="at most so many")
    run.add_argument("--seed", type=int, default=0, help="of the sample")
    run.add_argument(
        "--budget", type=float, default=40.0, help="seconds of tests for a mutant"
    )
    run.add_argument("--file", default="", help="only sources whose name contains this")
    run.add_argument(
        "--since", default="", help="only sources changed since this commit"
    )
    run.add_argument(
        "--shares",
        action="store_true",
        help="of each folder its share of the mutants, not as many of each",
    )
    run.add_argument("--slips", action="store_true", help="also those of no kind")
    run.add_argument(
        "--only", choices=["live", "import"], help="mutants in functions, or others"
    )
    run.add_argument(
        "--survivors", action="store_true", help="run those that survived once more"
    )
    jobs.add_parser("fixed", help="run the hundred of the tests; one line of JSON")
    choose_ = jobs.add_parser(
        "choose", help="choose the hundred anew from the results of runs"
    )
    choose_.add_argument("--seed", type=int, default=0)
    for job in jobs.choices.values():
        job.add_argument("--results", type=Path, default=_RESULTS)
    given = parser.parse_args()
    if given.job == "watch":
        watch(given.tests, only_new=given.only_new, cases=given.cases)
    elif given.job == "run":
        _run(given)
    elif given.job == "fixed":
        print(json.dumps(run_fixed()))
    else:
        print(choose(rows(given.results), seed=given.seed))


def _run(given):
    done = {row["key"]: row for row in rows(given.results)}
    settled = ("killed", "same code")
    again = {
        key
        for key, row in done.items()
        if row["outcome"] not in settled and not review_of(row)
    }
    chosen = [mutant for mutant in all_mutants() if given.file in mutant.file]
    if not given.slips:
        chosen = [mutant for mutant in chosen if mutant.operator in KINDS]
    if given.since:
        command = [
            "git",
            "diff",
            "--name-only",
            given.since,
            "--",
            "trainables",
            "sweep",
        ]
        changed = subprocess.run(
            command, cwd=ROOT, check=True, capture_output=True, text=True
        )
        chosen = [mutant for mutant in chosen if mutant.file in changed.stdout.split()]
    if given.only:
        chosen = [
            mutant for mutant in chosen if mutant.at_import == (given.only == "import")
        ]
    if given.survivors:
        chosen = [mutant for mutant in chosen if mutant.key in again]
        chosen = [
            replace(m, at_import=True) if done[m.key]["outcome"] == "not live" else m
            for m in chosen
        ]
    else:
        chosen = [mutant for mutant in chosen if mutant.key not in done]
        chosen = sample(
            chosen, count=given.count, seed=given.seed, by_share=given.shares
        )
    until = time.monotonic() + 60 * given.minutes
    say = append_to(given.results)
    Runner(reach(), say, given.budget, until).run(chosen)
    print("killed / that change a result, by kind and by folder")
    found = sorted_out(rows(given.results))
    for part in (
        lambda row: row["operator"],
        lambda row: row["file"].rpartition("/")[0],
    ):
        died, lived = (
            Counter(map(part, found[name])) for name in ("killed", "survived")
        )
        for name in sorted(died + lived):
            print(f"{died[name]:5} / {died[name] + lived[name]:<5}{name}")
    killed, survived = len(found["killed"]), len(found["survived"])
    print(
        f"{killed:5} / {killed + survived:<5}all,"
        f" {killed / max(1, killed + survived):.1%}"
    )


if __name__ == "__main__":
    main()
