"""`sweep show`: the results of a sweep."""

from contextlib import suppress
from typing import Annotated

import typer

from sweep.commands._options import JsonFlag, Name
from sweep.commands._output import console, print_json, say
from trainables.system import collector

_MOST_ROWS = 200  # a table of ten thousand takes long and helps nobody


@collector.paused()
def show(
    name: Name,
    every: Annotated[
        bool,
        typer.Option("--all", help=f"Every trial, also of more than {_MOST_ROWS}."),
    ] = False,
    as_json: JsonFlag = False,
) -> None:
    """Show the trials against the baseline, and the Pareto front of SER and epsilon."""
    from sweep.results import select
    from sweep.results.exported import damages
    from sweep.results.importance import advice
    from sweep.results.selected_trial import sentence_of
    from sweep.results.summary import summary
    from sweep.results.tables.trials import (
        group_table,
        leakage_table,
        results_table,
        synthesis_table,
        violations,
    )
    from sweep.results.utility_gap import sentences
    from sweep.settings import from_environment
    from sweep.store import sweeps as store
    from trainables.errors import InvalidInput

    folder = store.open_sweep(from_environment().home, name)
    records = folder.records()
    damaged = damages(folder, records)
    if as_json:
        best: list[str] = []
        with suppress(InvalidInput):  # no trial, or no figure that all have
            best = [record.plan.id for record in select.choose(records)]
        whole = summary(folder, records)
        print_json(
            "show",
            {**whole, "best": best, "gap": sentences(records), "damages": damaged},
        )
        return
    for sentence in sentences(records):
        say(sentence, style="bold" if sentence.startswith("at ") else None)
    out = console()
    most = None if every else _MOST_ROWS
    out.print(results_table(folder.name, records, max_rows=most))
    if most is not None and len(records) > most:
        say(
            f"{most} of {len(records)} trials: baselines, the front and the best; --all"
            f" shows"
            " every one"
        )
    say(*damaged.values(), style="bold red")
    say(*filter(None, [sentence_of(folder)]))
    repeats = group_table(records, max_rows=most)
    for table in (repeats, leakage_table(records), synthesis_table(records)):
        if table is not None:
            out.print("", table)
    say(*violations(records), style="bold red")
    with suppress(InvalidInput):
        say(*(f"next: {sentence}" for sentence in advice(records)))
