"""`docs/notes/mutants.md` from the rows of a run, the reviewed list of mutants that change no
result, and the mutants by hand of `tests/engines/test_mutants.py`.
"""

from __future__ import annotations

import importlib
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from jinja2 import Template

from .runs import all_mutants
from .targets import ROOT

DOC = ROOT / "docs" / "notes" / "mutants.md"
_REVIEWED = Path(__file__).with_name("reviewed.yaml")
_FIELDS = ("file", "where", "operator", "before", "after")

_PAGE = Path(__file__).with_name("page.md.j2")


@cache
def _reviewed() -> list[dict[str, str]]:
    found: list[dict[str, str]] = yaml.safe_load(_REVIEWED.read_text(encoding="utf-8"))
    return found


def reason_of(row: dict[str, Any]) -> dict[str, str] | None:
    """The reviewed entry that a row falls under: every field that the entry has is the row's."""
    for entry in _reviewed():
        if all(entry[name] == row[name] for name in _FIELDS if name in entry):
            return entry
    return None


def sorted_out(rows: Sequence[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """Rows by what became of them: killed, the same (by the compiler or by review), survived."""
    found: dict[str, list[dict[str, Any]]] = {"killed": [], "same": [], "survived": []}
    for row in rows:
        entry = reason_of(row)
        if row["outcome"] == "killed":
            found["killed"].append(row)
        elif row["outcome"] == "same code" or (entry is not None and "same" in entry):
            found["same"].append(row)
        else:
            found["survived"].append(row)
    return found


def write_doc(rows: Sequence[dict[str, Any]]) -> None:
    """Write the page, of the mutants whose lines still stand."""
    made, standing = len(rows), {mutant.key for mutant in all_mutants()}
    rows = [row for row in rows if row["key"] in standing]
    found = sorted_out(rows)
    same, killed, survived = (len(found[name]) for name in ("same", "killed", "survived"))
    page = Template(_PAGE.read_text(encoding="utf-8"), keep_trailing_newline=True).render(
        made=f"{made:,}",
        total=f"{len(rows):,}",
        commit=_commit(),
        same=f"{same:,}",
        killed=f"{killed:,}",
        others=f"{killed + survived:,}",
        share=f"{killed / max(1, killed + survived):.1%}",
        numbers=_numbers(rows, found),
        survivors=_survivors(found),
        reasons=_same(found),
        by_hand="\n".join(by_hand()),
    )
    DOC.write_text(page, encoding="utf-8")


def _numbers(rows: Sequence[dict[str, Any]], found: dict[str, list[dict[str, Any]]]) -> str:
    table = [
        "| source | mutants | change no result | killed | survived |",
        "| --- | ---: | ---: | ---: | ---: |",
    ]
    counts = {name: Counter(_folder(row["file"]) for row in part) for name, part in found.items()}
    for folder in sorted({_folder(row["file"]) for row in rows}):
        each = [counts[name][folder] for name in ("same", "killed", "survived")]
        table.append(f"| `{folder}` | {sum(each)} | {each[0]} | {each[1]} | {each[2]} |")
    return "\n".join(table)


def _folder(file: str) -> str:
    return file.rsplit("/", 1)[0] if file.count("/") > 1 else file


def _commit() -> str:
    command = ["git", "log", "-1", "--format=%h of %cs"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True).stdout.strip()


def _survivors(found: dict[str, list[dict[str, Any]]]) -> str:
    lines = ["| where | fault | why no test sees it |", "| --- | --- | --- |"]
    for row in sorted(found["survived"], key=lambda row: (row["file"], row["line"])):
        entry = reason_of(row)
        lines.append(f"| {_place(row)} | {_fault(row)} | {entry['why'] if entry else _open(row)} |")
    return "\n".join(lines)


def _open(row: dict[str, Any]) -> str:
    """What is said of a survivor that is not reviewed yet."""
    if row["outcome"] == "no test":
        return "open: no test of the chosen folders reaches the line"
    return "open: not seen within the seconds that a mutant has"


def _same(found: dict[str, list[dict[str, Any]]]) -> str:
    reasons = Counter(
        "the compiler makes the same code of it"
        if row["outcome"] == "same code"
        else (reason_of(row) or {})["same"]
        for row in found["same"]
    )
    lines = ["| reason | mutants |", "| --- | ---: |"]
    lines += [f"| {reason} | {count} |" for reason, count in reasons.most_common()]
    return "\n".join(lines)


def _place(row: dict[str, Any]) -> str:
    return f"`{row['file']}` {row['where']}"


def _fault(row: dict[str, Any]) -> str:
    texts = (row["before"], row["after"] or "nothing")
    before, after = (text.replace("|", "\\|")[:100] for text in texts)
    return f"{row['operator']}: `{before}` → `{after}`"


def by_hand() -> list[str]:
    """The rows of the mutants by hand."""
    sys.path.insert(0, str(ROOT / "tests" / "engines"))  # as pytest has it
    module = importlib.import_module("test_mutants")
    return [f"| {mutant.what} | `{mutant.noticed_by}` |" for mutant in module.MUTANTS]
