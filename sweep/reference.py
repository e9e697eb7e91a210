"""The reference pages, made from the program: `python -m sweep.reference docs/reference`.

`commands.md` has every command with its options, `fields.md` every field of configs and spaces,
`figures.md` every metric. A test compares the pages in the repository with what this makes.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import typer

from sweep.cli import build
from sweep.planning.fields import FieldRow, config_fields, space_fields
from trainables import figures


def pages() -> dict[str, str]:
    """File name -> text of each page."""
    return {
        "commands.md": _commands(),
        "fields.md": _fields(),
        "figures.md": _figures(),
    }


def _commands() -> str:
    root = typer.main.get_command(build())
    lines = ["# Commands", "", "Made by `python -m sweep.reference docs/reference`.", ""]
    for name, command in sorted(_leaves(root, "sweep")):
        lines += [f"## `{name}`", "", (command.help or "").strip(), ""]
        rows = [
            (_spelling(parameter), " ".join((getattr(parameter, "help", None) or "").split()))
            for parameter in command.params
            if parameter.name != "help"
        ]
        lines += _table(("argument or option", "meaning"), rows)
    return "\n".join(lines).rstrip() + "\n"


def _leaves(command: Any, name: str) -> Iterable[tuple[str, Any]]:
    inner = getattr(command, "commands", None)
    if not inner:
        yield name, command
        return
    for word, each in inner.items():
        yield from _leaves(each, f"{name} {word}")


def _spelling(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        return f"`{parameter.metavar or (parameter.name or '').upper()}`"
    return f"`{', '.join((*parameter.opts, *parameter.secondary_opts))}`"


def _fields() -> str:
    lines = [
        *("# Fields", "", "Made by `python -m sweep.reference docs/reference`."),
        *("`sweep fields PATH` prints the same.", "", "## Of a trial's config", ""),
        *_field_table(config_fields()),
        *("", "## Of a search space", ""),
        *_field_table(space_fields()),
    ]
    return "\n".join(lines).rstrip() + "\n"


def _field_table(rows: Iterable[FieldRow]) -> list[str]:
    return _table(
        ("field", "type", "default", "allowed", "meaning"),
        [
            (
                f"`{row.path}`",
                row.type,
                row.default,
                row.allowed,
                row.description + (f" ({', '.join(row.entries)} only)" if row.entries else ""),
            )
            for row in rows
        ],
    )


def _figures() -> str:
    rows = [
        (f"`{each.name}`", each.label, each.unit, each.better, each.audience)
        for each in figures.registry().values()
    ]
    lines = [
        *("# Figures", "", "Made by `python -m sweep.reference docs/reference`. A figure whose"),
        *("audience is `curator` is no part of an export, a card or a public report.", ""),
        *_table(("name", "label", "unit", "better", "audience"), rows),
    ]
    return "\n".join(lines).rstrip() + "\n"


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> list[str]:
    def line(cells: Iterable[str]) -> str:
        return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"

    found = list(rows)
    if not found:
        return []
    return [line(head), line("---" for _ in head), *(line(row) for row in found), ""]


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in pages().items():
        (folder / name).write_text(text, encoding="utf-8")
