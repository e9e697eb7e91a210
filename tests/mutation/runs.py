"""Mutants, one after another: each in a fork, against the tests that reach it, until one fails."""

from __future__ import annotations

import gc
import hashlib
import importlib
import json
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from .c_sources import CMutant, c_mutants_of
from .collected import collect, first_failure, first_failure_of
from .faulty import changes_code, import_with, live_functions, put_into, read_with
from .forks import in_child
from .operators import Mutant, mutants_of
from .reach import Reach
from .targets import targets

# The Python file through which a C source is used.
_USED_BY = {
    "trainables/layers/_dropout.c": "trainables/layers/dropout.py",
    "trainables/layers/_gram.c": "trainables/layers/gram.py",
    "trainables/privacy/_box_muller.c": "trainables/privacy/box_muller.py",
}
_LEAST_TESTS = 3
_BASE = ("tests/privacy/", "tests/accountants/", "tests/engines/test_sampling.py")
_NOT_LIVE = "not live"  # to be put under the import instead


def all_mutants() -> list[Mutant | CMutant]:
    """Every mutant of every target, in the order of the files."""
    found: list[Mutant | CMutant] = []
    for target in targets():
        source = target.path.read_text(encoding="utf-8")
        found += (
            c_mutants_of(source, target.name) if target.is_c else mutants_of(source, target.name)
        )
    return found


def sample(mutants: Sequence[Mutant | CMutant], *, count: int, seed: int) -> list[Mutant | CMutant]:
    """`count` of them, as many of each operator and folder, in an order that the seed fixes."""

    def place(mutant: Mutant | CMutant) -> bytes:
        return hashlib.sha256(f"{seed}/{mutant.key}".encode()).digest()

    turns: Counter[tuple[str, str]] = Counter()

    def turn(mutant: Mutant | CMutant) -> int:
        cell = mutant.operator, mutant.file.rpartition("/")[0]
        turns[cell] += 1
        return turns[cell]

    return sorted(sorted(mutants, key=place), key=turn)[:count]


@dataclass
class Runner:
    """Runs mutants against tests; `say` gets one row of plain data for each."""

    reach: Reach
    say: Callable[[dict[str, Any]], None]
    budget: float  # seconds of tests for one mutant
    until: float  # of time.monotonic()
    known: Mapping[str, str] = field(default_factory=dict)  # the test that notices a mutant
    _kills: Counter[tuple[str, str]] = field(default_factory=Counter)

    def run(self, mutants: Sequence[Mutant | CMutant]) -> None:
        """Those that run at import first: their forks must not have imported anything of ours."""
        _import_libraries()
        for mutant in mutants:
            if mutant.at_import:
                self._one(mutant, {})
        rest = [mutant for mutant in mutants if not mutant.at_import]
        chosen = {name for mutant in rest for name in self._tests(mutant)[0]}
        if not chosen:
            for mutant in rest:
                self._one(mutant, {})
            return

        def then(items: list[pytest.Item]) -> None:
            by_name = {item.nodeid: item for item in items}
            for target in targets():
                if not target.is_c:  # entries of shelves are imported by their use alone
                    importlib.import_module(target.module)
            functions = live_functions(targets())
            gc.freeze()  # what is here is shared with the children
            for mutant in rest:
                self._one(mutant, by_name, functions)

        collect(sorted({name.split("::")[0] for name in chosen}), then)

    def _one(self, mutant: Mutant | CMutant, items: dict[str, Any], functions: Any = None) -> None:
        if time.monotonic() > self.until:
            return
        names, cut = self._tests(mutant)
        names = names if mutant.at_import else [name for name in names if name in items]
        began = time.monotonic()
        row = {
            "key": mutant.key, "file": mutant.file, "where": mutant.where,
            "operator": mutant.operator, "before": mutant.before, "after": mutant.after,
            "line": mutant.lines[0], "tests": len(names), "cut": cut,
        }  # fmt: skip
        if isinstance(mutant, Mutant) and not changes_code(mutant):
            row |= {"outcome": "same code"}
        else:
            found = (
                self._outcome(mutant, names, items, functions) if names else {"outcome": "no test"}
            )
            if found["outcome"] in ("survived", "no test") and (more := self._cases(mutant, items)):
                found = self._outcome(mutant, more, items, functions)
            row |= found
        if row.get("by"):
            self._kills[mutant.file, row["by"]] += 1
            self._kills[mutant.where, row["by"]] += 1
        self.say(row | {"seconds": round(time.monotonic() - began, 1)})

    def _outcome(
        self, mutant: Mutant | CMutant, names: list[str], items: dict[str, Any], functions: Any
    ) -> dict[str, Any]:
        takes = sum(self.reach.seconds.get(name, 5.0) for name in names)

        def live() -> Any:
            assert isinstance(mutant, Mutant)
            try:
                put = put_into(functions[mutant.file], mutant)
            except ValueError:
                put = False  # it closes over other names
            return first_failure([items[name] for name in names]) if put else [_NOT_LIVE, ""]

        def bare() -> Any:
            return _bare(mutant, names)

        if mutant.at_import:
            found = in_child(bare, cpu_seconds=3 * takes + 60, seconds=600)
        else:
            found = in_child(live, cpu_seconds=3 * takes + 16, seconds=600)
            if found[0] == _NOT_LIVE:
                return {"outcome": _NOT_LIVE}
        if isinstance(found, str):
            return {"outcome": "killed", "how": found}
        failed, said = found
        if failed is None:
            return {"outcome": "survived"}
        return {"outcome": "killed", "by": failed, "how": said.strip().splitlines()[-1:]}

    def _tests(self, mutant: Mutant | CMutant) -> tuple[list[str], bool]:
        """The tests that reach a mutant, likely ones first; whether some were left out."""
        if mutant.key in self.known:
            return [self.known[mutant.key]], True
        folder, near = _near(mutant)
        if isinstance(mutant, CMutant):
            names = self.reach.of(_USED_BY[mutant.file], (0, 0), anywhere=True)
        else:
            names = self.reach.of(mutant.file, mutant.lines, anywhere=False)
        if mutant.at_import and not names:  # what runs at import is in no test's reach
            names = self.reach.of(mutant.file, mutant.lines, anywhere=True) or frozenset(
                name for name in self.reach.seconds if f"test_{folder}.py" in name
            )
        if mutant.at_import:  # a new process imports every file of tests: seconds each
            names = frozenset(name for name in names if name.startswith(near)) or names

        def rank(name: str) -> tuple[bool, float]:  # as many as the budget has room for
            return not name.startswith(near), self.reach.seconds[name]

        def kills(name: str) -> tuple[int, int]:
            return self._kills[mutant.where, name], self._kills[mutant.file, name]

        chosen, left = [], self.budget
        for name in sorted(names, key=rank):
            if self.reach.seconds[name] <= left or len(chosen) < _LEAST_TESTS:
                left -= self.reach.seconds[name]
                chosen.append(name)
        return sorted(chosen, key=kills, reverse=True), len(chosen) < len(names)

    def _cases(self, mutant: Mutant | CMutant, items: dict[str, Any]) -> list[str]:
        """Cases of the tests that reach the file or are of its folder: few of each were watched."""
        _, near = _near(mutant)
        reached = self.reach.of(mutant.file, (0, 0), anywhere=True)
        tests = {
            name.partition("[")[0]: seconds
            for name, seconds in self.reach.seconds.items()
            if "[" in name and (name in reached or name.startswith(near))
        }
        chosen, left = [], self.budget
        for name in sorted(items, key=lambda name: not name.startswith(near)):
            seconds = tests.get(name.partition("[")[0])
            if seconds is not None and name not in self.reach.seconds and left > 0:
                chosen.append(name)
                left -= seconds
        return chosen


