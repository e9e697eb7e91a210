"""`sweep fields`: the fields of configs and search spaces."""

from __future__ import annotations

from typing import Annotated

import typer

from sweep.commands import _complete
from sweep.commands._options import JsonFlag
from sweep.commands._output import console, print_json


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
    from rich.table import Table

    from sweep.planning.fields import fields_below

    rows = fields_below(path)
    if as_json:
        print_json("fields", {"fields": [vars(row) for row in rows]})
        return
    table = Table("field", "type", "default", "allowed", "meaning")
    for row in rows:
        of = f" ({', '.join(row.entries)} only)" if row.entries else ""
        table.add_row(row.path, row.type, row.default, row.allowed, f"{row.description}{of}")
    console().print(table, markup=False)
