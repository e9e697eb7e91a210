"""`sweep export`: a trial as a folder to hand on."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sweep.commands._shared import JsonFlag, Name, console, print_json

if TYPE_CHECKING:
    from trainables.privacy.card import Review


def register(app: typer.Typer) -> None:
    """Add the command."""

    @app.command()
    def export(
        name: Name,
        best: Annotated[
            str | None,
            typer.Option(
                metavar="ser|mauve|leakage|pareto|METRIC",
                help="What makes a trial the best; default: ser, or mauve for generated text.",
            ),
        ] = None,
        trial: Annotated[
            str | None, typer.Option(metavar="ID", help="Export this trial instead.")
        ] = None,
        epsilon_max: Annotated[
            float | None, typer.Option(min=0, help="Only trials with at most this epsilon.")
        ] = None,
        to: Annotated[
            Path | None,
            typer.Option(metavar="FOLDER", help="New folder; default: NAME-BEST here."),
        ] = None,
        register_as: Annotated[
            str | None,
            typer.Option("--register", metavar="MODEL", help="Also register it in MLflow."),
        ] = None,
        reviewer: Annotated[
            str | None,
            typer.Option(metavar="NAME", help="Who reviewed the privacy card; for the card."),
        ] = None,
        decision: Annotated[
            str | None, typer.Option(metavar="TEXT", help="What the reviewer decided.")
        ] = None,
        as_json: JsonFlag = False,
    ) -> None:
        """Export the best trial: config, weights, labels, privacy card, public metrics.

        `pareto` exports the whole front of SER (or MAUVE) and epsilon, one folder a trial.
        """
        from sweep.results import select
        from sweep.results.export import export_trial
        from sweep.settings import from_environment
        from sweep.store import sweeps as store
        from trainables.errors import InvalidInput

        if trial is not None and (best is not None or epsilon_max is not None):
            given = f"--best {best}" if best is not None else f"--epsilon-max {epsilon_max:g}"
            raise InvalidInput(f"expected --trial or {given}, which chooses a trial, got both")
        review = _review(reviewer, decision)
        settings = from_environment()
        folder = store.open_sweep(settings.home, name)
        records = folder.records()
        way = best or select.headline(records)
        target = to or Path(f"{name}-{trial or way}")
        chosen_by = None
        if trial is not None:
            wanted = folder.plan_of(trial).id
            chosen = [record for record in records if record.plan.id == wanted]
        else:
            chosen = select.choose(records, best=way, epsilon_max=epsilon_max)
            chosen_by = None if way == "pareto" else select.chosen_by(chosen, way)
        many = trial is None and way == "pareto"
        places = [target / record.plan.id if many else target for record in chosen]
        registry = None
        if register_as is not None:
            from sweep.tracking.model_registry import Registry

            registry = Registry(register_as, settings)  # refuses before anything is written
        versions: list[int] = []
        for record, path in zip(chosen, places, strict=True):
            export_trial(folder, record, path, chosen_by=chosen_by, review=review)
            if registry is not None:
                versions.append(registry.add(path, folder=folder, record=record))
        if as_json:
            print_json(
                {
                    "exported": [str(path) for path in places],
                    "chosen_by": chosen_by,
                    "versions": versions,
                }
            )
            return
        for record, path in zip(chosen, places, strict=True):
            console().print(
                f"{path}: {record.plan.name} (`sweep run {path}/config.yaml` repeats it)",
                markup=False,
                soft_wrap=True,
            )


def _review(reviewer: str | None, decision: str | None) -> Review | None:
    """Raises: InvalidInput for a reviewer without a decision, or the other way round."""
    from trainables.errors import InvalidInput
    from trainables.privacy.card import Review

    if reviewer is None and decision is None:
        return None
    if not (reviewer and decision):
        missing = "--decision" if reviewer else "--reviewer"
        raise InvalidInput(f"expected --reviewer and --decision together, got no {missing}")
    return Review(reviewer=reviewer, date=time.strftime("%Y-%m-%d"), decision=decision)
