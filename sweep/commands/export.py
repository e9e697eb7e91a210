"""`sweep export`: a trial as a self-contained folder."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sweep.commands._options import EpsilonMax, JsonFlag, Name
from sweep.commands._output import print_json, say
from trainables.figures import EPSILON

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sweep.store.sweeps import SweepFolder, TrialRecord
    from trainables.cards.card import Review

_Best = Annotated[
    str | None,
    typer.Option(
        metavar="ser|mauve|METRIC",
        help="Criterion for the best trial; default: ser, or mauve for generated text.",
    ),
]
_AnyEpsilon = Annotated[
    bool,
    typer.Option(
        "--any-epsilon", help="Also export a trial with epsilon above 10, which guarantees little."
    ),
]


def export(
    name: Name,
    best: _Best = None,
    trial: Annotated[
        str | None, typer.Option(metavar="ID", help="Export this trial instead.")
    ] = None,
    epsilon_max: EpsilonMax = None,
    any_epsilon: _AnyEpsilon = False,
    to: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="New folder; default: NAME-BEST here.")
    ] = None,
    reviewer: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Reviewer of the privacy card, recorded in it."),
    ] = None,
    decision: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="Decision of the reviewer, recorded in the card."),
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Export the best trial with its config, weights, labels, privacy card and public metrics.

    A sweep over several corpora has a best trial of each, in a folder of its own.
    """
    from sweep.results.export import export_trial, require_new
    from sweep.settings import from_environment
    from sweep.store import sweeps as store

    review = _review(reviewer, decision)
    folder = store.open_sweep(from_environment().home, name)
    chosen, way, chosen_by = _choose(
        folder, trial, best=best, epsilon_max=epsilon_max, any_epsilon=any_epsilon
    )
    target = to or Path(f"{name}-{trial or way}")
    places = [target / r.plan.id if len(chosen) > 1 else target for r in chosen]
    # What is refused for a name is refused before anything is written.
    for path in places:
        require_new(path)
    for record, path in zip(chosen, places, strict=True):
        export_trial(folder, record, path, chosen_by=chosen_by, review=review)
    if as_json:
        print_json("export", {**_what_left(chosen, places), "chosen_by": chosen_by})
        return
    _say_what_left(folder, chosen, places, epsilon_max=epsilon_max)


def _what_left(chosen: Sequence[TrialRecord], places: Sequence[Path]) -> dict[str, Any]:
    from sweep.results import select

    epsilons = [select.value(record, EPSILON) for record in chosen]
    return {"exported": [str(path) for path in places], "epsilons": epsilons}


def _say_what_left(
    folder: SweepFolder,
    chosen: Sequence[TrialRecord],
    places: Sequence[Path],
    *,
    epsilon_max: float | None,
) -> None:
    """Each folder with its epsilon, and how far the best private trial is from the baseline."""
    from sweep.results import select
    from sweep.results.export import config_to_repeat
    from sweep.results.gap import USABLE, sentences
    from trainables import formats

    for record, path in zip(chosen, places, strict=True):
        epsilon = formats.epsilon(select.value(record, EPSILON))
        repeat = (
            f"`sweep run {formats.argument(config_to_repeat(folder, record, path))}` repeats it"
        )
        say(f"{path}: {record.plan.name}, epsilon {epsilon} ({repeat})")
    for sentence in sentences(
        folder.records(), limit=USABLE if epsilon_max is None else epsilon_max
    ):
        say(sentence)


def _choose(
    folder: SweepFolder,
    trial: str | None,
    *,
    best: str | None,
    epsilon_max: float | None,
    any_epsilon: bool,
) -> tuple[list[TrialRecord], str, str | None]:
    """Trials, the way they were chosen, and the metric that the choice went by.

    Raises: InvalidInput where no trial qualifies, two ways to choose are given, or no option says
        that a large epsilon is wanted.
    """
    from sweep.results import select
    from sweep.results.gap import refusal
    from trainables.errors import InvalidInput

    records = folder.records()
    if trial is None:
        way = best or select.headline(records)
        chosen = select.choose(records, best=way, epsilon_max=epsilon_max)
        large = None if any_epsilon or epsilon_max is not None else refusal(chosen, records)
        if large is not None:
            raise InvalidInput(large)
        found = select.candidates(records, epsilon_max=epsilon_max)
        return chosen, way, select.metric_of_choice(found, way)
    if best is not None or epsilon_max is not None:
        given = f"--best {best}" if best is not None else f"--epsilon-max {epsilon_max:g}"
        raise InvalidInput(f"expected --trial or {given}, which chooses a trial, got both")
    wanted = folder.plan_of(trial).id
    return [record for record in records if record.plan.id == wanted], "trial", None


def _review(reviewer: str | None, decision: str | None) -> Review | None:
    """Raises: InvalidInput for a reviewer without a decision, or the other way round."""
    from trainables.cards.card import Review
    from trainables.errors import InvalidInput

    if reviewer is None and decision is None:
        return None
    if not (reviewer and decision):
        missing = "--decision" if reviewer else "--reviewer"
        raise InvalidInput(f"expected --reviewer and --decision together, got no {missing}")
    return Review(reviewer=reviewer, date=time.strftime("%Y-%m-%d"), decision=decision)
