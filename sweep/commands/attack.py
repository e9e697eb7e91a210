"""`sweep attack`: the figures of any membership attack."""

from pathlib import Path
from typing import Annotated

import typer

from sweep.commands._options import Factory, JsonFlag
from sweep.commands._output import number, print_json, say, say_table
from trainables.errors import InvalidInput


def attack(
    run: Annotated[
        Path | None,
        typer.Argument(
            metavar="[RUN]", help="A saved model: the folder of an export or a trial."
        ),
    ] = None,
    members: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="With RUN: JSON lines of its training records."
        ),
    ] = None,
    non_members: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="With RUN: JSON lines of records outside its training data.",
        ),
    ] = None,
    scores: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="JSON lines with score (higher: member), member."
        ),
    ] = None,
    delta: Annotated[
        float | None, typer.Option(help="Delta of estimates of epsilon.")
    ] = None,
    epsilon: Annotated[
        float | None, typer.Option(min=0, help="With --scores: the claimed epsilon.")
    ] = None,
    factory: Factory = None,
    as_json: JsonFlag = False,
) -> None:
    """Attack a saved model, or evaluate the scores of any attack."""
    from trainables.attacks._estimates import require_delta

    if (run is None) == (scores is None):
        raise InvalidInput("expected either RUN or --scores FILE")
    for option, value, reader, read in (
        ("--members", members, "RUN", run),
        ("--non-members", non_members, "RUN", run),
        ("--factory", factory, "RUN", run),
        ("--epsilon", epsilon, "--scores", scores),
    ):
        if value is not None and read is None:
            raise InvalidInput(f"expected {option} with {reader}")
    if delta is not None:
        require_delta(delta)
    if run is not None:
        from sweep.results.attack_model import attack_run

        found = attack_run(run, members, non_members, delta=delta, factory=factory)
    else:
        from sweep.results.score_files import membership_figures

        assert scores is not None  # one of the two is there
        found = membership_figures(scores, delta=delta, epsilon=epsilon)
    if as_json:
        print_json("attack", found)
        return
    notes = found.pop("notes", ())
    say_table(
        ("figure", "value"), ((name, number(v, ".6g")) for name, v in found.items())
    )
    say(*notes, style="yellow", stderr=True)
