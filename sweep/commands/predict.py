"""`sweep predict`: an exported model on utterances from standard input."""

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from sweep.commands._options import Factory, JsonFlag
from trainables.data.tokenization import Tokenization

_LINE_BYTES = 1 << 20


def predict(
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="Folder made by `sweep export`.")
    ],
    tokenize: Annotated[
        Tokenization | None,
        typer.Option(help="Tokenization; default: that of the training texts."),
    ] = None,
    jsonl: Annotated[
        bool,
        typer.Option("--jsonl", help="Lines are JSON objects with tokens or text."),
    ] = False,
    factory: Factory = None,
    as_json: JsonFlag = False,
) -> None:
    """Read one utterance per line from standard input and print its intent and slots.

    With --json each line of output has the format of `sweep score --hypothesis`. For an
    invalid line the problem is printed instead, and the exit code is 2.
    """
    from sweep.results.predict import answers, load_model
    from trainables.errors import InvalidInput
    from trainables.io.files import line_groups

    model = load_model(folder, tokenize=tokenize, factory=factory)
    number = num_bad = first_bad = 0
    for number, found in answers(
        model, line_groups(sys.stdin.buffer, max_bytes=_LINE_BYTES), are_objects=jsonl
    ):
        if isinstance(found, str):
            num_bad += 1
            first_bad = first_bad or number
            text, answer = (
                f"error: line {number}: {found}",
                {"error": found, "line": number},
            )
        else:
            slots = " ".join(f"{name}={text!r}" for name, _, _, text in found.slots)
            text, answer = f"{found.intent}\t{slots}", found.to_dict()
        typer.echo(json.dumps(answer, ensure_ascii=False) if as_json else text)
    if num_bad:
        raise InvalidInput(
            f"expected an utterance in each line, got {num_bad} of {number} lines"
            f" without one (the first is line {first_bad})"
        )
