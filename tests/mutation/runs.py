"""Mutants, one after another: each in a fork, against the tests that reach it, until
one fails.
"""

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
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from .c_sources import CMutant, c_mutants_of
from .collected import collect, first_failure, first_failure_of
from .faulty import changes_code, import_with, live_functions, put_into, read_with
from .forks import in_child
from .operators import mutants_of
from .reach import Reach
from .targets import Target, targets

# The Python file through which a C source is used, and what compares it with its Python
# form.
_USED_BY = {
    "trainables/dp/layers/_dropout.c": (
        "trainables/dp/layers/dropout.py",
        "_native_factors",
    ),
    "trainables/dp/layers/_gram.c": ("trainables/dp/layers/gram.py", "_native_norms"),
    "trainables/dp/_box_muller.c": ("trainables/dp/box_muller.py", "_native_normals"),
}
_LEAST_TESTS = 3
_LONGEST = 600  # seconds on the clock, of the tests of one mutant
# Where the tests of a folder of sources are, other than under the folder's own name. A
# folder has those of the longest name that it begins with.
_TESTED_IN = {
    "trainables": ("cards", "attacks"),
    "trainables/dp": ("privacy", "engines", "accountants"),
    "trainables/dp/accounting": ("accountants", "privacy"),
    "trainables/dp/audit": ("attacks", "privacy"),
    "trainables/dp/engines": ("engines", "whole_trial"),
    "trainables/dp/layers": ("layers", "engines", "whole_trial"),
    "trainables/dp/learning_rates": ("optimizers", "privacy"),
    "trainables/dp/optimizers": ("optimizers", "engines"),
    "trainables/dp/schedules": ("privacy", "accountants"),
    "trainables/models": ("models", "whole_trial"),
}


def all_mutants():
    found = []
    for target in targets():
        source = target.path.read_text(encoding="utf-8")
        found += (
            c_mutants_of(source, target.name)
            if target.is_c
            else mutants_of(source, target.name)
        )
    return found


def sample(mutants, *, count, seed, by_share=False):
    """`count` of them, as many of each operator and folder, in an order that the seed
    fixes; with `by_share`, of each folder its share of all, to which the operators
    contribute in turn.
    """

    def place(mutant):
        return hashlib.sha256(f"{seed}/{mutant.key}".encode()).digest()

    turns = Counter()

    def turn(mutant):
        cell = mutant.operator, _folder(mutant)
        turns[cell] += 1
        return turns[cell]

    def share(mutant):
        turns[_folder(mutant)] += 1
        return (turns[_folder(mutant)] - 0.5) / sizes[_folder(mutant)]

    found = sorted(sorted(mutants, key=place), key=turn)
    if by_share:
        sizes = Counter(_folder(mutant) for mutant in found)
        turns = Counter()
        found.sort(key=share)
    return found[:count]


def _folder(mutant):
    return mutant.file.rpartition("/")[0]


