"""An exported folder as a version of a model in MLflow's registry: an option, nothing needs it."""

from __future__ import annotations

from pathlib import Path

from sweep.settings import Settings
from sweep.store import SweepFolder, TrialRecord
from trainables.errors import InvalidInput


def register_model(
    name: str, exported: Path, *, folder: SweepFolder, record: TrialRecord, settings: Settings
) -> int:
    """Register `exported` as the next version of model `name`; the version's number.

    The version points to the folder and to the trial's run, and carries its epsilon as a tag. The
    folder itself stays where it is.

    Raises: InvalidInput where the store does not answer or refuses the name.
    """
    from mlflow.exceptions import MlflowException
    from mlflow.tracking import MlflowClient

    from sweep.mlflow_tracking import Tracker

    run = Tracker(settings).run_of(folder, record.plan.id)
    client = MlflowClient(tracking_uri=settings.tracking_uri)
    try:
        if not client.search_registered_models(filter_string=f"name = '{name}'"):
            client.create_registered_model(name, description="Exported by `sweep export`.")
        made = client.create_model_version(
            name,
            source=exported.resolve().as_uri(),
            run_id=run,
            tags={
                "sweep": folder.name,
                "trial": record.plan.id,
                "epsilon": str(record.metrics.get("epsilon")),
                "ser": str(record.metrics.get("ser")),
            },
        )
    except MlflowException as problem:
        reason = str(problem).splitlines()[0][:200]
        raise InvalidInput(f"MLflow's registry refused model {name!r} ({reason})") from None
    return int(made.version)
