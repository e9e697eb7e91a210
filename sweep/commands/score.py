"""`sweep score`: every metric of predictions in files."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from sweep.commands._options import JsonFlag, lines_of
from sweep.commands._output import number, print_json, say_table
from trainables.errors import InvalidInput


def score(
    reference: Annotated[Path | None, lines_of("the references")] = None,
    hypothesis: Annotated[Path | None, lines_of("the predictions")] = None,
    # The choices are those of `metrics`, spelled here so that `--help` loads no torch.
    align: Annotated[
        Literal["name", "edit"],
        typer.Option(help="Align slots by name or by edit distance."),
    ] = "name",
    match: Annotated[
        Literal["span", "value"],
        typer.Option(help="Compare slots by their tokens or by their text."),
    ] = "span",
    bootstrap_samples: Annotated[
        int,
        typer.Option(
            min=0, help="Bootstrap resamples of the intervals; 0 for no intervals."
        ),
    ] = 1_000,
    human: Annotated[Path | None, lines_of("human text")] = None,
    synthetic: Annotated[Path | None, lines_of("generated text")] = None,
    parser: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER", help="Saved parser that parses the generated text."
        ),
    ] = None,
    mauve_texts: Annotated[
        int,
        typer.Option(
            min=0, help="Largest number of texts per side in MAUVE; 0 skips it."
        ),
    ] = 2_000,
    gold: Annotated[Path | None, lines_of("programs that are right")] = None,
    predicted: Annotated[Path | None, lines_of("predicted programs")] = None,
    api_set: Annotated[
        Literal["smcalflow", "treedst"] | None,
        typer.Option(help="Function names for the match; default: detected."),
    ] = None,
    function: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Also score with and without this function (NAME* for a prefix).",
        ),
    ] = None,
    seed: Annotated[
        int, typer.Option(min=0, help="Seed of resamples and of halves.")
    ] = 0,
    as_json: JsonFlag = False,
) -> None:
    """Score predictions, parses or generated text from files of JSON lines.

    Objects of --reference and --hypothesis have text (split at white space) or tokens,
    intent, and slots or BIO tags. A slot is a list of name, start and end in tokens
    (end exclusive), or an object with slot, start and end. `sweep predict --json` and
    the json_lines data set use the same format. Standard input is /dev/stdin. Objects
    of --human and --synthetic have utterance and, if known, lispress. Objects of --gold
    and --predicted have lispress and are aligned by line.
    """
    pairs = {
        ("reference", "hypothesis"): (reference, hypothesis),
        ("human", "synthetic"): (human, synthetic),
        ("gold", "predicted"): (gold, predicted),
    }
    kind, first, second = the_pair(pairs)
    if kind == "human":
        from sweep.synthesis.score_texts import score_generated

        found: Mapping[str, Any] = score_generated(
            first, second, mauve_texts=mauve_texts, seed=seed, parser=parser
        )
    elif kind == "gold":
        from sweep.synthesis.score_texts import score_predicted

        found = score_predicted(first, second, api_set=api_set, function=function)
    else:
        from sweep.results.score_files import score_files

        found = {
            **score_files(
                first,
                second,
                align=align,
                match=match,
                bootstrap_samples=bootstrap_samples,
                seed=seed,
            ),
            "align": align,
            "match": match,
        }
    print_json("score", found) if as_json else _PRINTERS[kind](found)


def the_pair(
    given: dict[tuple[str, str], tuple[Path | None, Path | None]],
) -> tuple[str, Path, Path]:
    """The first option's name and the files of the given pair.

    Raises: InvalidInput unless exactly one complete pair is given.
    """
    some = [
        pair for pair, files in given.items() if any(file is not None for file in files)
    ]
    if len(some) == 1:
        first, second = given[some[0]]
        if first is not None and second is not None:
            return some[0][0], first, second
    pairs = [f"--{one} FILE and --{other} FILE" for one, other in (some[:1] or given)]
    raise InvalidInput(
        f"expected {', or '.join(pairs)}{' alone' if len(some) > 1 else ''}"
    )


def _print_generated(found: Mapping[str, Any]) -> None:
    """Figures with the human ceiling beside each."""
    beside = ("human_ceiling", "ground_truth")
    say_table(
        ("metric", "value", *(name.replace("_", " ") for name in beside)),
        (
            (name, number(value), *(number(found.get(f"{name}_{b}")) for b in beside))
            for name, value in found.items()
            if not name.endswith(beside)
        ),
    )


def _print_parses(found: Mapping[str, Any]) -> None:
    """Figures, for a function also on the records with and without it."""
    sets: dict[str, Mapping[str, Any]] = {"all": found, **found.get("by_function", {})}
    say_table(
        ("metric", *sets),
        (
            (name, *(number(figures.get(name)) for figures in sets.values()))
            for name, value in found.items()
            if not isinstance(value, dict)
        ),
    )


def _print_frames(found: Mapping[str, Any]) -> None:
    """Figures and their intervals."""
    rows = []
    for name, value in found.items():
        if not name.endswith(("_low", "_high")):
            low, high = found.get(f"{name}_low"), found.get(f"{name}_high")
            rows.append(
                (name, number(value), "" if low is None else f"{low:.4f} to {high:.4f}")
            )
    say_table(("metric", "value", "95 %"), rows)


_PRINTERS = {
    "human": _print_generated,
    "gold": _print_parses,
    "reference": _print_frames,
}