@dataclass
class Runner:
    """Runs mutants against tests; `say` gets one row of plain data for each."""

    reach: Reach
    say: Callable[[dict[str, Any]], None]
    budget: float  # seconds of tests for one mutant
    until: float  # of time.monotonic()
    known: Mapping[str, str] = field(
        default_factory=dict
    )  # the test that notices a mutant
    _kills: Counter[tuple[str, str]] = field(default_factory=Counter)

    def run(self, mutants):
        """Those that run at import first: their forks must not have imported anything
        of ours.
        """
        _import_libraries()
        for mutant in mutants:
            if mutant.at_import:
                self._one(mutant, {})
        rest = [mutant for mutant in mutants if not mutant.at_import]
        chosen = {name for mutant in rest for name in self._tests(mutant)[0]}

        def then(items):
            by_name = {item.nodeid: item for item in items}
            for target in targets():
                if (
                    not target.is_c
                ):  # entries of shelves are imported by their use alone
                    importlib.import_module(target.module)
            functions = live_functions(targets())
            gc.freeze()  # what is here is shared with the children
            for mutant in rest:
                self._one(mutant, by_name, functions)

        if chosen:
            collect(sorted({name.split("::")[0] for name in chosen}), then)
        else:
            then([])

    def _one(self, mutant, items, functions=None):
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
        if not isinstance(mutant, CMutant) and not changes_code(mutant):
            row |= {"outcome": "same code"}
        else:
            row |= {"outcome": "no test"}
            for chosen in (names, self._cases(mutant, items)):
                if chosen and row["outcome"] in ("survived", "no test"):
                    row |= self._outcome(mutant, chosen, items, functions)
        if row.get("by"):
            self._kills[mutant.file, row["by"]] += 1
            self._kills[mutant.where, row["by"]] += 1
        self.say(row | {"seconds": round(time.monotonic() - began, 1)})

    def _outcome(self, mutant, names, items, functions):
        takes = sum(self.reach.seconds.get(name, 5.0) for name in names)

        if mutant.at_import:
            work, more = partial(_bare, mutant, names), 60
            original = partial(first_failure_of, names)
        else:
            chosen = [items[name] for name in names]
            work, more = partial(_live, mutant, functions[mutant.file], chosen), 16
            original = partial(first_failure, chosen)
        limits = {"cpu_seconds": 3 * takes + more, "seconds": _LONGEST}
        found = in_child(work, **limits)
        if found is None:
            return {"outcome": "not live"}  # to be put under the import instead
        if isinstance(found, str):
            # No kill where the sources as they are end in the same way, or nearly.
            limits["seconds"] = _LONGEST / 3
            passes = in_child(original, **limits) == (None, "")
            return {"outcome": "killed" if passes else "undecided", "how": found}
        failed, said = found
        if failed is None:
            return {"outcome": "survived"}
        return {
            "outcome": "killed",
            "by": failed,
            "how": said.strip().splitlines()[-1:],
        }

    def _tests(self, mutant):
        """The tests that reach a mutant, likely ones first; whether some were left
        out.
        """
        if mutant.key in self.known:
            return [self.known[mutant.key]], True
        near = _near(mutant)
        if isinstance(mutant, CMutant):
            names = self.reach.of(_USED_BY[mutant.file][0])
        else:
            first, last = mutant.lines
            names = self.reach.of(mutant.file, range(first, last + 1))
        if mutant.at_import and not names:  # what runs at import is in no test's reach
            names = self.reach.of(mutant.file)
        if mutant.at_import:  # a new process imports every file of tests: seconds each
            names = [name for name in names if name.startswith(near)] or names

        def rank(name):  # as many as the budget has room for
            return not name.startswith(near), self.reach.seconds[name]

        def kills(name):
            return self._kills[mutant.where, name], self._kills[mutant.file, name]

        chosen, left = [], self.budget
        for name in sorted(names, key=rank):
            if self.reach.seconds[name] <= left or len(chosen) < _LEAST_TESTS:
                left -= self.reach.seconds[name]
                chosen.append(name)
        return sorted(chosen, key=kills, reverse=True), len(chosen) < len(names)

    def _cases(self, mutant, items):
        """Cases of the tests that reach the file or are of its folder: few of each were
        watched.
        """
        near = _near(mutant)
        reached = self.reach.of(mutant.file)
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


def _near(mutant):
    """How the names of a mutant's own tests begin."""
    folder = _folder(mutant)
    named = [name for name in _TESTED_IN if f"{folder}/".startswith(f"{name}/")]
    tests = _TESTED_IN[max(named, key=len)] if named else ()
    own = folder.removeprefix("trainables/")
    return (*(f"tests/{each}/" for each in (own, *tests)), mutant.file)


def _import_libraries():
    """What takes seconds to import and is not ours, before anything is forked."""
    names = "cryptography.hazmat.primitives.ciphers optuna pandas pydantic scipy.stats"
    for name in (*names.split(), "torch", "transformers"):
        importlib.import_module(name)


def _live(mutant, functions, items):
    try:
        put = put_into(functions, mutant)
    except ValueError:
        put = False  # it closes over other names
    return first_failure(items) if put else None


def _bare(mutant, names):
    if not isinstance(mutant, CMutant):
        import_with(mutant)
        return first_failure_of(names)
    with tempfile.TemporaryDirectory() as folder:  # of the libraries that are built
        os.environ["XDG_CACHE_HOME"] = folder
        read_with(mutant)
        user, compared = _USED_BY[mutant.file]
        if getattr(importlib.import_module(Target(user).module), compared)() is None:
            return "its comparison before use", "other bits than the Python form's"
        return first_failure_of(names)


def append_to(path):
    """Writes rows to a file of JSON lines as they come, and shows them."""
    path.parent.mkdir(exist_ok=True)

    def say(row):
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
        if row["outcome"] not in ("killed", "same code"):
            where = f"{row['file']}:{row['line']} {row['where']}"
            change = f"{row['before'][:90]} -> {row['after'][:90]}"
            print(
                f"{row['outcome']}: {where}: {row['operator']}: {change}",
                file=sys.stderr,
            )

    return say


def rows(path):
    """The rows of a file, the last of each mutant."""
    found = {}
    if path.exists():
        for line in path.read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            found[row["key"]] = row
    return found.values()
