"""The table of CONTRIBUTING.md: every entry of a shelf has what it says, and each has a
suite.
"""

import importlib
import inspect
import pkgutil
import re
from dataclasses import dataclass
from pathlib import Path

import pytest
import typer

from trainables import catalogue
from trainables.dp.engines.configs import DpSgdConfig, EngineConfig
from trainables.generation.methods import GenerationMethod

_ROOT = Path(__file__).resolve().parents[2]
_NAME = re.compile(r"`(\w+)(?:\(([^)]*)\))?`")


@dataclass(frozen=True)
class Row:
    """What entries of a shelf have: `members` by kind ("" for all), with their
    parameters.
    """

    shelf: str
    kinds: tuple[str, ...]
    members: dict[str, dict[str, tuple[str, ...]]]
    suite: str

    def required(self, kind):
        return {**self.members.get("", {}), **self.members.get(kind or "", {})}


def rows():
    text = (_ROOT / "CONTRIBUTING.md").read_text()
    found = []
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if len(cells) != 4 or "/NAME.py`" not in cells[1]:
            continue
        folder = cells[1].strip("`").removesuffix("/NAME.py").replace("/", ".")
        members = {}
        listed = re.search(r"\bkind \(([\w, ]+)\)", cells[2])
        kinds = tuple(listed[1].split(", ")) if listed else ()
        for part in cells[2].split("; "):
            kind, _, rest = part.rpartition(": ")
            for name, parameters in _NAME.findall(rest):
                names = [p.strip() for p in parameters.split(",") if p.strip()]
                members.setdefault(kind, {})[name] = tuple(names)
        found.append(Row(folder, kinds, members, cells[3].strip("`")))
    return found


def problems(row):
    """What entries of a shelf lack of what the table says."""
    shelf = row.shelf
    found = []
    for name in catalogue.names(shelf):
        kind = catalogue.kind_of(shelf, name)
        module = catalogue.entry(shelf, name)
        for member, parameters in row.required(kind).items():
            found += [
                f"{row.shelf}.{name}: {text}"
                for text in _lack(module, member, parameters)
            ]
    return found


def _lack(module, member, parameters):
    if not hasattr(module, member):
        return [f"no {member}"]
    if not parameters:
        return []
    own = inspect.signature(getattr(module, member)).parameters.values()
    named = [f"{p.name}=" if p.kind is p.KEYWORD_ONLY else p.name for p in own]
    # A further parameter may have a default.
    found = [
        n
        for n, p in zip(named, own, strict=True)
        if n in parameters or p.default is p.empty
    ]
    return [] if found == [*parameters] else [f"{member}({', '.join(found)})"]


_ROWS = [
    row for row in rows() if row.shelf not in ("sweep.commands", "trainables.metrics")
]


def test_the_table_is_read():
    shelves = {row.shelf.rpartition(".")[2] for row in rows()}
    assert shelves >= {
        *(
            "schedules",
            "accountants",
            "attacks",
            "metrics",
        ),
        *("strategies", "optimizers", "learning_rates", "commands"),
    }
    (attacks,) = (row for row in rows() if row.shelf == "trainables.attacks")
    assert attacks.members["attack"]["scores"] == ("target", "knowledge", "seed=")
    assert attacks.kinds == ("attack", "control", "relative")


@pytest.mark.parametrize("row", _ROWS, ids=lambda row: row.shelf)
def test_every_entry_has_what_the_table_says(row):
    assert problems(row) == []
    shelf = row.shelf
    kinds = {catalogue.kind_of(shelf, name) for name in catalogue.names(shelf)}
    assert kinds == (set(row.kinds) or {None})


@pytest.mark.parametrize(
    "row", [row for row in rows() if row.suite != "–"], ids=lambda r: r.shelf
)
def test_each_shelf_has_its_suite(row):
    (suite,) = (_ROOT / "tests").rglob(row.suite)
    assert row.shelf.rpartition(".")[2] in suite.read_text().lower()


def unstated(registry, base):
    """Abilities of a registry's classes that their base does not state."""
    entries = {
        name: catalogue.entry(registry, name) for name in catalogue.names(registry)
    }
    # A class has constants in place of the fields that only others read.
    known = {*dir(base), *base.__annotations__}
    known.update(*(each.model_fields for each in entries.values()))
    return [
        f"{registry}.{name}.{ability}"
        for name, entry in entries.items()
        for ability in sorted({*dir(entry)} - known)
        if not ability.startswith("_")
    ]


@pytest.mark.parametrize(
    ("registry", "base"), [("engines", EngineConfig), ("generation", GenerationMethod)]
)
def test_each_ability_of_a_component_is_stated_by_its_base(registry, base):
    assert all(
        issubclass(catalogue.entry(registry, name), base)
        for name in catalogue.names(registry)
    )
    assert unstated(registry, base) == []


def test_an_ability_that_the_base_does_not_state_is_found(monkeypatch):
    monkeypatch.setattr(DpSgdConfig, "loudness", 3, raising=False)
    assert unstated("engines", EngineConfig) == ["engines.dp_sgd.loudness"]


def test_an_entry_that_lacks_something_is_found(drop_in):
    drop_in(
        "schedules",
        "bare",
        '"""A decay without a mark."""\n\n\ndef factor(epoch):\n    return 1\n',
    )
    (row,) = (row for row in _ROWS if row.shelf == "trainables.dp.schedules")
    assert problems(row) == [
        "trainables.dp.schedules.bare: factor(epoch)",
        "trainables.dp.schedules.bare: no MARK",
    ]


def test_a_command_has_the_name_of_its_file():
    (row,) = (row for row in rows() if row.shelf == "sweep.commands")
    folder = catalogue.package_of(row.shelf)
    for name in (each.name for each in pkgutil.iter_modules(folder.__path__)):
        if name.startswith("_"):
            continue
        command = getattr(importlib.import_module(f"{row.shelf}.{name}"), name)
        assert isinstance(command, typer.Typer) or command.__name__ == name
