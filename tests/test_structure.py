"""The limits on the shape of the source. `python -m tests.structure` prints the figures."""

from __future__ import annotations

import ast
from collections import Counter

import pytest

from tests.structure import ROOT, Structure, _functions, _names, measure, percentile

MODULES_IN_A_FOLDER = 20
COMMANDS = "sweep/commands"  # a shelf: one file a command


@pytest.fixture(scope="module")
def structure() -> Structure:
    return measure()


def test_no_folder_holds_over_twenty_modules(structure: Structure) -> None:
    over = {f: n for f, n in structure.modules_by_folder.items() if n > MODULES_IN_A_FOLDER}
    assert set(over) <= {COMMANDS}


def test_benchmarks_keep_the_same_limits() -> None:
    files = sorted((ROOT / "benchmarks").rglob("*.py"))
    functions = [f for file in files for f in _functions(file.name, ast.parse(file.read_text()))]
    assert max(Counter(file.parent for file in files).values()) <= MODULES_IN_A_FOLDER
    assert {f.place: f.lines for f in functions if f.lines > 60} == {}


def test_modules_are_small(structure: Structure) -> None:
    sizes = list(structure.module_lines.values())
    assert percentile(sizes, 50) <= 110
    assert percentile(sizes, 90) <= 250
    assert {name: n for name, n in structure.module_lines.items() if n > 400} == {}


def test_functions_are_short(structure: Structure) -> None:
    assert {f.place: f.lines for f in structure.functions if f.lines > 60} == {}
    assert percentile([f.lines for f in structure.functions], 95) <= 35


def test_an_engine_is_named_in_its_own_file_alone(structure: Structure) -> None:
    assert structure.modules_naming_an_engine == []


def test_imports_are_held_by_contracts(structure: Structure) -> None:
    assert structure.import_contracts >= 5


@pytest.mark.parametrize(
    ("code", "names"),
    [
        ('"""The default is dp_sgd."""\n', False),
        ("engine = 'dp_sgd'\n", True),
        ("message = f'{value}: dp_sgd takes one'\n", True),
        ("engine = 'edp_sgd'\n", False),
        ("from trainables.engines.dp_sgd import make\n", True),
        ("from trainables.engines import dp_sgd\n", True),
    ],
)
def test_what_names_an_engine(code: str, names: bool) -> None:
    assert _names(ast.parse(code), "dp_sgd") is names


def test_percentile_is_the_nearest_rank() -> None:
    assert percentile([5, 1, 4, 2, 3], 50) == 3
    assert percentile(list(range(1, 11)), 90) == 9
    assert percentile([7], 95) == 7


def test_no_two_test_modules_have_one_name() -> None:
    """Folders of tests are no packages, so pytest collects only one of them."""
    names = Counter(file.name for file in (ROOT / "tests").rglob("test_*.py"))
    assert [name for name, number in names.items() if number > 1] == []
