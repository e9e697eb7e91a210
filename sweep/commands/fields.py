"""`sweep fields`: the fields of configs and search spaces."""

from typing import Annotated

import typer

from sweep.commands._options import JsonFlag
from sweep.commands._output import console, print_json


def fields(
    path: Annotated[
        str | None,
        typer.Argument(metavar="[PATH]", help="A section or field, such as privacy."),
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """List every field of configs and spaces: type, default, allowed values, meaning."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    from sweep.planning.fields import fields_below

    rows = fields_below(path)
    if as_json:
        print_json("fields", {"fields": [vars(row) for row in rows]})
        return
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    table.add_column(
        "field",
        no_wrap=True,
        overflow="ignore",
        min_width=max(len(r.path) for r in rows),
    )
    table.add_column("type, default, allowed values, meaning")
    for row in rows:
        words = [row.type, f"default {row.default}", row.allowed]
        only = f" ({', '.join(row.entries)} only)" if row.entries else ""
        what = "; ".join(filter(None, words))
        table.add_row(Text(row.path), Text(f"{what}: {row.description}{only}"))
    console().print(table)
