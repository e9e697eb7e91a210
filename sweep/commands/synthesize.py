"""`sweep synthesize`: utterances from an exported model, with a data card."""

from pathlib import Path
from typing import Annotated

import typer

from sweep.commands._options import JsonFlag
from sweep.commands._output import print_json, say
from trainables.dp.accounting.rounding import format_delta, format_epsilon


def synthesize(
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="An exported synthesis trial.")
    ],
    to: Annotated[Path, typer.Option(metavar="FILE", help="New file of JSON lines.")],
    number: Annotated[int, typer.Option(min=1, help="Number of utterances.")] = 1_000,
    min_words: Annotated[
        int, typer.Option(min=0, help="Smallest number of words of a text.")
    ] = 1,
    max_words: Annotated[
        int, typer.Option(min=1, help="Largest number of words of a text.")
    ] = 60,
    drop: Annotated[
        list[str] | None,
        typer.Option(metavar="REGEX", help="Drop texts that match; may be repeated."),
    ] = None,
    keep_patterns: Annotated[
        bool,
        typer.Option(
            "--keep-patterns", help="Keep texts with addresses, links and long numbers."
        ),
    ] = False,
    drop_repeats: Annotated[
        bool, typer.Option("--drop-repeats", help="Keep each text once.")
    ] = False,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the generation.")] = 0,
    as_json: JsonFlag = False,
) -> None:
    """Generate utterances from a trained model, with a card of epsilon and delta.

    Filters read only the generated text. No private data are read, so no epsilon is
    spent.
    """
    from sweep.synthesis.data_card import Filters
    from sweep.synthesis.synthesize import KNOWN_PATTERNS, write_utterances
    from sweep.synthesis.trained_text import open_trained
    from trainables import formats

    patterns = {} if keep_patterns else dict(KNOWN_PATTERNS)
    patterns |= {f"pattern {place + 1}": text for place, text in enumerate(drop or ())}
    card = write_utterances(
        open_trained(folder),
        to=to,
        number=number,
        filters=Filters(
            min_words=min_words,
            max_words=max_words,
            patterns=patterns,
            drop_repeats=drop_repeats,
        ),
        seed=seed,
    )
    if as_json:
        print_json("synthesize", {"utterances": str(to), "card": card.to_dict()})
        return
    drawn, delta = (
        card.drawn,
        "unknown" if card.delta is None else format_delta(card.delta),
    )
    dropped = ", ".join(f"{count} by {name}" for name, count in drawn.dropped.items())
    say(
        f"{to}: {formats.count(drawn.number, 'utterance')} of {drawn.drawn} drawn"
        f"{f' (dropped: {dropped})' if dropped else ''}; epsilon"
        f" {format_epsilon(card.epsilon)} at delta {delta}"
        f" (card: {to.with_suffix('.card.md')})"
    )
