"""`sweep show`: the results of a sweep."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from sweep.commands._options import JsonFlag, Name
from sweep.commands._output import console, print_json, say
from trainables.system import collector

if TYPE_CHECKING:
    from sweep.results.standing import Standing
    from sweep.store.sweeps import SweepFolder, TrialRecord


_MOST_ROWS = 200  # a table of ten thousand takes long and helps nobody


@collector.paused()
def show(
    name: Name,
    every: Annotated[
        bool, typer.Option("--all", help=f"Every trial, also of more than {_MOST_ROWS}.")
    ] = False,
    as_json: JsonFlag = False,
) -> None:
    """Show the trials relative to the baseline, and the Pareto front of SER and epsilon."""
    from sweep.results.advice import advice
    from sweep.results.exported import damages
    from sweep.results.gap import sentences
    from sweep.results.summary import summary
    from sweep.settings import from_environment
    from sweep.store import sweeps as store

    folder = store.open_sweep(from_environment().home, name)
    records = folder.records()
    where = _standings(folder, records)
    damaged = damages(folder, records)
    if as_json:
        known = {
            "best": [_best(each) for each in where],
            "gap": sentences(records),
            "damages": damaged,
        }
        print_json("show", {**summary(folder, records), **known})
        return
    for sentence in sentences(records):
        say(sentence, style="bold" if sentence.startswith("at ") else None)
    _print_tables(folder, records, list(damaged.values()), every=every)
    for each in where:
        say(each.sentence())
    for sentence in advice(records, where):
        say(f"next: {sentence}")


def _best(where: Standing) -> dict[str, Any]:
    return {
        "corpus": where.corpus,
        "group": where.best.key,
        "trial": where.best.middle(where.metric).plan.id,
        "by": where.metric,
        "indistinguishable_from": [group.key for group in where.indistinguishable],
        "compared": list(where.ways),
    }


def _print_tables(
    folder: SweepFolder, records: list[TrialRecord], damages: list[str], *, every: bool
) -> None:
    """Trials, repeats, leakage and generated text, each with what is wrong with it."""
    from sweep.results.selected_trial import sentence_of
    from sweep.results.tables.leakage import leakage_table, violations
    from sweep.results.tables.trials import group_table, results_table
    from sweep.synthesis.table import synthesis_table

    out = console()
    most = None if every else _MOST_ROWS
    out.print(results_table(folder.name, records, max_rows=most))
    if most is not None and len(records) > most:
        say(
            f"{most} of {len(records)} trials: baselines, the front and the best; --all shows"
            " every one"
        )
    for sentence in damages:
        say(sentence, style="bold red")
    if (about_vault := sentence_of(folder)) is not None:
        say(about_vault)
    repeats = group_table(records, max_rows=most)
    for table in (repeats, leakage_table(records), synthesis_table(records)):
        if table is not None:
            out.print("", table)
    for sentence in violations(records):
        say(sentence, style="bold red")


def _standings(folder: SweepFolder, records: list[TrialRecord]) -> list[Standing]:
    from sweep.results.comparison import standings_of
    from trainables.errors import InvalidData, InvalidInput

    try:
        return standings_of(folder, records)
    except InvalidData:
        raise
    except InvalidInput:  # no metric that every trial has
        return []
