"""`sweep reproduce`: the tables of the paper, run again."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from sweep.commands._options import Address, JsonFlag, Set, Tracking, overrides
from sweep.commands._output import console, print_json, say

_Data = Annotated[
    list[str], typer.Option("--data", metavar="CORPUS", help="Only this corpus (repeat it).")
]
_Model = Annotated[
    list[str], typer.Option("--model", metavar="MODEL", help="Only this model (repeat it).")
]
_Home = Annotated[
    Path | None, typer.Option("--home", metavar="DIR", help="Home of sweeps; default: $SWEEP_HOME.")
]
_Output = Annotated[
    Path | None,
    typer.Option(
        "--output", metavar="DIR", help="For the table; default: reproduction/ in the home."
    ),
]
_Available = Annotated[
    bool, typer.Option("--available", help="Leave out corpora that are not at hand.")
]
_Show = Annotated[bool, typer.Option("--show", help="Run nothing: the table of what has ended.")]
_Seeds = Annotated[int | None, typer.Option(min=1, help="Seeds of the full stage; default: 3.")]
_Points = Annotated[int | None, typer.Option(min=1, help="Points a decay; default: 12 or 6.")]
_Epochs = Annotated[int | None, typer.Option(min=1, help="Of the full stage; default: 30.")]
_Leakage = Annotated[
    bool, typer.Option("--leakage", help="Also RMIA and LiRA, on a split of coins.")
]
_Smoke = Annotated[
    bool, typer.Option("--smoke", help="Ten minutes: a small model, two points, one seed.")
]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    reproduce = typer.Typer(help="Run the tables of Dupuy et al. 2021 again.")
    app.add_typer(reproduce, name="reproduce")
    reproduce.command("table1")(table1)


def table1(
    data: _Data = [],  # noqa: B006  typer copies it
    model: _Model = [],  # noqa: B006
    seeds: _Seeds = None,
    points: _Points = None,
    epochs: _Epochs = None,
    leakage: _Leakage = False,
    smoke: _Smoke = False,
    available: _Available = False,
    show: _Show = False,
    home: _Home = None,
    output: _Output = None,
    assignments: Set = [],  # noqa: B006
    tracking: Tracking = [],  # noqa: B006
    address: Address = None,
    as_json: JsonFlag = False,
) -> None:
    """SER, leakage and epsilon of each noise decay against SGD (table 1).

    Stages are sweeps, which `sweep show` and `sweep resume` know: a coarse pass over points of each
    decay, then the best one over seeds. The same command goes on with what is not finished.
    """
    from sweep.reproduction import description, run
    from sweep.settings import from_environment
    from trainables.errors import TrialFailed

    given = os.environ if home is None else {**os.environ, "SWEEP_HOME": str(home)}
    settings = from_environment(given, tracking=tracking)
    table = description.changed(
        description.read("table1"),
        smoke=smoke,
        seeds=seeds,
        points=points,
        epochs=epochs,
        assignments=overrides(assignments),
    )
    pairs = description.pairs(table, corpora=data, models=model, smoke=smoke)
    to = output or settings.home / "reproduction"
    problems: list[str] = []
    if not show:
        pairs, missing = run.at_hand(table, pairs, settings, available=available)
        if missing:
            say(f"left out, not at hand: {', '.join(missing)}", stderr=True)
        problems = run.run_table(
            table,
            pairs,
            settings,
            leakage=leakage,
            execution=run.Execution(console=console(stderr=True), quiet=as_json, address=address),
            output=to,
            say=lambda text: say(text, stderr=True),
        )
    written = run.write(table, pairs, settings.home, to)
    if as_json:
        print_json("reproduce table1", run.summary(table, pairs, settings.home, written))
    else:
        typer.echo(written[0].read_text(encoding="utf-8"))
        say(f"written: {', '.join(str(path) for path in written)}")
    if problems:
        raise TrialFailed("; ".join(problems))
