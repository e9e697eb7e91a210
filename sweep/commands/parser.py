"""`sweep parser`: train a parser on pairs and parse a file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from sweep.commands._options import DataFields, JsonFlag, Part, data_config_of
from sweep.commands._output import number, print_json, say, say_table
from trainables.errors import InvalidInput

_Pairs = Annotated[str, typer.Argument(metavar="NAME", help="A corpus of kind pairs.")]
_Literals = Annotated[
    Literal["copy", "anon"],
    typer.Option(help="Copy strings and numbers, or write placeholders."),
]
_Seed = Annotated[int, typer.Option(min=0, help="Seed of the training.")]


parser = typer.Typer(help="Train a parser and apply it.", no_args_is_help=True)


@parser.command()
def train(
    name: _Pairs,
    to: Annotated[Path, typer.Option(metavar="FOLDER", help="New folder for the parser.")],
    fields: DataFields = [],  # noqa: B006  typer copies it
    part: Annotated[Part, typer.Option(help="Part for training.")] = "train",
    test: Annotated[Part | None, typer.Option(help="Part for the scores after training.")] = None,
    without: Annotated[
        str | None,
        typer.Option(
            metavar="FUNCTION", help="Leave out pairs that use this function (NAME* for a prefix)."
        ),
    ] = None,
    epochs: Annotated[int, typer.Option(min=1, help="Number of epochs.")] = 16,
    literals: _Literals = "copy",
    seed: _Seed = 0,
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
        report=lambda epoch, loss: say(f"epoch {epoch + 1}/{epochs}: loss {loss:.3f}", stderr=True),
    )
    if as_json:
        print_json("parser train", facts)
        return
    scores = facts.pop("scores", {})
    for key, value in {**facts, **scores}.items():
        say(f"{key:24} {number(value)}")


@parser.command()
def adapt(
    name: _Pairs,
    without: Annotated[
        str,
        typer.Option(
            metavar="FUNCTION", help="Function removed from the public pairs (NAME* for a prefix)."
        ),
    ],
    synthetic: Annotated[
        list[str], typer.Option(metavar="NAME=FILE", help="Generated utterances; may be repeated.")
    ] = [],  # noqa: B006  typer copies it
    fields: DataFields = [],  # noqa: B006  typer copies it
    public_fraction: Annotated[float, typer.Option(help="Public share of the pairs.")] = 0.1,
    num_test: Annotated[int, typer.Option(min=2, help="Human pairs to test on.")] = 2_000,
    steps: Annotated[int, typer.Option(min=1, help="Training steps of each parser.")] = 2_500,
    literals: _Literals = "copy",
    seed: _Seed = 0,
    as_json: JsonFlag = False,
) -> None:
    """Remove a function from the public pairs and measure how much synthetic text restores.

    The rows are none, each synthetic set, and full (the private pairs). Results are not private.
    """
    from sweep.settings import from_environment
    from sweep.synthesis.adaptation import run_adaptation

    found = run_adaptation(
        data_config_of(name, fields),
        data_dir=from_environment().data_dir,
        rule=without,
        public_fraction=public_fraction,
        synthetic=synthetic,
        num_test=num_test,
        steps=steps,
        literals=literals,
        seed=seed,
        report=lambda text: say(text, stderr=True),
    )
    print_json("parser adapt", found) if as_json else _print_rows(found)


@parser.command()
def apply(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="A saved parser.")],
    utterances: Annotated[
        Path, typer.Argument(metavar="FILE", help="JSON lines with the field utterance.")
    ],
    to: Annotated[
        Path,
        typer.Option(metavar="FILE", help="New file of JSON lines with utterance and lispress."),
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


def _print_rows(found: dict[str, Any]) -> None:
    parts = ("with", "all", "without")
    figures = ("exact_match_anonymous", "api_precision", "api_recall")
    say_table(
        (
            "learnt from",
            "pairs",
            "with it",
            *(f"{kind} {part}" for part in parts for kind in ("EM", "P", "R")),
        ),
        (
            (
                name,
                f"{row['num_pairs']:,}",
                f"{row['num_with_function']:,}",
                *(
                    number(row["scores"].get(part, {}).get(figure), ".3f")
                    for part in parts
                    for figure in figures
                ),
            )
            for name, row in found["rows"].items()
        ),
        title=f"{found['function']}: exact match, API precision and recall",
    )
