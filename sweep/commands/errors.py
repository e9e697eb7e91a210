"""`sweep errors`: what a trial gets wrong, for the curator."""

from pathlib import Path
from typing import Annotated

import typer

from sweep.commands._options import EpsilonMax, JsonFlag
from sweep.commands._output import console, print_json, say

_SHOWN = 5  # lost utterances on a terminal


def errors(
    trial: Annotated[
        str,
        typer.Argument(
            metavar="SWEEP[:TRIAL]", help="A sweep (its best trial) or a trial."
        ),
    ],
    against: Annotated[
        str | None,
        typer.Option(
            metavar="SWEEP[:TRIAL]", help="Another trial in place of its baseline."
        ),
    ] = None,
    epsilon_max: EpsilonMax = None,
    to: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="New private file for every utterance that the baseline has right and"
            " the trial has not.",
        ),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Show every label.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Show what a trial gets wrong: labels, confusions, utterances that it lost.

    The trial's saved model reads the test records again. No epsilon covers what is
    shown, so it is for the curator alone: utterances are printed on a terminal or
    written to --to, never into a pipe, a log or MLflow.
    """
    from sweep.results import comparison, error_analysis
    from sweep.settings import from_environment

    settings = from_environment()
    side = comparison.side(settings.home, trial, epsilon_max=epsilon_max)
    other = None if against is None else comparison.side(settings.home, against)
    found = error_analysis.analyse(side, settings, against=other)
    if to is not None:
        error_analysis.write_lost(found, to)
    if as_json:
        print_json("errors", found.to_json())
        return
    out = console()
    for table in error_analysis.tables(found, every=every):
        out.print(table)
    say(error_analysis.NOTE)
    if found.baseline is None:
        say("The trial has no baseline to compare with: name one with --against.")
        return
    say(
        f"{len(found.lost)} of {found.num_records} utterances are right in"
        f" {found.baseline} and wrong here"
        + (f"; {to} has them." if to else "; --to FILE writes them.")
    )
    if out.is_terminal:
        say(*(f"  {' '.join(each.tokens)}" for each in found.lost[:_SHOWN]))
