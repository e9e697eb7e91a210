"""How commands print: sentences and tables for people, JSON for programs."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.console import Console
    from rich.text import Text

    from sweep.results.tables.fitting import FittedTable
    from sweep.runtime.runner import Run


def print_json(name: str, value: Any) -> None:
    """One JSON document on stdout, with the name and version of its schema (see
    `docs/reference/json.md`); infinity is the string "inf", what is no number is null.
    """
    typer.echo(json.dumps(document(name, value), indent=1, allow_nan=False))


def document(name: str, value: Any) -> dict[str, object]:
    """What is printed of a value under the schema of this name."""
    from sweep.commands._schemas import schema
    from trainables.dp.accounting.summary import plain

    return {"schema": f"{name}/{schema(name).version}", **plain(value)}


def console(*, stderr: bool = False) -> Console:
    """Where people read."""
    from rich.console import Console

    out = Console(stderr=stderr, highlight=False)
    if not out.is_terminal and not os.environ.get("COLUMNS", "").isdigit():
        out.width = 140  # a file or a pipe has no edge at which tables must be cut
    return out


def say(*lines: str, style: str | None = None, stderr: bool = False) -> None:
    """Print lines as they are: nothing is markup. A terminal breaks a long one at spaces."""
    out = console(stderr=stderr)
    for line in lines:
        out.print(line, style=style, markup=False, soft_wrap=not out.is_terminal)


def number(value: Any, form: str = ".4f") -> str:
    """A cell of a table: floats in `form`, others as they are, "-" for what is not
    known.
    """
    if value is None:
        return "-"
    return format(value, form) if isinstance(value, float) else str(value)


def say_table(
    columns: Iterable[str],
    rows: Iterable[Iterable[str | Text]],
    *,
    title: str | None = None,
    caption: str | None = None,
    right: bool = False,
) -> None:
    """Print a table, in which no cell is markup; with `right`, all columns but the
    first are aligned to the right.
    """
    from rich import box
    from rich.table import Table

    table = Table(
        title=title,
        caption=caption,
        box=box.SIMPLE_HEAD,
        show_edge=False,
        title_style="bold",
        title_justify="left",
    )
    for place, column in enumerate(columns):
        table.add_column(column, justify="right" if right and place else "left")
    for row in rows:
        table.add_row(*row)
    console().print(table, markup=False)


def finish(
    done: Run, *, as_json: bool, export: bool, epsilon_max: float | None = None
) -> None:
    """Print what a run has found, and export its best trial; exit with 1 where a trial
    or the export failed.

    Raises: TrialFailed where one of them failed.
    """
    from sweep.best_effort import BestEffort
    from sweep.results.export import export_best
    from sweep.results.frame import read, summary
    from sweep.results.selected_trial import sentence_of
    from sweep.results.tables.trials import results_table, taken_over, violations
    from sweep.results.utility_gap import gaps
    from sweep.search.source import unrun
    from sweep.store.state import TrialStatus
    from trainables.errors import TrialFailed

    folder = done.folder
    records = read(folder, running=False)
    left = unrun(folder, records)
    if as_json:
        best = export_best(folder, epsilon_max) if export else None
        facts = {
            **summary(folder, records),
            "tracking_problem": done.tracking_problem,
            "exported": best and best.place,
            "not_exported": best.sentence if best and best.place is None else None,
            "unrun": left,
        }
        print_json("run", facts)
    else:
        answers: list[str] = []
        table: FittedTable | str = ""
        with BestEffort(
            "the table of results", then=lambda problem: "the results are on the disk"
        ):
            found = gaps(records)
            answers = [sentence for each in found for sentence in each.sentences()]
            best_ids = {each.best.plan.id for each in found if each.best}
            table = results_table(folder.name, records, answers=best_ids)
        say(*answers, style="bold")
        console().print(table)  # a stream that takes nothing is the command's failure
        say(*taken_over(records))
        say(*violations(records), style="bold red")
        say(*filter(None, [sentence_of(folder)]))
        say(*left, style="yellow")
        say(f"results: {folder.path} (`sweep show {folder.name}`)")
        best = export_best(folder, epsilon_max) if export else None
        if best is not None and not best.has_failed:
            say(best.sentence)
        say(f"view: `sweep ui`; a page to share: `sweep report {folder.name}`")
    failures = []
    if failed := sum(record.status is TrialStatus.FAILED for record in records):
        failures.append(
            f"{failed} of {len(records)} trials failed (`sweep show {folder.name}`)"
        )
    if best is not None and best.has_failed:
        failures.append(
            f"{best.sentence} (`sweep export {folder.name}` tries it again)"
        )
    if failures:
        raise TrialFailed("; ".join(failures))
