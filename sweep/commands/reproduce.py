"""`sweep reproduce`: the tables of the paper, run again."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sweep.commands._options import Address, JsonFlag, Set, Tracking, overrides
from sweep.commands._output import console, print_json, say

if TYPE_CHECKING:
    from sweep.reproduction.description import Table

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
        "--output", metavar="DIR", help="Folder of the table; default: reproduction/ in the home."
    ),
]
_Available = Annotated[
    bool, typer.Option("--available", help="Leave out corpora that are not available.")
]
_Show = Annotated[
    bool, typer.Option("--show", help="Run nothing; write and print what has finished.")
]
_Seeds = Annotated[int | None, typer.Option(min=1, help="Seeds of the full stage; default: 3.")]
_Points = Annotated[int | None, typer.Option(min=1, help="Points per decay; default: 12 or 6.")]
_PointsFrom = Annotated[
    Path | None,
    typer.Option(
        "--points-from",
        metavar="CSV",
        help="table1_points.csv of an earlier run, whose best points replace the coarse pass.",
    ),
]
_Epochs = Annotated[
    int | None, typer.Option(min=1, help="Epochs of the full stage; default: 16 (clc), 10 (bert).")
]
_Method = Annotated[
    list[str],
    typer.Option("--method", metavar="METHOD", help="Only this row beside SGD (repeat it)."),
]
_Leakage = Annotated[
    bool, typer.Option("--leakage", help="Also RMIA and LiRA, on a split by coins.")
]
_Smoke = Annotated[
    bool,
    typer.Option("--smoke", help="A test of ten minutes: a small model, two points, one seed."),
]


reproduce = typer.Typer(help="Reproduce the tables of Dupuy et al. 2021.")


@reproduce.command()
def table1(
    data: _Data = [],  # noqa: B006  typer copies it
    model: _Model = [],  # noqa: B006
    seeds: _Seeds = None,
    points: _Points = None,
    points_from: _PointsFrom = None,
    epochs: _Epochs = None,
    method: _Method = [],  # noqa: B006
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
    decay, then the best one over seeds. The same command continues what is not finished.
    """
    from sweep.reproduction import description, run
    from sweep.settings import from_environment
    from trainables.errors import TrialFailed

    settings = from_environment(_environment(home), tracking=tracking)
    sizes = {"seeds": seeds, "points": points, "epochs": epochs}
    table = _table1(points_from, smoke=smoke, assignments=overrides(assignments), **sizes)
    pairs = description.pairs(table, corpora=data, models=model, smoke=smoke)
    # What another command of the same settings has run stays in the files.
    whole, every = table, description.pairs(table, corpora=list(table.corpora), smoke=smoke)
    table = description.with_methods(table, pairs, method)
    to = _folder(output or settings.home / "reproduction")
    problems: list[str] = []
    shown, rows = (table, pairs) if show else (whole, every)
    write_files = partial(run.write, shown, rows, settings.home, to)
    if not show:
        pairs, missing = run.at_hand(table, pairs, settings, available=available)
        _say_missing(missing)
        problems = run.run_table(
            table,
            pairs,
            settings,
            leakage=leakage,
            execution=run.Execution(console=console(stderr=True), quiet=as_json, address=address),
            write_files=write_files,
            say=lambda text: say(text, stderr=True),
        )
    written = write_files()
    if as_json:
        print_json("reproduce table1", run.summary(table, pairs, settings.home, written))
    else:
        _print(written)
    if problems:
        raise TrialFailed("; ".join(problems))


@reproduce.command()
def table2(
    data: _Data = [],  # noqa: B006  typer copies it
    model: _Model = [],  # noqa: B006
    workers: Annotated[
        list[int], typer.Option("--workers", min=1, help="Only this N (repeat it).")
    ] = [],  # noqa: B006
    records: Annotated[
        int | None,
        typer.Option(min=1_000, help="Utterances of each generated corpus; default: 100,000."),
    ] = None,
    available: _Available = False,
    show: _Show = False,
    home: _Home = None,
    output: _Output = None,
    as_json: JsonFlag = False,
) -> None:
    """Seconds per epoch of SGD, eDP-SGD and DP-SGD, by logical workers (table 2).

    Times come from a few measured steps of each engine. Measured rows are kept.
    """
    from sweep.bench.rounds import rounds
    from sweep.reproduction import description, timing
    from sweep.reproduction import table2 as layout
    from sweep.reproduction.run import missing_data, write_texts
    from sweep.settings import from_environment

    settings = from_environment(_environment(home))
    wanted = timing.read(records=records)
    description.require_known("data", data, wanted.corpora)
    description.require_known("model", model, wanted.models)
    corpora = list(dict.fromkeys(data or wanted.corpora))
    to = _folder(output or settings.home / "reproduction")
    fields = {name: wanted.corpora[name].data for name in corpora}
    missing = [] if show else missing_data(fields, settings, available=available)
    _say_missing(missing)
    specs = timing.specs(
        wanted.model_copy(update={"workers": tuple(workers) or wanted.workers}),
        [name for name in corpora if name not in missing],
        list(dict.fromkeys(model or wanted.models)),
        settings,
    )
    if not show:
        timing.run(
            specs,
            to,
            measure=lambda spec: rounds(spec, say=lambda _: None),
            say=lambda text: say(text, stderr=True),
        )
    # What another command of the same settings has measured stays in the files.
    every = specs if show else timing.every_spec(wanted, to, settings)
    rows = timing.rows(every, to)
    texts = {"table2.md": layout.markdown(wanted, rows), "table2.csv": layout.csv_text(rows)}
    written = write_texts(to, texts)
    if as_json:
        found = layout.plain(timing.rows(specs, to))
        document = {"rows": found, "written": [str(path) for path in written]}
        print_json("reproduce table2", document)
        return
    _print(written)


def _table1(points_from: Path | None, **changed: Any) -> Table:
    """The shipped table with what the command line changes.

    Raises: InvalidInput for a change that the table does not allow.
    """
    from sweep.reproduction import changes, chosen, description

    table = changes.with_changes(description.read("table1"), **changed)
    return table if points_from is None else chosen.with_points_from(table, points_from)


def _folder(output: Path) -> Path:
    """Raises: InvalidInput for a file, before anything runs."""
    from trainables.errors import InvalidInput

    if output.exists() and not output.is_dir():
        raise InvalidInput(f"expected --output to be a folder, got the file {output}")
    return output


def _say_missing(names: Sequence[str]) -> None:
    if names:
        say(f"left out, not available: {', '.join(names)}", stderr=True)


def _print(written: Sequence[Path]) -> None:
    """The table, which is the first of the files, and where they are."""
    typer.echo(written[0].read_text(encoding="utf-8"))
    say(f"written: {', '.join(str(path) for path in written)}")


def _environment(home: Path | None) -> Mapping[str, str]:
    return os.environ if home is None else {**os.environ, "SWEEP_HOME": str(home)}
