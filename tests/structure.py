"""The shape of the source in figures: `python -m tests.structure [--rev REV] [--json]`.

It reads Python files (of the working tree, or of a git revision) and needs nothing but Python and
git. `tests/test_structure.py` holds the limits.
"""

from __future__ import annotations

import argparse
import ast
import json
import re
import subprocess
import tomllib
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from math import ceil
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
HOUSES = ("sweep", "trainables", "search_spaces", "dashboards")
ENGINES = "trainables/engines"
# Generated text and parsing, whose lines are counted apart too.
APART = re.compile(r"synthesis|synthesize|generation|pars(e|ing)|lispress|linearise|causal_lm")


@dataclass(frozen=True)
class Function:
    """A function or method and the lines from its `def` to its end."""

    place: str
    lines: int


@dataclass(frozen=True)
class Structure:
    """Figures of one state of the source. Lines are lines of files, blank ones included."""

    source_lines: int
    source_lines_without_synthesis_and_parsing: int
    test_lines: int
    modules_by_folder: dict[str, int]
    module_lines: dict[str, int]
    functions: list[Function]
    import_contracts: int
    modules_naming_an_engine: list[str]

    def figures(self) -> dict[str, object]:
        """What is printed: counts, medians and percentiles, and the names of what is over a limit.

        `modules_by_folder` lists folders of more than twenty modules."""
        modules, functions = list(self.module_lines.values()), [f.lines for f in self.functions]
        largest = max(self.module_lines, key=lambda name: self.module_lines[name])
        return {
            "source_lines": self.source_lines,
            "source_lines_without_synthesis_and_parsing": (
                self.source_lines_without_synthesis_and_parsing
            ),
            "test_lines": self.test_lines,
            "modules": len(modules),
            "module_median": percentile(modules, 50),
            "module_p90": percentile(modules, 90),
            "module_largest": f"{largest} ({self.module_lines[largest]})",
            "folders_over_20_modules": {
                name: count for name, count in self.modules_by_folder.items() if count > 20
            },
            "functions": len(functions),
            "function_p95": percentile(functions, 95),
            "functions_over_60": {f.place: f.lines for f in self.functions if f.lines > 60},
            "import_contracts": self.import_contracts,
            "modules_naming_an_engine": self.modules_naming_an_engine,
        }


def percentile(values: list[int], percent: int) -> int:
    """The smallest value that at least `percent` percent of the values do not exceed."""
    return sorted(values)[ceil(len(values) * percent / 100) - 1]


def measure(rev: str | None = None) -> Structure:
    """Measure the working tree, or a git revision."""
    texts = dict(_texts(rev))
    source = {path: text for path, text in texts.items() if path.split("/")[0] in HOUSES}
    trees = {path: ast.parse(text) for path, text in source.items()}
    # A package's `__init__.py` is the folder, not a module in it; its lines count.
    modules = {
        path: len(text.splitlines())
        for path, text in source.items()
        if not path.endswith("/__init__.py")
    }
    engines = [Path(p).stem for p in source if p.startswith(f"{ENGINES}/") and "/_" not in p]
    return Structure(
        source_lines=sum(len(text.splitlines()) for text in source.values()),
        source_lines_without_synthesis_and_parsing=sum(
            len(text.splitlines()) for path, text in source.items() if not APART.search(path)
        ),
        test_lines=sum(len(t.splitlines()) for p, t in texts.items() if p.startswith("tests/")),
        modules_by_folder=dict(Counter(str(Path(path).parent) for path in modules)),
        module_lines=modules,
        functions=[f for path, tree in trees.items() for f in _functions(path, tree)],
        import_contracts=_contracts(rev),
        modules_naming_an_engine=sorted(
            path
            for path, tree in trees.items()
            if any(path != f"{ENGINES}/{name}.py" and _names(tree, name) for name in engines)
        ),
    )


def _texts(rev: str | None) -> Iterator[tuple[str, str]]:
    folders = [*HOUSES, "tests"]
    if rev is None:
        # `git ls-files` would miss a new file; a checkout holds no other Python in these folders.
        for path in sorted(p for folder in folders for p in (ROOT / folder).rglob("*.py")):
            yield path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8")
        return
    for name in _git("ls-tree", "-r", "--name-only", rev, "--", *folders).splitlines():
        if name.endswith(".py"):
            yield name, _git("show", f"{rev}:{name}")


def _git(*words: str) -> str:
    return subprocess.run(
        ["git", *words], cwd=ROOT, check=True, capture_output=True, encoding="utf-8"
    ).stdout


def _contracts(rev: str | None) -> int:
    text = (
        (ROOT / "pyproject.toml").read_text(encoding="utf-8")
        if rev is None
        else _git("show", f"{rev}:pyproject.toml")
    )
    importlinter = tomllib.loads(text).get("tool", {}).get("importlinter", {})
    return len(importlinter.get("contracts", []))


def _functions(path: str, tree: ast.Module) -> Iterator[Function]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno:
            yield Function(f"{path}:{node.name}", node.end_lineno - node.lineno + 1)


def _names(tree: ast.Module, engine: str) -> bool:
    """Whether code (no docstring, no comment) imports an engine's module or spells its name.

    A string counts where the name is a word of it, unless it is a longer engine's name."""
    word = re.compile(rf"(?<![\w-]){re.escape(engine)}(?![\w-])")
    prose = {id(text) for text in _docstrings(tree)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in prose:
            if word.search(node.value):
                return True
        elif isinstance(node, ast.ImportFrom) and "engines" in (node.module or ""):
            module = (node.module or "").rpartition(".")[2]
            if engine == module or engine in {alias.name for alias in node.names}:
                return True
    return False


def _docstrings(tree: ast.Module) -> Iterator[ast.Constant]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            yield node.value


def main() -> None:
    """Print the figures, one a line, or as JSON."""
    parser = argparse.ArgumentParser(prog="python -m tests.structure", description=__doc__)
    parser.add_argument("--rev", help="a git revision; without it, the working tree")
    parser.add_argument("--json", action="store_true", help="everything that was measured")
    options = parser.parse_args()
    structure = measure(options.rev)
    if options.json:
        print(json.dumps({**asdict(structure), "figures": structure.figures()}, indent=1))
        return
    for name, value in structure.figures().items():
        print(f"{name:45} {value}")


if __name__ == "__main__":
    main()
