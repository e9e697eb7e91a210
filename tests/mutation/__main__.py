"""The command line: `watch` which test reaches what, `run` mutants, the `fixed` ones, the `doc`."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

from .doc import reason_of, write_doc
from .fixed import choose, run_fixed
from .reach import FOLDER, reach, watch
from .runs import Runner, all_mutants, append_to, rows, sample
from .targets import ROOT

_RESULTS = FOLDER / "results.jsonl"


def main() -> None:
    """Parse and do."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__)
    jobs = parser.add_subparsers(dest="job", required=True)
    watching = jobs.add_parser("watch", help="find which test reaches which line (minutes; kept)")
    watching.add_argument("--only-new", action="store_true", help="tests never watched alone")
    watching.add_argument("--cases", type=int, default=1_000_000, help="of a parametrised test")
    run = jobs.add_parser("run", help="run a sample of the mutants")
    run.add_argument("--minutes", type=float, default=10.0)
    run.add_argument("--count", type=int, default=100_000, help="at most so many")
    run.add_argument("--seed", type=int, default=0, help="of the sample")
    run.add_argument("--budget", type=float, default=12.0, help="seconds of tests for a mutant")
    run.add_argument("--file", default="", help="only sources whose name contains this")
    run.add_argument("--since", default="", help="only sources changed since this commit")
    run.add_argument("--only", choices=["live", "import"], help="mutants in functions, or others")
    run.add_argument("--survivors", action="store_true", help="run those that survived once more")
    jobs.add_parser("fixed", help="run the hundred of the tests; one line of JSON")
    choose_ = jobs.add_parser("choose", help="choose the hundred anew from the results of runs")
    choose_.add_argument("--seed", type=int, default=0)
    jobs.add_parser("doc", help="write docs/notes/mutants.md from the results of runs")
    for job in jobs.choices.values():
        job.add_argument("--results", type=Path, default=_RESULTS)
    given = parser.parse_args()
    if given.job == "watch":
        watch(only_new=given.only_new, cases=given.cases)
    elif given.job == "run":
        _run(given)
    elif given.job == "fixed":
        print(json.dumps(run_fixed()))
    elif given.job == "choose":
        print(choose(rows(given.results), seed=given.seed))
    else:
        write_doc(list(rows(given.results)))


def _run(given: argparse.Namespace) -> None:
    done = {row["key"]: row for row in rows(given.results)}
    settled = ("killed", "same code")
    again = {
        key for key, row in done.items() if row["outcome"] not in settled and not reason_of(row)
    }
    chosen = sample(all_mutants(), count=given.count, seed=given.seed)
    chosen = [mutant for mutant in chosen if given.file in mutant.file]
    if given.since:
        command = ["git", "diff", "--name-only", given.since, "--", "trainables", "sweep"]
        changed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
        chosen = [mutant for mutant in chosen if mutant.file in changed.stdout.split()]
    if given.only:
        chosen = [mutant for mutant in chosen if mutant.at_import == (given.only == "import")]
    if given.survivors:
        chosen = [mutant for mutant in chosen if mutant.key in again]
        chosen = [
            replace(m, at_import=True) if done[m.key]["outcome"] == "not live" else m
            for m in chosen
        ]
    else:
        chosen = [mutant for mutant in chosen if mutant.key not in done]
    until = time.monotonic() + 60 * given.minutes
    say = append_to(given.results)
    Runner(reach(), say, given.budget, until, newest_first=given.survivors).run(chosen)
    count = Counter(row["outcome"] for row in rows(given.results))
    print(", ".join(f"{number} {name}" for name, number in count.most_common()), file=sys.stderr)


if __name__ == "__main__":
    main()