def _near(mutant: Mutant | CMutant) -> tuple[str, tuple[str, ...]]:
    """A mutant's folder, and how the names of its own tests begin."""
    folder = mutant.file.rsplit("/", 1)[0].removeprefix("trainables/")
    return folder, (f"tests/{folder}/", mutant.file, *(_BASE if folder == "guarantee" else ()))


def _import_libraries() -> None:
    """What takes seconds to import and is not ours, before anything is forked."""
    names = "cryptography.hazmat.primitives.ciphers optuna pandas pydantic scipy.stats"
    for name in (*names.split(), "torch", "transformers"):
        importlib.import_module(name)


def _bare(mutant: Mutant | CMutant, names: Sequence[str]) -> tuple[str | None, str]:
    if isinstance(mutant, Mutant):
        import_with(mutant)
        return first_failure_of(names)
    with tempfile.TemporaryDirectory() as folder:  # of the libraries that are built
        os.environ["XDG_CACHE_HOME"] = folder
        read_with(mutant)
        if not _is_used(mutant):
            return "its comparison before use", "other bits than the Python form's"
        return first_failure_of(names)


def _is_used(mutant: CMutant) -> bool:
    """Whether what is built of the source passes the comparison with its Python form."""
    from trainables.layers import dropout, gram
    from trainables.privacy import box_muller

    if "dropout" in mutant.file:
        return dropout._native_factors() is not None
    if "gram" in mutant.file:
        return gram._native_norms() is not None
    return box_muller._native_normals() is not None


def append_to(path: Path) -> Callable[[dict[str, Any]], None]:
    """Writes rows to a file of JSON lines as they come, and shows them."""
    path.parent.mkdir(exist_ok=True)

    def say(row: dict[str, Any]) -> None:
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
        if row["outcome"] not in ("killed", "same code"):
            where = f"{row['file']}:{row['line']} {row['where']}"
            change = f"{row['before'][:90]} -> {row['after'][:90]}"
            print(f"{row['outcome']}: {where}: {row['operator']}: {change}", file=sys.stderr)

    return say


def rows(path: Path) -> Iterator[dict[str, Any]]:
    """The rows of a file, the last of each mutant."""
    found = {}
    if path.exists():
        for line in path.read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            found[row["key"]] = row
    return iter(found.values())
