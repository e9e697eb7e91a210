"""`sweep init`: a corpus, a label schema and a first space from the user's file."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from sweep.commands import _imports as own
from sweep.commands._options import JsonFlag
from sweep.commands._output import print_json, say
from trainables.dp.engines.configs import Covers


@own.takes_source_options
def init(
    data: own.Data,
    to: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="New folder; default: DATA's name."),
    ] = None,
    epsilon: Annotated[
        float | None,
        typer.Option(
            help="Guaranteed epsilon of the private trials together; default: 8."
        ),
    ] = None,
    num_records: Annotated[
        int | None,
        typer.Option(
            min=2,
            help="Public number of training records; default: the actual number,"
            " rounded.",
        ),
    ] = None,
    schema: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Label schema; default: the labels found in 5 records or more.",
        ),
    ] = None,
    keep_rare_labels: Annotated[
        bool,
        typer.Option(
            "--keep-rare-labels",
            help="Also labels found in fewer records, which they reveal.",
        ),
    ] = False,
    covers: Annotated[
        Covers,
        typer.Option(
            help="Records that epsilon covers: those that train, or all of the file."
        ),
    ] = "training",
    *,
    options: own.Reading,
    skip_invalid: own.SkipInvalid = False,
    no_sample: own.NoSample = False,
    as_json: JsonFlag = False,
) -> None:
    """Make a corpus, a label schema and a first space from a file of utterances.

    Output consists of counts and names of fields, without any text. On a terminal it
    prompts for the epsilon if none is given, and shows the first three records as they
    were read.
    """
    from sweep.imports.inspection import FEW, doubts
    from sweep.imports.start import SPACE, start
    from trainables.data.schema import read_schema
    from trainables.dp.engines.configs import LEAST_TARGET_EPSILON
    from trainables.errors import InvalidInput
    from trainables.formats import argument

    if keep_rare_labels and schema is not None:
        raise InvalidInput(
            "expected --keep-rare-labels without --schema, which has the labels"
        )
    if epsilon is None:
        epsilon = 8.0
        if sys.stdin.isatty() and not as_json:
            epsilon = float(typer.prompt("epsilon", default=epsilon))
    least = 2 * LEAST_TARGET_EPSILON  # of two trials
    if not least <= epsilon < float("inf"):
        raise InvalidInput(
            f"expected --epsilon at least {least:g} and finite, got {epsilon}"
        )
    labels = None if schema is None else read_schema(schema)
    begun = start(
        options.source(data),
        to or Path(data.stem if data.is_file() else f"{data.name}-sweep"),
        epsilon=epsilon,
        num_records=num_records,
        skip_invalid=skip_invalid,
        schema=labels,
        least=1 if keep_rare_labels else FEW,
        covers=covers,
    )
    if as_json:
        print_json("init", begun.facts())
        return
    say(*begun.sentences())
    own.say_samples(begun.source, no_sample=no_sample)
    say(*doubts(begun.source, begun.counted), style="yellow")
    space = argument(begun.folder / SPACE)
    say(f"next: `sweep plan {space}`, `sweep run {space}`")
