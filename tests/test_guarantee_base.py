"""The trusted base stays small and alone. `python -m tests.test_guarantee_base` prints
it.
"""

import ast
import json
import sys

import pytest

from sweep.results import export_check
from tests.refusals import refused
from tests.structure import ROOT

BASE = [
    *(
        ROOT / f"trainables/dp/{name}.py"
        for name in (
            *("__init__", "clipping", "held_out", "mechanism", "noise", "per_record"),
            *("population", "sampling", "scaling", "seeding"),
        )
    ),
    *(
        ROOT / f"trainables/dp/accounting/{name}.py"
        for name in (
            *("allocation", "certification", "composition", "gaussian", "library"),
            *("pld", "releases", "renyi"),
        )
    ),
]
LIMIT = 2_150  # lines of code, of at most 88 characters
LIBRARIES = {
    *("torch", "numpy", "scipy", "mpmath", "dp_accounting", "cryptography"),
}
OURS = ("trainables.figures", "trainables.errors", "trainables.dp")


def code_lines(text):
    """Lines that are neither blank, nor a comment, nor of a docstring."""
    prose = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            prose |= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    lines = enumerate(text.splitlines(), 1)
    return sum(
        bool(line.strip()) and line.strip()[0] != "#" and n not in prose
        for n, line in lines
    )


def measured():
    """Lines of code of each file."""
    return {path.name: code_lines(path.read_text()) for path in BASE}


def imported(path):
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def test_a_line_of_code_is_no_prose():
    text = '"""One.\n\nTwo."""\n# why\nx = 1  # one\n\ndef f():\n    """None."""\n    return x\n'
    assert code_lines(text) == len(["x = 1", "def f():", "return x"])


def test_the_base_can_be_read_in_an_afternoon():
    assert sum(measured().values()) <= LIMIT


def test_the_base_imports_libraries_that_are_vetted_and_two_modules_of_ours():
    strange = {
        f"{path.name}: {name}"
        for path in BASE
        for name in imported(path)
        if name.split(".")[0] not in LIBRARIES | sys.stdlib_module_names
        and not name.startswith(OURS)
    }
    assert strange == set()


@pytest.mark.parametrize(
    ("name", "figures", "strange"),
    [
        ("about.json", {"ser": 0.1, "epsilon": 8.0}, None),
        ("signals.npz", {"ser": 0.1}, "signals.npz"),
        ("about.json", {"ser": 0.1, "mia_auc": 0.6}, "mia_auc"),
    ],
)
def test_what_is_not_on_the_list_does_not_leave(name, figures, strange, tmp_path):
    (tmp_path / "model").mkdir()
    (tmp_path / name).write_text("{}")
    (tmp_path / export_check.FIGURES).write_text(json.dumps(figures))
    if strange is None:
        export_check.refuse_others(tmp_path)
        return
    with refused(f"public figures and the model, got '{strange}'"):
        export_check.refuse_others(tmp_path)


if __name__ == "__main__":
    for name, lines in (each := measured()).items():
        print(f"{lines:5} {name}")
    print(f"{sum(each.values()):5} of at most {LIMIT}")
