"""Options of the commands that read a file of utterances."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from trainables.file_formats import Source


class Tokenize(StrEnum):
    """How a text is cut into tokens."""

    SPACE = "space"
    PUNCTUATION = "punctuation"


class Spans(StrEnum):
    """What spans count."""

    TOKENS = "tokens"
    CHARACTERS = "characters"


Data = Annotated[
    Path, typer.Argument(metavar="DATA", help="A file or folder of utterances.", show_default=False)
]
Form = Annotated[
    str | None, typer.Option("--format", metavar="FORM", help="Its form; default: what fits.")
]
Text = Annotated[
    str | None,
    typer.Option(metavar="FIELD", help="Field (or column, also by number) of the words."),
]
Intent = Annotated[str | None, typer.Option(metavar="FIELD", help="Field of the intent.")]
Tags = Annotated[str | None, typer.Option(metavar="FIELD", help="Field of the BIO tags.")]
Slots = Annotated[str | None, typer.Option(metavar="FIELD", help="Field of the slots' spans.")]
PartField = Annotated[
    str | None, typer.Option("--part", metavar="FIELD", help="Field of train, validation or test.")
]
Group = Annotated[
    str | None, typer.Option(metavar="FIELD", help="Field of whose record it is, such as a user.")
]
TokenizeOption = Annotated[
    Tokenize, typer.Option("--tokenize", help="Cut a text at spaces, or signs off words too.")
]
SpansOption = Annotated[
    Spans | None, typer.Option("--spans", help="What spans count; default: what fits them all.")
]
Separator = Annotated[
    str | None,
    typer.Option("--intent-separator", metavar="SIGN", help="Between several intents of a record."),
]
Header = Annotated[
    bool | None,
    typer.Option("--header/--no-header", help="Whether the first line names the columns."),
]


SkipInvalid = Annotated[
    bool, typer.Option("--skip-invalid", help="Leave out records that cannot be read.")
]


def source(
    data: Path,
    form: str | None,
    *,
    text: str | None,
    intent: str | None,
    tags: str | None,
    slots: str | None,
    part: str | None,
    group: str | None,
    tokenize: Tokenize,
    spans: Spans | None,
    intent_separator: str | None,
    header: bool | None,
) -> Source:
    """The file or folder, ready to be read.

    Raises: InvalidInput for an empty separator, and see `file_formats.open_source`.
    """
    from trainables.errors import InvalidInput
    from trainables.file_formats import Options, open_source

    if intent_separator is not None and not intent_separator.strip():
        raise InvalidInput(
            f"expected --intent-separator to be a sign such as '#', got {intent_separator!r}"
        )
    chosen = Options(
        text=text,
        intent=intent,
        tags=tags,
        slots=slots,
        part=part,
        group=group,
        tokenize=tokenize.value,
        spans=None if spans is None else spans.value,
        intent_separator=intent_separator,
        header=header,
    )
    return open_source(data, options=chosen, form=form)
