"""`sweep fields`: the fields of configs and search spaces."""

from __future__ import annotations

from typing import Annotated

import typer

from sweep.commands import _complete
from sweep.commands._options import JsonFlag
from sweep.commands._output import print_json, say_table


def fields(
    path: Annotated[
        str | None,
        typer.Argument(
            metavar="[PATH]",
            help="A section or field, such as privacy.",
            autocompletion=_complete.fields,
        ),
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """List every field of configs and spaces with its type, default, allowed values and meaning."""
    from sweep.planning.fields import fields_below

    rows = fields_below(path)
    if as_json:
        print_json("fields", {"fields": [vars(row) for row in rows]})
        return
    cells = []
    for row in rows:
        of = f" ({', '.join(row.entries)} only)" if row.entries else ""
        cells.append((row.path, row.type, row.default, row.allowed, f"{row.description}{of}"))
    say_table(("field", "type", "default", "allowed", "meaning"), cells)
