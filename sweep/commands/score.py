"""`sweep score`: every metric of anybody's predictions."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sweep.commands._shared import JsonFlag, console, print_json
from trainables.errors import InvalidInput

if TYPE_CHECKING:
    from trainables.metrics import NluScores


class Align(StrEnum):
    """How reference and hypothesis slots are paired."""

    NAME = "name"
    EDIT = "edit"


class Match(StrEnum):
    """What makes a slot right."""

    SPAN = "span"
    VALUE = "value"


def register(app: typer.Typer) -> None:
    """Add the command."""

    @app.command()
    def score(
        reference: Annotated[
            Path | None, typer.Option(metavar="FILE", help="JSON lines of what is right.")
        ] = None,
        hypothesis: Annotated[
            Path | None, typer.Option(metavar="FILE", help="JSON lines of what was predicted.")
        ] = None,
        align: Annotated[Align, typer.Option(help="Pair slots by name or by edits.")] = Align.NAME,
        match: Annotated[
            Match, typer.Option(help="A slot is right by its tokens or by its text.")
        ] = Match.SPAN,
        bootstrap_samples: Annotated[
            int, typer.Option(min=0, help="Resamples of the intervals; 0 for none.")
        ] = 1_000,
        seed: Annotated[int, typer.Option(min=0, help="Seed of the resamples.")] = 0,
        as_json: JsonFlag = False,
    ) -> None:
        """Score predicted intents and slots: one object a line with text, intent and slots.

        Slots are [name, start, end] in tokens of the text, cut at white space, end exclusive.
        """
        if reference is None or hypothesis is None:
            raise InvalidInput("expected --reference FILE and --hypothesis FILE")
        found = score_files(
            reference,
            hypothesis,
            align=align,
            match=match,
            bootstrap_samples=bootstrap_samples,
            seed=seed,
        )
        if as_json:
            print_json({**found.as_dict(), "align": str(align), "match": str(match)})
            return
        _print(found)


def score_files(
    reference: Path,
    hypothesis: Path,
    *,
    align: Align,
    match: Match,
    bootstrap_samples: int,
    seed: int,
) -> NluScores:
    """The metrics of two files.

    Raises: InvalidInput for files that are damaged or do not belong together.
    """
    from sweep.line_files import read_frames, refuse_unless_aligned
    from trainables import metrics

    right, guess = read_frames(reference), read_frames(hypothesis)
    refuse_unless_aligned(right, guess, spans=match is Match.SPAN)
    return metrics.score(
        right.frames,
        guess.frames,
        align=align.value,
        match=match.value,
        tokens=right.tokens,
        hypothesis_tokens=guess.tokens,
        bootstrap_samples=bootstrap_samples,
        seed=seed,
    )


def _print(found: NluScores) -> None:
    from rich.table import Table

    table = Table("metric", "value", "95 %")
    figures = found.as_dict()
    for name, value in figures.items():
        if name.endswith(("_low", "_high")):
            continue
        low, high = figures.get(f"{name}_low"), figures.get(f"{name}_high")
        shown = f"{value:d}" if isinstance(value, int) else f"{value:.4f}"
        table.add_row(name, shown, "" if low is None else f"{low:.4f} to {high:.4f}")
    console().print(table)
