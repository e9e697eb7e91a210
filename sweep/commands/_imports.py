"""Options of the commands that read a file of utterances."""

import functools
import inspect
import sys
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from sweep.commands._output import say
from trainables.data.formats import Options, Source, open_source

Data = Annotated[
    Path,
    typer.Argument(
        metavar="DATA", help="A file or folder of utterances.", show_default=False
    ),
]
SkipInvalid = Annotated[
    bool, typer.Option("--skip-invalid", help="Skip records that cannot be read.")
]
NoSample = Annotated[
    bool,
    typer.Option("--no-sample", help="On a terminal, do not show three records."),
]
# Of each field of `Options`: its metavar, and its help.
_HELP = {
    "text": (
        "FIELD",
        "Field of the text: its name, a column's number, or a JMESPath expression.",
    ),
    "tokens": ("FIELD", "Field of the list of tokens."),
    "intent": ("FIELD", "Field of the intent."),
    "tags": ("FIELD", "Field of the BIO tags."),
    "slots": ("FIELD", "Field of the slots' spans."),
    "part": ("FIELD", "Field of train, validation or test."),
    "group": (
        "FIELD",
        "Field of the record's group, such as a user: the unit of user-level privacy.",
    ),
    "tokenize": (
        None,
        "Tokenize at spaces only, also at punctuation, or also each character of a"
        " script without spaces.",
    ),
    "spans": (None, "Unit of spans; default: the one that fits them."),
    "marks": (
        None,
        "Slots in the text: in brackets as of Rasa, <slot>value</slot>,"
        " [slot : value], or {slot}.",
    ),
    "names": ("NAMES", "Names of numbered tags from 0, such as O,B-city,I-city."),
    "header": (None, "Whether the first line names the columns."),
    "encoding": ("NAME", "Encoding of the text; default: detected."),
}


@dataclass(frozen=True)
class Reading:
    """How a file of utterances is read; `form` None: by its detected format."""

    form: str | None
    options: Options

    def source(self, data: Path) -> Source:
        """The source of the file or folder.

        Raises: InvalidInput for an unknown encoding, and see
        `file_formats.open_source`.
        """
        from trainables.errors import InvalidInput

        if (encoding := self.options.encoding) is not None:
            try:
                "a".encode(encoding)
            except LookupError:
                raise InvalidInput(
                    f"expected --encoding to be one such as cp1250, got {encoding!r}"
                ) from None
        return open_source(data, options=self.options, form=self.form)


def say_samples(source: Source, *, no_sample: bool) -> None:
    """Show some records as they were read, on a terminal alone: they are private."""
    from sweep.imports.inspection import samples

    if sys.stdout.isatty() and not no_sample:
        say(*samples(source), style="dim")


def takes_source_options(command: Callable[..., None]) -> Callable[..., None]:
    """`command` with `--format` and an option for each field of `Options` in the place
    of its parameter `options`, a `Reading`.
    """
    hints, keyword = get_type_hints(Options), inspect.Parameter.KEYWORD_ONLY
    form = typer.Option(
        None, "--format", metavar="FORM", help="Format of the file; default: detected."
    )
    options = [inspect.Parameter("form", keyword, default=form, annotation=str | None)]
    for each in fields(Options):
        metavar, words = _HELP[each.name]
        option = typer.Option(each.default, metavar=metavar, help=words)
        annotation = hints[each.name]
        options.append(
            inspect.Parameter(each.name, keyword, default=option, annotation=annotation)
        )
    parameters = [
        parameter.replace(kind=keyword)
        for own in inspect.signature(command, eval_str=True).parameters.values()
        for parameter in (options if own.name == "options" else (own,))
    ]

    @functools.wraps(command)
    def run(**given: Any) -> None:
        named = {each.name: given.pop(each.name) for each in options}
        command(**given, options=Reading(named.pop("form"), Options(**named)))

    # typer reads the signature.
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {each.name: each.annotation for each in parameters}
    return run
