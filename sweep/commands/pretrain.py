"""`sweep pretrain`: an encoder from public corpora, for private heads."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sweep.commands._options import JsonFlag, Set, overrides
from sweep.commands._output import console, print_json, say

if TYPE_CHECKING:
    from collections.abc import Callable

    from trainables.pretraining.loop import Progress


def pretrain(
    file: Annotated[
        Path | None,
        typer.Argument(
            metavar="[FILE]", help="YAML file with encoder, corpora and epochs (see docs)."
        ),
    ] = None,
    public: Annotated[
        list[str],
        typer.Option(metavar="NAME", help="Without a file: train MiniLM on this public corpus."),
    ] = [],  # noqa: B006  typer copies it
    to: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Default: encoders/NAME under $SWEEP_HOME."),
    ] = None,
    assignments: Set = [],  # noqa: B006  typer copies it
    bits: Annotated[int, typer.Option(metavar="8|16|32", help="Bits per stored weight.")] = 32,
    as_json: JsonFlag = False,
) -> None:
    """Pretrain an encoder on public corpora. The same command resumes an interrupted run."""
    from sweep.planning.pretraining import read_pretraining, run_pretraining
    from sweep.settings import from_environment

    settings = from_environment()
    config = read_pretraining(file, overrides(assignments), public=public)
    place = to or settings.home / "encoders" / config.name
    card = run_pretraining(config, place, settings, bits=bits, report=_reporter(as_json))
    if as_json:
        print_json("pretrain", {"folder": str(place), "card": card})
        return
    for each in card["corpora"]:
        say(
            f"{each['name']}: {each['records']:,} records, {each['texts_left_out']} left out;"
            f" held out: intents {each['held_out_intent_accuracy']:.3f},"
            f" tags {each['held_out_tag_accuracy']:.3f}"
        )
    say(f"encoder in {place}; use it with model.encoder={place}")


def _reporter(quiet: bool) -> Callable[[Progress], None]:
    """One line that is rewritten on a terminal, a line every 50 reports elsewhere."""
    out = console(stderr=True)
    shown: dict[str, Any] = {"reports": 0}

    def report(progress: Progress) -> None:
        if quiet:
            return
        minutes, seconds = divmod(round(progress.seconds_left), 60)
        line = (
            f"step {progress.step:,} of {progress.steps:,}, loss {progress.loss:.3f},"
            f" {minutes}:{seconds:02d} left"
        )
        last = progress.step == progress.steps
        if out.is_terminal:
            out.print(line, end="\n" if last else "\r", markup=False)
        elif last or shown["reports"] % 50 == 0:
            out.print(line, markup=False)
        shown["reports"] += 1

    return report
