"""An export as an `mlflow.pyfunc` model: `mlflow models serve` answers with it.

The model's folder holds the export, unchanged, and the code of this project, which is
on no package index, so that it is also served where the project is not installed. The
example of an input is invented: no record leaves with it.
"""

from __future__ import annotations

from importlib import metadata
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from sweep.results.model_card import EXAMPLE, guarantee_of
from sweep.results.predict import ExportedModel, load_model
from sweep.results.privacy_cards import JSON
from sweep.settings import first_line, hide_passwords
from sweep.store.files import read_json
from trainables.cards import card as cards
from trainables.errors import InvalidInput, quote

if TYPE_CHECKING:
    import pandas as pd

    from sweep.store.sweeps import SweepFolder, TrialRecord
    from sweep.tracking.mlflow_store import Tracker

_ROOT = Path(__file__).parents[2]
_PACKAGES = ("sweep", "trainables", "search_spaces", "dashboards")
# What a prediction imports, besides what these packages require themselves.
_REQUIREMENTS = (
    *("mlflow", "torch", "transformers", "pytorch-crf", "scikit-learn", "pandas"),
    *("numpy", "scipy", "safetensors", "pydantic", "pyyaml", "psutil"),
    *("dp-accounting", "cryptography", "filelock", "jmespath"),
)


class ServedModel:
    """What MLflow calls: utterances in, intents and slots out."""

    def __init__(self, model: ExportedModel) -> None:
        self._model = model

    def predict(
        self, model_input: pd.DataFrame, params: object = None
    ) -> list[dict[str, object]]:
        """A prediction for each utterance of the first column, as `sweep predict`
        prints it; there are no `params`.

        Raises: MlflowException, which a server answers with status 400, for an
        utterance that is empty or too long.
        """
        from mlflow.exceptions import MlflowException

        try:
            found = self._model(model_input.iloc[:, 0].tolist())
        except InvalidInput as problem:
            raise MlflowException.invalid_parameter_value(str(problem)) from None
        return [prediction.to_dict() for prediction in found]


def _load_pyfunc(data_path: str) -> ServedModel:
    """The model of an export, by the name that MLflow calls in a `loader_module`."""
    return ServedModel(load_model(data_path))


def run_of(
    tracker: Tracker,
    folder: SweepFolder,
    record: TrialRecord,
    *,
    registered_as: str | None = None,
) -> str:
    """The id of the trial's run, to which its export can be logged. Asked before
    anything is written.

    Raises: InvalidInput where the trial is not in MLflow, its model writes text or
    needs a user's own code, or the registry takes no model of this name.
    """
    from mlflow.exceptions import MlflowException

    if registered_as is not None:
        try:
            tracker.client.get_registered_model(registered_as)
        except MlflowException as problem:
            if problem.error_code != "RESOURCE_DOES_NOT_EXIST":
                reason = hide_passwords(first_line(problem))
                raise InvalidInput(
                    "expected --register to be a name that MLflow's registry takes,"
                    f" got {quote(registered_as)}: {reason}"
                ) from None
    if record.plan.task != "nlu" or record.plan.fields["model"].get("factory"):
        raise InvalidInput(
            "expected --mlflow-model for a model of intents and slots without code of"
            f" your own, got {record.plan.id}: load its export in a server of your own"
        )
    run = tracker.runs_of(folder.about()["id"]).get(record.plan.id)
    if run is None:
        raise InvalidInput(
            f"expected the trial {record.plan.id} in MLflow, got no run of it: `sweep"
            f" resume {folder.name}` sends its results there"
        )
    return run.id


def log_export(
    tracker: Tracker, run_id: str, exported: Path, *, registered_as: str | None = None
) -> str:
    """Log the export in `exported` as a model of the run `run_id`, and register it as
    the next version of the model `registered_as`. Returns the address with which MLflow
    loads and serves it.
    """
    file = exported / JSON
    guarantee = guarantee_of(cards.read(read_json(file), where=file))
    client = tracker.client
    model = client.create_logged_model(
        tracker.experiment_id,
        name="exported",
        source_run_id=run_id,
        tags={"privacy": guarantee},
    )
    with TemporaryDirectory(prefix="served-") as place:
        save(exported, Path(place) / "model", model_id=model.model_id)
        client.log_model_artifacts(model.model_id, f"{place}/model")
    client.finalize_logged_model(model.model_id, "READY")
    address = f"models:/{model.model_id}"
    if registered_as is None:
        return address
    if not client.search_registered_models(f"name = '{registered_as}'"):
        client.create_registered_model(registered_as)
    version = client.create_model_version(
        registered_as,
        source=model.artifact_location,
        run_id=run_id,
        model_id=model.model_id,
        description=guarantee,
    )
    return f"models:/{registered_as}/{version.version}"


def save(exported: Path, target: Path, *, model_id: str | None = None) -> None:
    """Write an export as a pyfunc model into the new folder `target`."""
    from mlflow import pyfunc
    from mlflow.models import Model, ModelSignature
    from mlflow.types import ColSpec, DataType, Schema

    pyfunc.save_model(
        str(target),
        loader_module=__name__,
        data_path=str(exported),
        code_paths=[str(_ROOT / package) for package in _PACKAGES],
        mlflow_model=Model(model_id=model_id),
        signature=ModelSignature(inputs=Schema([ColSpec(DataType.string)])),
        input_example=[EXAMPLE],
        pip_requirements=[
            # A build such as 2.13.0+cpu is on no index under its whole name.
            f"{name}=={metadata.version(name).partition('+')[0]}"
            for name in _REQUIREMENTS
        ],
    )
