"""An exported folder as a version of a model in MLflow's registry (optional)."""

from __future__ import annotations

import shutil
from pathlib import Path

from sweep.settings import Settings, first_line
from sweep.store.sweeps import SweepFolder, TrialRecord
from sweep.tracking.mlflow_client import Store
from trainables.errors import InvalidInput


class Registry:
    """Model `name` in the registry of the settings' tracking store."""

    def __init__(self, name: str, settings: Settings) -> None:
        """Check that the registry would accept the name; nothing is written.

        Raises: InvalidInput where the store does not answer or refuses the name.
        """
        self._name, self._store = name, Store(settings)
        self._is_new = False
        try:
            self._store.client.get_registered_model(name)
        except self._store.error as problem:
            if problem.error_code != "RESOURCE_DOES_NOT_EXIST":
                raise self._refusal(problem) from None
            self._is_new = True

    def add(self, exported: Path, *, folder: SweepFolder, record: TrialRecord) -> int:
        """Register `exported` as the next version of the model; the version's number.

        The version points to the folder and to the trial's run, and carries its epsilon as a tag.
        The folder stays where it is.

        Raises: InvalidInput where the registry refuses it; the folder is then removed, so that the
        export can be repeated.
        """
        client, trial = self._store.client, record.plan.id
        runs = self._store.runs_of(folder.about()["id"])
        mine = [run.id for run in runs if run.tags.get("sweep.trial") == trial]
        tags = {"sweep": folder.name, "trial": trial}
        tags |= {name: str(record.metrics.get(name)) for name in ("epsilon", "ser")}
        try:
            if self._is_new:
                client.create_registered_model(self._name, description="From `sweep export`.")
                self._is_new = False
            made = client.create_model_version(
                self._name,
                source=exported.resolve().as_uri(),
                run_id=mine[0] if mine else None,
                tags=tags,
            )
        except self._store.error as problem:
            shutil.rmtree(exported)
            raise self._refusal(problem) from None
        return int(made.version)

    def _refusal(self, problem: Exception) -> InvalidInput:
        refused = f"MLflow's registry refused model {self._name!r}"
        return InvalidInput(f"{refused} ({first_line(problem)})")
