"""`sweep show`: the results of a sweep."""

from contextlib import suppress
from functools import partial
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
    sort: Annotated[
        str | None,
        typer.Option(help="A figure or an axis to sort by; default: the best first."),
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Show the trials against the baseline, and the Pareto front of SER and epsilon."""
    from sweep.results import frame, select
    from sweep.results.exported import damages
    from sweep.results.importance import advice
    from sweep.results.selected_trial import sentence_of
    from sweep.results.tables.trials import (
        group_table,
        leakage_table,
        results_table,
        synthesis_table,
        taken_over,
        violations,
    )
    from sweep.results.utility_gap import gaps
    from sweep.settings import from_environment
    from sweep.store import sweeps as store
    from trainables.errors import InvalidInput

    folder = store.open_sweep(from_environment().home, name)
    records = frame.read(folder)
    damaged, found = damages(folder, records), gaps(records)
    answer = [sentence for each in found for sentence in each.sentences()]
    if as_json:
        best: list[str] = []
        with suppress(InvalidInput):  # no trial, or no figure that all have
            best = [record.plan.id for record in select.choose(records)]
        whole = frame.summary(folder, records)
        print_json("show", {**whole, "best": best, "gap": answer, "damages": damaged})
        return
    most = None if every else _MOST_ROWS
    answers = {each.best.plan.id for each in found if each.best}
    table = results_table(
        folder.name, records, max_rows=most, answers=answers, sort=sort
    )
    for sentence in answer:
        say(sentence, style="bold" if sentence.startswith("at ") else None)
    out = console()
    out.print(table)
    if most is not None and len(records) > most:
        say(
            f"{most} of {len(records)} trials: baselines, the front and the best; --all"
            " shows every one"
        )
    say(*damaged.values(), style="bold red")
    say(*filter(None, [sentence_of(folder)]))
    repeats = group_table(records, max_rows=most)
    for other in (repeats, leakage_table(records), synthesis_table(records)):
        if other is not None:
            out.print("", other)
    say(*taken_over(records))
    say(*violations(records), style="bold red")
    change = partial(frame.change_between, folder)
    with suppress(InvalidInput):
        say(*(f"next: {sentence}" for sentence in advice(records, change)))
