"""Which test runs which line: found once, kept in `.mutants/`, and used to choose the tests.

A row holds for the text of the test's file and of the sources that it reached. After a change its
lines are no longer believed, and the test counts for every line of those sources.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import pytest

from .collected import collect, lines_run
from .forks import in_child
from .targets import ROOT, Target, targets, test_paths

FOLDER = ROOT / ".mutants"
_FILE = FOLDER / "reach.jsonl"
_MOST_ONCE = 2.0  # seconds
_SLOW = 12.0  # seconds of a test, watched; a slower one notices nothing here


@dataclass(frozen=True)
class Reach:
    """`seconds` of each test; `tests` by (file, line); `of_file` that run any line of a file;
    `loose` of those the ones whose lines are no longer known.
    """

    seconds: dict[str, float]
    tests: dict[tuple[str, int], frozenset[str]]
    of_file: dict[str, frozenset[str]]
    loose: dict[str, frozenset[str]]

    def of(self, file: str, lines: tuple[int, int], *, anywhere: bool) -> frozenset[str]:
        """The tests that run any of these lines of a file, or any line of it."""
        if anywhere:
            return self.of_file.get(file, frozenset())
        return self.loose.get(file, frozenset()).union(
            *(self.tests.get((file, line), frozenset()) for line in range(lines[0], lines[1] + 1))
        )


def watch(tests: Sequence[str] = (), *, only_new: bool = False, cases: int = 1_000_000) -> None:
    """Run every test, or those of some files and folders, once, each in a process of its own, and
    write what it reached.

    What was found for the same texts before is kept; with `only_new` all that was found. Of a
    parametrised test the first `cases` are run.
    """
    FOLDER.mkdir(exist_ok=True)
    sources = [target for target in targets() if not target.is_c]
    numbers = {str(target.path): number for number, target in enumerate(sources)}
    done = {row["test"] for row in _rows() if only_new or _holds(row)}

    def then(items: list[pytest.Item]) -> None:
        seen: Counter[str] = Counter()
        with _FILE.open("a", encoding="utf-8") as file:
            for number, item in enumerate(items):
                name = item.nodeid.partition("[")[0]
                seen[name] += 1
                if item.nodeid in done or seen[name] > cases:
                    continue
                found = in_child(
                    lambda item=item: lines_run(item, numbers), cpu_seconds=_SLOW, seconds=300
                )
                file.write(json.dumps(_row(item.nodeid, found, sources)) + "\n")
                file.flush()
                if number % 50 == 0:
                    print(f"{number} of {len(items)} tests", file=sys.stderr, flush=True)

    collect(tests or test_paths(), then)


def _row(name: str, found: Any, sources: list[Target]) -> dict[str, Any]:
    if isinstance(found, str) or found["failed"]:
        said = found if isinstance(found, str) else found["said"]
        return {"test": name, "problem": said, "texts": _texts(name, ())}
    lines = {sources[int(number)].name: rows for number, rows in found["lines"].items()}
    row = {"test": name, "seconds": round(found["seconds"], 3), "texts": _texts(name, lines)}
    return row | {"lines": lines}


def _texts(name: str, sources: Iterable[str]) -> str:
    """A hash of the texts that a row depends on."""
    return hashlib.sha256(
        b"".join(_digest(file) for file in (name.split("::")[0], *sorted(sources)))
    ).hexdigest()[:16]


@lru_cache(maxsize=1000)
def _digest(file: str) -> bytes:
    path = ROOT / file
    return hashlib.sha256(path.read_bytes() if path.exists() else b"").digest()


def _rows() -> list[dict[str, Any]]:
    """The last row of each test whose file there still is."""
    if not _FILE.exists():
        return []
    rows = map(json.loads, _FILE.read_text(encoding="utf-8").splitlines())
    last = {row["test"]: row for row in rows}
    return [row for test, row in last.items() if (ROOT / test.split("::")[0]).exists()]


def _holds(row: dict[str, Any]) -> bool:
    return bool(row["texts"] == _texts(row["test"], row.get("lines", ())))


def reach() -> Reach:
    """What `watch` found.

    Raises: SystemExit where it has not run.
    """
    tests: dict[tuple[str, int], set[str]] = defaultdict(set)
    of_file: dict[str, set[str]] = defaultdict(set)
    loose: dict[str, set[str]] = defaultdict(set)
    seconds = {}
    for row in _rows():
        if "problem" in row:
            continue
        seconds[row["test"]] = row["seconds"]
        holds = _holds(row)
        for file, lines in row["lines"].items():
            of_file[file].add(row["test"])
            if not holds:
                loose[file].add(row["test"])
            for line in lines if holds else ():
                tests[file, line].add(row["test"])
    # What a process pays once, for its first use of something, is in the seconds of each test.
    once: dict[str, float] = defaultdict(lambda: _MOST_ONCE)
    for name, took in seconds.items():
        file = name.partition("::")[0]
        once[file] = min(once[file], took)
    seconds = {name: took - 0.9 * once[name.partition("::")[0]] for name, took in seconds.items()}
    if not seconds:
        raise SystemExit("expected the tests' reach to be known, got none: run `watch` first")
    return Reach(
        seconds=seconds,
        tests={key: frozenset(names) for key, names in tests.items()},
        of_file={key: frozenset(names) for key, names in of_file.items()},
        loose={key: frozenset(names) for key, names in loose.items()},
    )
