"""The size and shape of the house in figures: `python -m tests.structure`, which needs
only Python. `tests/test_structure.py` holds source tokens under a limit; the other
figures are for reading.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
HOUSES = ("sweep", "trainables", "search_spaces", "dashboards")
ENGINES = "trainables/dp/engines"
LIBRARIES = ("ray", "torch", "mlflow", "transformers", "dp_accounting")
# Written by `.ci/reference.py`, not by hand.
GENERATED_DOCS = "docs/reference/"
_NO_CODE = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
    tokenize.ENCODING,
}


def measure():
    """The figures of the working tree by their names.

    Tokens are Python's, without docstrings and comments; lines are those of files,
    blank ones included; words of docs leave out the generated reference.
    `untyped_dicts` are `dict[str, Any]` in `sweep/`, `private_imports` the modules that
    import a private module of a library.
    """
    texts = dict(_texts())
    source = {
        p: t
        for p, t in texts.items()
        if p.split("/")[0] in HOUSES and p.endswith(".py")
    }
    tests = {
        p: t for p, t in texts.items() if p.startswith("tests/") and p.endswith(".py")
    }
    trees = {path: ast.parse(text) for path, text in (source | tests).items()}
    count = {path: _tokens(texts[path], tree) for path, tree in trees.items()}
    lists = [
        node.value
        for node in ast.walk(trees[f"{ENGINES}/__init__.py"])
        if isinstance(node, ast.Assign) and node.targets[0].id == "ENTRIES"
    ]
    engines = [key.value for key in lists[0].keys]
    contracts = tomllib.loads(texts["pyproject.toml"])["tool"]["importlinter"][
        "contracts"
    ]
    return {
        "source_tokens": sum(count[path] for path in source),
        "source_lines": sum(len(text.splitlines()) for text in source.values()),
        "source_files": len(source),
        "test_tokens": sum(count[path] for path in tests),
        "test_lines": sum(len(text.splitlines()) for text in tests.values()),
        "docs_words": sum(
            len(text.split())
            for path, text in texts.items()
            if path.endswith(".md") and not path.startswith(GENERATED_DOCS)
        ),
        "untyped_dicts": sum(
            text.count("dict[str, Any]")
            for p, text in source.items()
            if p.startswith("sweep/")
        ),
        "private_imports": sorted(
            path for path in source if _imports_private(trees[path])
        ),
        "import_contracts": len(contracts),
        "modules_naming_an_engine": sorted(
            path
            for path, text in source.items()
            # The list of them, and their fields and abilities.
            if path not in (f"{ENGINES}/__init__.py", f"{ENGINES}/configs.py")
            and any(name in text and _names(trees[path], name) for name in engines)
        ),
    }


def _texts():
    """Path and text of each Python file of the houses and tests, and of each page of
    docs.
    """
    places = [*HOUSES, "tests", "docs", "README.md", "CONTRIBUTING.md", "CHANGELOG.md"]
    # `git ls-files` would miss a new file; a checkout holds no other Python in these
    # folders.
    for place in (*places, "pyproject.toml"):
        found = (ROOT / place).rglob("*") if (ROOT / place).is_dir() else [ROOT / place]
        for path in sorted(found):
            if path.is_file() and path.suffix in (".py", ".md", ".toml"):
                yield path.relative_to(ROOT).as_posix(), path.read_text()


def _tokens(text, tree=None):
    """Tokens of code: no comment, no docstring, no end of line."""
    prose = {
        (node.body[0].lineno, node.body[0].col_offset)
        for node in ast.walk(tree or ast.parse(text))
        if isinstance(
            node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
        )
        and node.body
        and isinstance(node.body[0], ast.Expr)
        and isinstance(getattr(node.body[0], "value", None), ast.Constant)
    }
    found = tokenize.generate_tokens(io.StringIO(text).readline)
    return sum(
        token.type not in _NO_CODE and token.start not in prose for token in found
    )


def _imports_private(tree):
    """Whether code imports a module of a library, or a name of one, that starts with
    `_`.
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and not node.level:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            continue
        for name in names:
            head, *rest = name.split(".")
            if head in LIBRARIES and any(part.startswith("_") for part in rest):
                return True
    return False


def _names(tree, engine):
    """Whether code (no docstring, no comment) imports an engine's module or spells its
    name.

    A string counts where the name is a word of it, unless it is a longer engine's name.
    """
    word = re.compile(rf"(?<![\w-]){re.escape(engine)}(?![\w-])")
    prose = {id(text) for text in _docstrings(tree)}
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and id(node) not in prose
        ):
            if word.search(node.value):
                return True
        elif isinstance(node, ast.ImportFrom) and "engines" in (node.module or ""):
            module = (node.module or "").rpartition(".")[2]
            if engine == module or engine in {alias.name for alias in node.names}:
                return True
    return False


def _docstrings(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            yield node.value


if __name__ == "__main__":
    for name, value in measure().items():
        print(f"{name:28} {value}")
