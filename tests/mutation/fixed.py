"""A hundred fixed mutants and some to spare, each against the one test that detects
it.
"""

from __future__ import annotations

import json
import time
from pathlib import Path

from .reach import Reach
from .runs import Runner, all_mutants, sample

FILE = Path(__file__).with_name("fixed.json")
_KEPT, WANTED = 130, 100
_SLOWEST = 3.0  # seconds of a mutant, as it was measured


def choose(rows, *, seed):
    """Write the list anew from rows of a run, less what no test detects today; its
    length.
    """
    living = {mutant.key: mutant for mutant in all_mutants() if not mutant.at_import}
    known = {
        row["key"]: row["by"]
        for row in rows
        if row["outcome"] == "killed" and "::" in row.get("by", "")
        if row["seconds"] <= _SLOWEST and row["key"] in living
    }
    chosen = sample([living[key] for key in known], count=_KEPT, seed=seed)
    known = {mutant.key: known[mutant.key] for mutant in chosen}
    known = dict(sorted(known.items(), key=lambda each: each[::-1]))
    _write(known)
    killed = {row["key"] for row in run_fixed() if row["outcome"] == "killed"}
    _write({key: by for key, by in known.items() if key in killed})
    return len(killed)


def _write(known):
    FILE.write_text(
        json.dumps(known, indent=0, ensure_ascii=False) + "\n", encoding="utf-8"
    )


def run_fixed():
    """The rows of all in the list that the sources still have, and are thus put in."""
    known = json.loads(FILE.read_text(encoding="utf-8"))
    chosen = [mutant for mutant in all_mutants() if mutant.key in known]
    rows = []
    Runner(Reach({}, []), rows.append, 1.0, time.monotonic() + 3_600, known).run(chosen)
    return rows
