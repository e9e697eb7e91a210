"""`sweep score`: every metric of anybody's predictions."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from sweep.commands._shared import JsonFlag, console, print_json
from trainables.errors import InvalidInput


class Align(StrEnum):
    """How reference and hypothesis slots are paired."""

    NAME = "name"
    EDIT = "edit"


class MauveBy(StrEnum):
    """Whose MAUVE."""

    OWN = "own"
    PACKAGE = "package"


class ApiList(StrEnum):
    """Whose API names the sub-graphs of the API match begin with."""

    SMCALFLOW = "smcalflow"
    TREEDST = "treedst"


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
        human: Annotated[
            Path | None, typer.Option(metavar="FILE", help="JSON lines of human text.")
        ] = None,
        synthetic: Annotated[
            Path | None, typer.Option(metavar="FILE", help="JSON lines of generated text.")
        ] = None,
        parser: Annotated[
            Path | None,
            typer.Option(metavar="FOLDER", help="A saved parser: programs of the generated text."),
        ] = None,
        lm: Annotated[
            Path | None,
            typer.Option(
                metavar="FOLDER",
                help="An exported text model or a causal LM, for losses.",
            ),
        ] = None,
        mauve_texts: Annotated[
            int, typer.Option(min=0, help="Most texts of a side in MAUVE; 0 leaves it out.")
        ] = 2_000,
        mauve_by: Annotated[
            MauveBy, typer.Option(help="This project's MAUVE or its authors' (an extra).")
        ] = MauveBy.OWN,
        gold: Annotated[
            Path | None, typer.Option(metavar="FILE", help="JSON lines of programs that are right.")
        ] = None,
        predicted: Annotated[
            Path | None, typer.Option(metavar="FILE", help="JSON lines of predicted programs.")
        ] = None,
        api_set: Annotated[
            ApiList | None, typer.Option(help="API names of the match; default: what fits.")
        ] = None,
        function: Annotated[
            str | None,
            typer.Option(metavar="NAME", help="Also with and without NAME (NAME*: a beginning)."),
        ] = None,
        seed: Annotated[int, typer.Option(min=0, help="Seed of resamples and halves.")] = 0,
        as_json: JsonFlag = False,
    ) -> None:
        """Score predictions, parses or generated text; one object a line.

        --reference and --hypothesis: text, intent and slots, each a list of name, start and end in
        tokens of the text, cut at white space, end exclusive. --human and --synthetic: utterance
        and, where it is known, lispress; a synthetic object may have loss (nats of the whole text
        under a language model) and num_tokens. --gold and --predicted: lispress, aligned by line.
        """
        refuse_unless_one_pair(
            {
                ("reference", "hypothesis"): (reference, hypothesis),
                ("human", "synthetic"): (human, synthetic),
                ("gold", "predicted"): (gold, predicted),
            }
        )
        if lm is not None and synthetic is None:
            raise InvalidInput("expected --lm with --human FILE and --synthetic FILE alone")
        if human is not None and synthetic is not None:
            from sweep.synthesis.score_texts import score_generated

            texts = score_generated(
                human,
                synthetic,
                mauve_texts=mauve_texts,
                mauve_by=mauve_by.value,
                seed=seed,
                parser=parser,
                lm=lm,
            )
            print_json(texts) if as_json else _print_figures(texts)
            return
        if gold is not None and predicted is not None:
            from sweep.synthesis.score_texts import score_predicted

            parses = score_predicted(
                gold,
                predicted,
                api_set=None if api_set is None else api_set.value,
                function=function,
            )
            print_json(parses) if as_json else _print_parses(parses)
            return
        assert reference is not None  # the one pair that is left
        assert hypothesis is not None
        from sweep.results.score_files import score_files

        found = score_files(
            reference,
            hypothesis,
            align=align.value,
            match=match.value,
            bootstrap_samples=bootstrap_samples,
            seed=seed,
        )
        if as_json:
            print_json({**found, "align": str(align), "match": str(match)})
            return
        _print(found)


def refuse_unless_one_pair(given: dict[tuple[str, str], tuple[Path | None, Path | None]]) -> None:
    """Raises: InvalidInput unless exactly one pair of files was given, and whole."""
    some = [pair for pair, files in given.items() if any(file is not None for file in files)]
    if len(some) == 1 and all(file is not None for file in given[some[0]]):
        return
    pairs = [f"--{one} FILE and --{other} FILE" for one, other in (some[:1] or given)]
    raise InvalidInput(f"expected {', or '.join(pairs)}{' alone' if len(some) > 1 else ''}")


def _print_figures(found: Mapping[str, Any]) -> None:
    """Figures with the human ceiling beside each."""
    from rich.table import Table

    beside = ("human_ceiling", "ground_truth")
    table = Table("metric", "value", *(name.replace("_", " ") for name in beside))
    for name, value in found.items():
        if not name.endswith(beside):
            table.add_row(name, *map(_shown, (value, *(found.get(f"{name}_{b}") for b in beside))))
    console().print(table)


def _print_parses(found: dict[str, Any]) -> None:
    """Figures, for a function also on the records with and without it."""
    from rich.table import Table

    sets = {"all": found, **found.get("by_function", {})}
    table = Table("metric", *sets)
    for name, value in found.items():
        if isinstance(value, dict):
            continue
        table.add_row(name, *(_shown(figures.get(name)) for figures in sets.values()))
    console().print(table)


def _shown(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:.4f}" if isinstance(value, float) else str(value)


def _print(found: Mapping[str, float]) -> None:
    from rich.table import Table

    table = Table("metric", "value", "95 %")
    for name, value in found.items():
        if name.endswith(("_low", "_high")):
            continue
        low, high = found.get(f"{name}_low"), found.get(f"{name}_high")
        shown = f"{value:d}" if isinstance(value, int) else f"{value:.4f}"
        table.add_row(name, shown, "" if low is None else f"{low:.4f} to {high:.4f}")
    console().print(table)
