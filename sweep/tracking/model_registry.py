"""An exported folder as a version of a model in MLflow's registry (optional)."""

from __future__ import annotations

import shutil
from pathlib import Path

from sweep.settings import Settings, first_line
from sweep.store.sweeps import SweepFolder, TrialRecord
from trainables.errors import InvalidInput
from trainables.figures import EPSILON

_ABSENT = "RESOURCE_DOES_NOT_EXIST"


class Registry:
    """Model `name` in the registry of the settings' tracking store."""

    def __init__(self, name: str, settings: Settings) -> None:
        """Check that the registry would accept the name; nothing is written.

        Raises: InvalidInput where the store does not answer or refuses the name.
        """
        from mlflow.exceptions import MlflowException
        from mlflow.tracking import MlflowClient

        from sweep.tracking.mlflow_store import Tracker

        self._name = name
        self._tracker = Tracker(settings)
        self._error = MlflowException
        self._client = MlflowClient(tracking_uri=settings.tracking_uri)
        self._exists = True
        try:
            self._client.get_registered_model(name)
        except MlflowException as problem:
            if problem.error_code != _ABSENT:
                raise self._refusal(problem) from None
            self._exists = False

    def add(self, exported: Path, *, folder: SweepFolder, record: TrialRecord) -> int:
        """Register `exported` as the next version of the model; the version's number.

        The version points to the folder and to the trial's run, and carries its epsilon as a tag.
        The folder stays where it is.

        Raises: InvalidInput where the registry refuses it; the folder is then removed, so that the
        export can be repeated.
        """
        run = self._tracker.run_of(folder, record.plan.id)
        try:
            if not self._exists:
                self._client.create_registered_model(
                    self._name, description="Exported by `sweep export`."
                )
                self._exists = True
            made = self._client.create_model_version(
                self._name,
                source=exported.resolve().as_uri(),
                run_id=run,
                tags={
                    "sweep": folder.name,
                    "trial": record.plan.id,
                    "epsilon": str(record.metrics.get(EPSILON)),
                    "ser": str(record.metrics.get("ser")),
                },
            )
        except self._error as problem:
            shutil.rmtree(exported)
            raise self._refusal(problem) from None
        return int(made.version)

    def _refusal(self, problem: Exception) -> InvalidInput:
        reason = first_line(problem)
        return InvalidInput(f"MLflow's registry refused model {self._name!r} ({reason})")
