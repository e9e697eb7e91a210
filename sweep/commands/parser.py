"""`sweep parser`: train a parser on pairs and parse a file."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from sweep.commands._options import DataFields, JsonFlag, Part, data_config_of
from sweep.commands._output import number, print_json, say
from trainables.errors import InvalidInput

parser = typer.Typer(help="Train a parser and apply it.", no_args_is_help=True)


@parser.command()
def train(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="A corpus of kind pairs.")
    ],
    to: Annotated[
        Path, typer.Option(metavar="FOLDER", help="New folder for the parser.")
    ],
    fields: DataFields = [],  # noqa: B006  typer copies it
    part: Annotated[Part, typer.Option(help="Part for training.")] = "train",
    test: Annotated[
        Part | None, typer.Option(help="Part for the scores after training.")
    ] = None,
    without: Annotated[
        str | None,
        typer.Option(
            metavar="FUNCTION",
            help="Leave out pairs that use this function (NAME* for a prefix).",
        ),
    ] = None,
    epochs: Annotated[int, typer.Option(min=1, help="Number of epochs.")] = 16,
    literals: Annotated[
        Literal["copy", "anon"],
        typer.Option(help="Copy strings and numbers, or write placeholders."),
    ] = "copy",
    seed: Annotated[int, typer.Option(min=0, help="Seed of the training.")] = 0,
    as_json: JsonFlag = False,
) -> None:
    """Train a parser on pairs and save it. Training is not private."""
    from sweep.settings import from_environment
    from sweep.synthesis.parsers import train_on
    from trainables.data.pairs import open_pairs
    from trainables.tasks.parsing import ParserSettings

    if to.exists() and any(to.iterdir() if to.is_dir() else [to]):
        raise InvalidInput(f"expected a new or empty folder, got {to}")
    facts = train_on(
        open_pairs(data_config_of(name, fields), data_dir=from_environment().data_dir),
        to=to,
        part=part,
        test=test,
        without=without,
        settings=ParserSettings(epochs=epochs, literals=literals),
        seed=seed,
        report=lambda epoch, loss: say(
            f"epoch {epoch + 1}/{epochs}: loss {loss:.3f}", stderr=True
        ),
    )
    if as_json:
        print_json("parser train", facts)
        return
    scores = facts.pop("scores", {})
    for key, value in {**facts, **scores}.items():
        say(f"{key:24} {number(value)}")


@parser.command()
def apply(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="A saved parser.")],
    utterances: Annotated[
        Path,
        typer.Argument(metavar="FILE", help="JSON lines with the field utterance."),
    ],
    to: Annotated[
        Path,
        typer.Option(
            metavar="FILE", help="New file of JSON lines with utterance and lispress."
        ),
    ],
    as_json: JsonFlag = False,
) -> None:
    """Parse every utterance of a file."""
    from sweep.synthesis.parsers import parse_file

    count = parse_file(folder, utterances, to)
    if as_json:
        print_json("parser apply", {"file": str(to), "num_records": count})
    else:
        say(f"{to}: {count} programs")
