"""`sweep pretrain`: an encoder from public corpora, for private heads."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sweep.commands._options import JsonFlag, Set, overrides
from sweep.commands._output import print_json, say

if TYPE_CHECKING:
    from trainables.pretraining.loop import Progress


def pretrain(
    file: Annotated[
        Path | None,
        typer.Argument(
            metavar="[FILE]",
            help="YAML file with encoder, corpora and epochs (see docs).",
        ),
    ] = None,
    public: Annotated[
        list[str],
        typer.Option(
            metavar="NAME", help="Without a file: train MiniLM on this public corpus."
        ),
    ] = [],  # noqa: B006  typer copies it
    to: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER", help="Default: encoders/NAME under $SWEEP_HOME."
        ),
    ] = None,
    assignments: Set = [],  # noqa: B006  typer copies it
    bits: Annotated[
        int, typer.Option(metavar="8|16|32", help="Bits per stored weight.")
    ] = 32,
    as_json: JsonFlag = False,
) -> None:
    """Pretrain an encoder on public corpora; the same command resumes a stopped run."""
    from sweep.planning.pretraining import read_pretraining, run_pretraining
    from sweep.settings import from_environment
    from trainables.formats import duration

    settings = from_environment()
    config = read_pretraining(file, overrides(assignments), public=public)
    place = to or settings.home / "encoders" / config.name
    reports = itertools.count()

    def report(progress: Progress) -> None:
        if not as_json and (next(reports) % 5 == 0 or progress.step == progress.steps):
            say(
                f"step {progress.step:,} of {progress.steps:,}, loss"
                f" {progress.loss:.3f}, {duration(progress.seconds_left)} left",
                stderr=True,
            )

    card = run_pretraining(config, place, settings, bits=bits, report=report)
    if as_json:
        print_json("pretrain", {"folder": str(place), "card": card})
        return
    for each in card["corpora"]:
        say(
            f"{each['name']}: {each['records']:,} records, {each['texts_left_out']}"
            f" left out; held out: intents {each['held_out_intent_accuracy']:.3f}, tags"
            f" {each['held_out_tag_accuracy']:.3f}"
        )
    say(f"encoder in {place}; use it with model.encoder={place}")
