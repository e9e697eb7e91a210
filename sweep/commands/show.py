"""`sweep show`: the results of a sweep."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from sweep.commands._shared import JsonFlag, Name, console, print_json, summary

if TYPE_CHECKING:
    from sweep.results.standing import Standing
    from sweep.store.sweeps import SweepFolder, TrialRecord


_MOST_ROWS = 200  # a table of ten thousand takes long and helps nobody


def register(app: typer.Typer) -> None:
    """Add the command."""

    @app.command()
    def show(
        name: Name,
        every: Annotated[
            bool, typer.Option("--all", help=f"Every trial, also of more than {_MOST_ROWS}.")
        ] = False,
        as_json: JsonFlag = False,
    ) -> None:
        """Show every trial beside the baseline, and the front of SER and epsilon."""
        from sweep.results import select
        from sweep.results.exported import damages
        from sweep.results.leakage_table import leakage_table, violations
        from sweep.results.selected_trial import sentence_of
        from sweep.results.table import group_table, results_table
        from sweep.settings import from_environment
        from sweep.store import sweeps as store
        from sweep.synthesis.table import synthesis_table
        from trainables import figures, formats

        folder = store.open_sweep(from_environment().home, name)
        records = folder.records()
        where = _where(folder, records)
        if as_json:
            best = None
            if where is not None:
                best = {
                    "group": where.best.key,
                    "trial": where.best.middle(where.metric).plan.id,
                    "by": where.metric,
                    "cannot_be_told_apart_from": [group.key for group in where.untold],
                    "compared": list(where.ways),
                }
            print_json({**summary(folder), "best": best, "damages": damages(folder, records)})
            return
        out = console()
        most = None if every else _MOST_ROWS
        out.print(results_table(name, records, max_rows=most))
        if most is not None and len(records) > most:
            out.print(
                f"{most} of {len(records)} trials: baselines, the front and the best; --all shows"
                " every one",
                soft_wrap=True,
            )
        for sentence in damages(folder, records).values():
            out.print(sentence, style="bold red", markup=False, soft_wrap=True)
        if (about_vault := sentence_of(folder)) is not None:
            out.print(about_vault, markup=False, soft_wrap=True)
        groups = group_table(records, max_rows=most)
        if groups is not None:
            out.print(groups)
        for table in (leakage_table(records), synthesis_table(records)):
            if table is not None:
                out.print(table)
        for sentence in violations(records):
            out.print(sentence, style="bold red", markup=False, soft_wrap=True)
        if where is not None:
            out.print(where.sentence(), markup=False, soft_wrap=True)
        _print_answers(folder, records, where)
        for record in select.front(records):
            main = select.headline(records)
            good, epsilon = (
                formats.figure(key, select.value(record, key)) for key in (main, "epsilon")
            )
            out.print(
                f"front: {record.plan.id} {figures.label(main)} {good} at epsilon {epsilon}:"
                f" {record.plan.name}",
                markup=False,
                soft_wrap=True,
            )


def _where(folder: SweepFolder, records: list[TrialRecord]) -> Standing | None:
    from sweep.results.comparison import standing_of
    from trainables.errors import InvalidData, InvalidInput

    try:
        return standing_of(folder, records)
    except InvalidData:
        raise
    except InvalidInput:  # no metric that every trial has
        return None


def _print_answers(folder: SweepFolder, records: list[TrialRecord], where: Standing | None) -> None:
    """Which axis mattered, what the sweep cost together, what to try next."""
    from sweep.results.importance import importance
    from sweep.search.advice import advice
    from sweep.store.trial_names import label
    from trainables.errors import InvalidInput

    out = console()
    try:
        found = importance(records)
        said = advice(folder.space(), records, found, where)
    except InvalidInput:  # no metric that every trial has
        return
    if found is not None:
        shares = ", ".join(f"{label(path)} {100 * s:.0f} %" for path, s in found.shares.items())
        out.print(
            f"what mattered for {found.metric}: {shares} (a forest over {found.num_configurations}"
            f" configurations, R² {found.explained:.2f} out of bag)",
            markup=False,
            soft_wrap=True,
        )
    for sentence in said:
        out.print(f"next: {sentence}", markup=False, soft_wrap=True)
