"""Which test runs which line: found once, kept in `.mutants/`. A row holds for the text
of a test's file and of the sources that it reached; after a change the test counts for
every line of those.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections import Counter, defaultdict
from dataclasses import dataclass
from functools import lru_cache

from .collected import collect, lines_run
from .forks import in_child
from .targets import ROOT, TESTS, targets

FOLDER = ROOT / ".mutants"
_FILE = FOLDER / "reach.jsonl"
_MOST_ONCE = 2.0  # seconds
_SLOW = 12.0  # seconds of a test, watched; a slower one notices nothing here


@dataclass(frozen=True)
class Reach:
    """`seconds` of each test, `rows` of those that passed; lines are known where a row
    `holds`.
    """

    seconds: dict[str, float]
    rows: list[dict]

    def of(self, file, lines=range(0)):
        """The tests that run any of these lines of a file; without lines, any line of
        it.
        """
        return {
            row["test"]
            for row in self.rows
            if file in row["lines"]
            and not (lines and row["holds"] and row["lines"][file].isdisjoint(lines))
        }


def watch(tests=(), *, only_new=False, cases=1_000_000):
    """Run every test, or some files and folders, each in a process of its own, and
    write what it reached. What was found for the same texts is kept; with `only_new`
    all that was found.
    """
    FOLDER.mkdir(exist_ok=True)
    sources = {str(target.path): target.name for target in targets() if not target.is_c}
    done = {row["test"] for row in _rows() if only_new or _holds(row)}

    def then(items):
        seen = Counter()
        with _FILE.open("a", encoding="utf-8") as file:
            for number, item in enumerate(items):
                name = item.nodeid.partition("[")[0]
                seen[name] += 1
                if item.nodeid in done or seen[name] > cases:
                    continue
                found = in_child(
                    lambda item=item: lines_run(item, sources),
                    cpu_seconds=_SLOW,
                    seconds=300,
                )
                file.write(json.dumps(_row(item.nodeid, found)) + "\n")
                file.flush()
                if number % 50 == 0:
                    print(
                        f"{number} of {len(items)} tests", file=sys.stderr, flush=True
                    )

    collect(tests or TESTS, then)


def _row(name, found):
    if isinstance(found, str):  # why it is of no use
        return {"test": name, "problem": found, "texts": _texts(name, ())}
    lines, seconds = found
    return {
        "test": name, "seconds": round(seconds, 3), "texts": _texts(name, lines), "lines": lines
    }  # fmt: skip


def _texts(name, sources):
    """A hash of the texts that a row depends on."""
    return hashlib.sha256(
        b"".join(_digest(file) for file in (name.split("::")[0], *sorted(sources)))
    ).hexdigest()[:16]


@lru_cache(maxsize=1000)
def _digest(file):
    path = ROOT / file
    return hashlib.sha256(path.read_bytes() if path.exists() else b"").digest()


def _rows():
    """The last row of each test whose file there still is."""
    if not _FILE.exists():
        return []
    rows = map(json.loads, _FILE.read_text(encoding="utf-8").splitlines())
    last = {row["test"]: row for row in rows}
    return [row for test, row in last.items() if (ROOT / test.split("::")[0]).exists()]


def _holds(row):
    return row["texts"] == _texts(row["test"], row.get("lines", ()))


def reach():
    """What `watch` found; SystemExit where it has not run."""
    rows = [
        row
        | {
            "holds": _holds(row),
            "lines": {file: {*at} for file, at in row["lines"].items()},
        }
        for row in _rows()
        if "problem" not in row
    ]
    if not rows:
        raise SystemExit(
            "expected the tests' reach to be known, got none: run `watch` first"
        )
    # What a process pays once, for its first use of something, is in the seconds of
    # each test.
    once = defaultdict(lambda: _MOST_ONCE)
    for row in rows:
        file = row["test"].partition("::")[0]
        once[file] = min(once[file], row["seconds"])
    seconds = {
        row["test"]: row["seconds"] - 0.9 * once[row["test"].partition("::")[0]]
        for row in rows
    }
    return Reach(seconds, rows)
