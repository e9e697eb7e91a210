"""`sweep compare`: two sweeps or two trials, paired, with intervals."""

from __future__ import annotations

from typing import Annotated

import typer

from sweep.commands import _complete
from sweep.commands._options import JsonFlag
from sweep.commands._output import console, print_json

_Side = Annotated[
    str,
    typer.Argument(
        metavar="SWEEP[:TRIAL]",
        help="A sweep's best, or a trial.",
        autocompletion=_complete.sweeps,
    ),
]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(compare)


def compare(
    first: _Side,
    second: _Side,
    epsilon_max: Annotated[
        float | None, typer.Option(min=0, help="A sweep's best with at most this epsilon.")
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Compare B with A: figures side by side, SER paired over the same test utterances."""
    from rich.table import Table

    from sweep.results import comparison as comparing
    from sweep.settings import from_environment
    from trainables.figures import label
    from trainables.formats import figure

    home = from_environment().home
    a, b = (comparing.side(home, text, epsilon_max=epsilon_max) for text in (first, second))
    found = comparing.compare(a, b)
    if as_json:
        print_json(
            {
                "first": a.name,
                "second": b.name,
                "figures": found.figures,
                "ser_of_prior": found.of_prior,
                "ser_change_percent": found.paired,
                "matched_difference": found.matched,
                "num_matched": found.num_matched,
            }
        )
        return
    table = Table("", a.name, b.name, title="B against A")
    table.add_row("trial", a.record.plan.name, b.record.plan.name)
    for name, (mine, theirs) in found.figures.items():
        table.add_row(label(name), figure(name, mine), figure(name, theirs))
    if any(found.of_prior):
        over = ("-" if each is None else f"{each:.2f}" for each in found.of_prior)
        table.add_row("SER over that at epsilon 0, the prior", *over)
    out = console()
    out.print(table)
    if found.paired is None:
        if "ser" in found.figures:
            out.print("SER is not paired: the two were not tested on the same utterances.")
    else:
        change, low, high = found.paired
        verdict = "" if low <= 0 <= high else ", significant"
        out.print(
            f"SER changes by {change:+.1f} % (95 %: {low:+.1f} to {high:+.1f}{verdict}),"
            " paired over the test utterances."
        )
    if found.matched is not None:
        mean, low, high = found.matched
        out.print(
            f"The same {found.num_matched} configurations: SER {mean:+.4f} (95 %: {low:+.4f}"
            f" to {high:+.4f})."
        )
