"""Options of the commands that read a file of utterances."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

if TYPE_CHECKING:
    from trainables.file_formats import Source


Tokenize = Literal["space", "punctuation"]
Data = Annotated[
    Path, typer.Argument(metavar="DATA", help="A file or folder of utterances.", show_default=False)
]
SkipInvalid = Annotated[
    bool, typer.Option("--skip-invalid", help="Skip records that cannot be read.")
]


@dataclass(frozen=True, kw_only=True)
class SourceOptions:
    """Options for reading a file of utterances, shared by several commands."""

    form: Annotated[
        str | None,
        typer.Option("--format", metavar="FORM", help="Format of the file; default: detected."),
    ] = None
    text: Annotated[
        str | None,
        typer.Option(metavar="FIELD", help="Field (or column, also by number) of the text."),
    ] = None
    intent: Annotated[str | None, typer.Option(metavar="FIELD", help="Field of the intent.")] = None
    tags: Annotated[str | None, typer.Option(metavar="FIELD", help="Field of the BIO tags.")] = None
    slots: Annotated[
        str | None, typer.Option(metavar="FIELD", help="Field of the slots' spans.")
    ] = None
    part: Annotated[
        str | None,
        typer.Option("--part", metavar="FIELD", help="Field of train, validation or test."),
    ] = None
    group: Annotated[
        str | None, typer.Option(metavar="FIELD", help="Field of the record group, such as a user.")
    ] = None
    tokenize: Annotated[
        Tokenize,
        typer.Option("--tokenize", help="Tokenize at spaces only, or also at punctuation."),
    ] = "space"
    spans: Annotated[
        Literal["tokens", "characters", "utf-16", "bytes", "last-token"] | None,
        typer.Option("--spans", help="Unit of spans; default: the one that fits them."),
    ] = None
    header: Annotated[
        bool | None,
        typer.Option("--header/--no-header", help="Whether the first line names the columns."),
    ] = None
    encoding: Annotated[
        str | None, typer.Option(metavar="NAME", help="Encoding of the text; default: detected.")
    ] = None

    def source(self, data: Path) -> Source:
        """The source of the file or folder.

        Raises: InvalidInput for an unknown encoding, and see `file_formats.open_source`.
        """
        from trainables.errors import InvalidInput
        from trainables.file_formats import Options, open_source

        if self.encoding is not None:
            try:
                "a".encode(self.encoding)
            except LookupError:
                raise InvalidInput(
                    f"expected --encoding to be one such as cp1250, got {self.encoding!r}"
                ) from None
        options = asdict(self)
        form = options.pop("form")
        return open_source(data, options=Options(**options), form=form)


def takes_source_options(command: Callable[..., None]) -> Callable[..., None]:
    """`command` with every option of `SourceOptions` in the place of its parameter `options`."""
    options = inspect.signature(SourceOptions, eval_str=True).parameters
    parameters = [
        parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
        for own in inspect.signature(command, eval_str=True).parameters.values()
        for parameter in (options.values() if own.name == "options" else (own,))
    ]

    @functools.wraps(command)
    def run(**given: Any) -> None:
        chosen = SourceOptions(**{name: given.pop(name) for name in options})
        command(**given, options=chosen)

    # typer reads the signature.
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {each.name: each.annotation for each in parameters}
    return run
