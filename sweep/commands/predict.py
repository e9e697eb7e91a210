"""`sweep predict`: an exported model on utterances from standard input."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from sweep.commands._shared import JsonFlag

_BATCH = 256  # lines at a time: what is held does not grow with the input


def register(app: typer.Typer) -> None:
    """Add the command."""

    @app.command()
    def predict(
        folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="What `sweep export` made.")],
        as_json: JsonFlag = False,
    ) -> None:
        """Read utterances, one a line, from standard input; print intent and slots of each."""
        import json
        from itertools import islice

        from sweep.results.predict import load_model
        from trainables.errors import InvalidInput

        model = load_model(folder)
        lines = iter(sys.stdin.buffer)
        done = 0
        while taken := list(islice(lines, _BATCH)):
            texts = []
            for number, line in enumerate(taken, start=done + 1):
                try:
                    text = line.decode("utf-8").strip()
                except UnicodeDecodeError:
                    raise InvalidInput(f"expected UTF-8 text in line {number}") from None
                if not text:
                    raise InvalidInput(f"expected an utterance in line {number}, got none")
                texts.append(text)
            done += len(taken)
            for found in model(texts):
                if as_json:
                    typer.echo(json.dumps(found.to_dict(), ensure_ascii=False))
                else:
                    slots = " ".join(f"{name}={text!r}" for name, _, _, text in found.slots)
                    typer.echo(f"{found.intent}\t{slots}")
