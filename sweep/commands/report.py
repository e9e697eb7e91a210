"""`sweep report`: one page about a sweep."""

from pathlib import Path
from typing import Annotated

import typer

from sweep.commands._options import JsonFlag, Name
from sweep.commands._output import print_json, say
from trainables.system import collector


@collector.paused()
def report(
    name: Name,
    epsilon: Annotated[
        float,
        typer.Option(min=0, help="Largest epsilon of the trial that is shown first."),
    ] = 8.0,
    data: Annotated[
        str | None,
        typer.Option(
            metavar="CORPUS", help="Corpus of the trials, where there are several."
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Folder to write; default: NAME-report here."),
    ] = None,
    public: Annotated[
        bool, typer.Option("--public", help="Leave out curator-only figures.")
    ] = False,
    as_json: JsonFlag = False,
) -> None:
    """Write a report of a sweep: an HTML page, charts as SVG, and its data as CSV.

    The page needs no network. It recommends a trial at an epsilon and shows the Pareto
    front of error and epsilon, leakage, what mattered, spending and the privacy card.
    """
    from sweep.results.report_files import write
    from sweep.settings import from_environment
    from sweep.store import sweeps as store

    folder = store.open_sweep(from_environment().home, name)
    target = output or Path(f"{name}-report")
    made = write(folder, target, epsilon_max=epsilon, corpus=data, public=public)
    if as_json:
        print_json("report", made.summary())
        return
    say("; ".join([made.sweep.answer.headline, *made.sweep.answer.below]), style="bold")
    say(f"report: {made.page} ({made.page.stat().st_size / 1024:.0f} KiB)")
    say(f"its data as CSV, and charts as SVG, are beside it ({len(made.beside)} files)")
