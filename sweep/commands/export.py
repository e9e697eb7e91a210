"""`sweep export`: a trial as a self-contained folder."""

from __future__ import annotations

import shlex
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sweep.commands._options import EpsilonMax, JsonFlag, Name
from sweep.commands._output import print_json, say
from trainables.figures import EPSILON

if TYPE_CHECKING:
    from sweep.store.sweeps import SweepFolder, TrialRecord


def export(
    name: Name,
    best: Annotated[
        str | None,
        typer.Option(
            metavar="ser|mauve_states|pareto|METRIC",
            help="Criterion for the best trial; default: ser, or mauve_states for generated"
            " text.",
        ),
    ] = None,
    trial: Annotated[
        str | None, typer.Option(metavar="ID", help="Export this trial instead.")
    ] = None,
    epsilon_max: EpsilonMax = None,
    any_epsilon: Annotated[
        bool,
        typer.Option(
            "--any-epsilon",
            help="Also export a trial with epsilon above 10, which guarantees little.",
        ),
    ] = False,
    to: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="New folder; default: NAME-BEST here."),
    ] = None,
    reviewer: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Reviewer of the privacy card, recorded in it."
        ),
    ] = None,
    decision: Annotated[
        str | None,
        typer.Option(
            metavar="TEXT", help="Decision of the reviewer, recorded in the card."
        ),
    ] = None,
    mlflow_model: Annotated[
        bool,
        typer.Option(
            "--mlflow-model",
            help="Also log the export in MLflow, as a model that `mlflow models serve`"
            " answers with.",
        ),
    ] = False,
    register: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Also register it in MLflow as the next version of the model NAME.",
        ),
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Export the best trial: config, weights, labels, privacy card, public metrics.

    `--best pareto` exports the Pareto front of SER (or MAUVE) and epsilon, one folder
    per trial; a sweep over several corpora has a best trial and a front of each.
    """
    from sweep.results import select
    from sweep.results.export import export_trial, how_to_repeat, require_new
    from sweep.results.utility_gap import USABLE, sentences
    from sweep.settings import from_environment, hide_passwords
    from sweep.store import sweeps as store
    from trainables import formats
    from trainables.cards.card import Review
    from trainables.errors import InvalidInput

    review = None
    if reviewer is not None or decision is not None:
        if not (reviewer and decision):
            missing = "--decision" if reviewer else "--reviewer"
            raise InvalidInput(
                f"expected --reviewer and --decision together, got no {missing}"
            )
        review = Review(
            reviewer=reviewer, date=time.strftime("%Y-%m-%d"), decision=decision
        )
    settings = from_environment()
    folder = store.open_sweep(settings.home, name)
    chosen, way, chosen_by = _choose(
        folder, trial, best=best, epsilon_max=epsilon_max, any_epsilon=any_epsilon
    )
    target = to or Path(f"{name}-{trial or way}")
    apart = way == "pareto" or len(chosen) > 1
    places = [target / r.plan.id if apart else target for r in chosen]
    # What is refused for a name is refused before anything is written.
    for path in places:
        require_new(path)
    tracker, run = None, ""
    if mlflow_model or register is not None:
        from sweep.tracking import served_model
        from sweep.tracking.delivery import open_store  # seconds

        if len(chosen) > 1:
            raise InvalidInput(
                f"expected --mlflow-model with one trial, got {len(chosen)}: name one"
                " with --trial ID"
            )
        tracker = open_store(settings)
        run = served_model.run_of(tracker, folder, chosen[0], registered_as=register)
    for record, path in zip(chosen, places, strict=True):
        export_trial(folder, record, path, chosen_by=chosen_by, review=review)
    address = None
    if tracker is not None:
        address = served_model.log_export(
            tracker, run, places[0], registered_as=register
        )
    epsilons = [select.value(record, EPSILON) for record in chosen]
    if as_json:
        exported = [str(path) for path in places]
        facts = {"exported": exported, "epsilons": epsilons, "chosen_by": chosen_by}
        print_json("export", {**facts, "mlflow_model": address})
        return
    for record, path, epsilon in zip(chosen, places, epsilons, strict=True):
        again = how_to_repeat(folder, record, path)
        say(f"{path}: {record.plan.name}, epsilon {formats.epsilon(epsilon)} ({again})")
    if address is not None:
        uri = shlex.quote(hide_passwords(settings.tracking_uri))
        say(
            f"{address} in MLflow: `MLFLOW_TRACKING_URI={uri} mlflow models serve -m"
            f" {address} --env-manager local` answers with it at"
            " http://127.0.0.1:5000/invocations"
        )
    say(
        *sentences(
            folder.records(), limit=USABLE if epsilon_max is None else epsilon_max
        )
    )


def _choose(
    folder: SweepFolder,
    trial: str | None,
    *,
    best: str | None,
    epsilon_max: float | None,
    any_epsilon: bool,
) -> tuple[list[TrialRecord], str, str | None]:
    """Trials, the way they were chosen, and the metric that the choice went by.

    Raises: InvalidInput where no trial qualifies, two ways to choose are given, or no
        option says that a large epsilon is wanted.
    """
    from sweep.results import select
    from sweep.results.utility_gap import refusal
    from trainables.errors import InvalidInput

    records = folder.records()
    if trial is None:
        way = best or select.headline(records)
        chosen = select.choose(records, best=way, epsilon_max=epsilon_max)
        large = (
            None if any_epsilon or epsilon_max is not None else refusal(chosen, records)
        )
        if large is not None:
            raise InvalidInput(large)
        found = select.candidates(records, epsilon_max=epsilon_max)
        return chosen, way, select.metric_of_choice(found, way)
    if best is not None or epsilon_max is not None:
        given = (
            f"--best {best}" if best is not None else f"--epsilon-max {epsilon_max:g}"
        )
        raise InvalidInput(
            f"expected --trial or {given}, which chooses a trial, got both"
        )
    wanted = folder.plan_of(trial).id
    return [record for record in records if record.plan.id == wanted], "trial", None
