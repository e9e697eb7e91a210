"""`sweep attack`: the figures of any membership attack, and the certified one-run bound."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from sweep.commands._options import JsonFlag
from sweep.commands._output import number, print_json, say, say_table
from trainables.errors import InvalidInput
from trainables.privacy.rounding import format_lower_bound

_Members = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="With RUN: JSON lines of its training records."),
]
_NonMembers = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="With RUN: JSON lines of records outside its training data."),
]
_Scores = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="JSON lines with score (higher: member), member."),
]
_OneRun = Annotated[
    tuple[int, int, int] | None,
    typer.Option(metavar="M R V", help="Coins, guesses and correct guesses of a one-run audit."),
]
_Factory = Annotated[
    str | None,
    typer.Option(
        metavar="PACKAGE.MODULE:FUNCTION",
        help="With a RUN of your own model: the function that builds it.",
    ),
]


def attack(
    run: Annotated[
        str | None,
        typer.Argument(metavar="[RUN]", help="A saved model: an exported folder, or SWEEP/TRIAL."),
    ] = None,
    members: _Members = None,
    non_members: _NonMembers = None,
    scores: _Scores = None,
    one_run: _OneRun = None,
    delta: Annotated[float | None, typer.Option(help="Delta of the bound on epsilon.")] = None,
    epsilon: Annotated[
        float | None, typer.Option(min=0, help="With --scores: the claimed epsilon.")
    ] = None,
    p: Annotated[float, typer.Option(help="Error probability of the certified bound.")] = 0.05,
    factory: _Factory = None,
    as_json: JsonFlag = False,
) -> None:
    """Attack a saved model, evaluate the scores of any attack, or bound epsilon from one run."""
    from trainables.attacks import require_delta

    if sum(given is not None for given in (run, scores, one_run)) != 1:
        raise InvalidInput("expected one of RUN, --scores FILE and --one-run M R V")
    _refuse_unread(
        ("--members", members, "RUN", run),
        ("--non-members", non_members, "RUN", run),
        ("--factory", factory, "RUN", run),
        ("--epsilon", epsilon, "--scores", scores),
    )
    if delta is not None:
        require_delta(delta)
    if run is not None:
        from sweep.results.attack_model import attack_run

        found = attack_run(run, members, non_members, delta=delta, factory=factory)
    elif one_run is not None:
        from sweep.results.score_files import one_run_figures

        if delta is None:
            raise InvalidInput("expected --delta with --one-run")
        found = one_run_figures(*one_run, delta=delta, p=p)
    else:
        from sweep.results.score_files import membership_figures

        assert scores is not None  # one of the three is there
        found = membership_figures(scores, delta=delta, epsilon=epsilon)
    if as_json:
        print_json("attack", found)
    else:
        _say(found)


def _say(found: Mapping[str, Any]) -> None:
    shown = {name: value for name, value in found.items() if name != "notes"}
    say_table(("figure", "value"), ((name, _figure(name, v)) for name, v in shown.items()))
    for note in found.get("notes", ()):
        say(note, style="yellow", stderr=True)


def _refuse_unread(*options: tuple[str, object, str, object]) -> None:
    """Raises: InvalidInput for an option that is given without the one it belongs to."""
    for option, value, reader, read in options:
        if value is not None and read is None:
            raise InvalidInput(f"expected {option} with {reader}")


def _figure(name: str, value: float | None) -> str:
    """A figure to six digits, a certified bound rounded down."""
    if name == "epsilon_lower_bound":
        return format_lower_bound(value, digits=6)
    return number(value, ".6g")
