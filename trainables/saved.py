"""Loads a saved model and predicts labels of utterances.

    said = load(Path("sweeps/atis-grid/best")).read([unlabelled(["flights", "to",
    "boston"])])

The folder, or its folder `model`, has `model.json` (architecture and labels) and
`weights.safetensors`.
"""

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.torch import load_file

from trainables import catalogue
from trainables.config.trial import ModelConfig, model_part
from trainables.data import storage
from trainables.data.batches import Loader
from trainables.data.records import NO_INTENT, LabelSchema, Utterance
from trainables.data.schema import parse_schema
from trainables.errors import InvalidData, InvalidInput
from trainables.io.files import read_written_json
from trainables.models.encoders.named_files import (
    ENCODER,
    copies_in,
    encoders_of,
    require_files_of,
    require_here,
)
from trainables.models.nlu.base import NluModel
from trainables.system.communication import Alone
from trainables.tasks._inference import Inference, infer

_FILES = ("model.json", "weights.safetensors")
_ENCODERS = ("transformers", "encoder")


@dataclass(frozen=True, kw_only=True)
class SavedModel:
    """A trained model with its labels."""

    model: NluModel
    config: ModelConfig
    schema: LabelSchema

    def read(self, utterances: Iterable[Utterance]) -> Inference:
        """All predictions for utterances, the losses of their labels included.

        Raises: InvalidInput without an utterance, or for one without a token.
        """
        columns = columns_of(list(utterances), schema=self.schema)
        loader = Loader(columns, self.model.feature_table(columns.types))
        return infer(self.model, loader, np.arange(len(columns.intents)), comm=Alone())


def load(folder: Path, *, factory: str | None = None) -> SavedModel:
    """The model in a folder that a trial or an export made. `factory` names the code of
    a model of own code (`model.name: module`): a folder alone never has any imported.
    Raises: InvalidInput where it has none, or is of own code that is not named;
    InvalidData where its files are damaged.
    """
    place = folder / "model" if (folder / "model").is_dir() else folder
    if not all((place / name).is_file() for name in _FILES):
        raise InvalidInput(
            f"expected {folder} to be an exported folder with model/{_FILES[0]} and"
            f" model/{_FILES[1]}"
        )
    try:
        about: dict[str, Any] = read_written_json(place / _FILES[0])
        config = model_part(**about["model"])
        labels: dict[str, Any] = {
            "intents": [] if about["intents"] == [NO_INTENT] else about["intents"],
            "slots": about["slots"],
            "source": about["schema_source"],
            "tokenize": about.get("tokenize", "space"),
        }
        weights = load_file(str(place / _FILES[1]))
    except (OSError, InvalidData, ValueError, KeyError, TypeError, SafetensorError):
        raise InvalidData(f"expected a readable model in {place}") from None
    schema = parse_schema(labels, str(place / _FILES[0]))
    if not all(tensor.isfinite().all() for tensor in weights.values()):
        raise InvalidData(f"expected finite weights in {place / _FILES[1]}, got others")
    fields = config.model_dump(mode="json")
    copy = next((place / name for name in _ENCODERS if (place / name).is_dir()), None)
    if copy is not None and (encoders := encoders_of(fields)):
        # The folder is enough, without an extra or the hub; the copies in an export are
        # covered by its manifest. A model of random weights has its own.
        copies = tuple(map(str, copies_in(copy, number=len(encoders))))
        config = config.model_copy(
            update={"encoder": copies[0] if len(copies) == 1 else copies}
        )
    else:
        require_here(fields, where=place / _FILES[0])
        require_files_of(fields, str(about.get(ENCODER, "")), where=place / _FILES[0])
    config = _with_code(config, factory)
    catalogue.entry("models", config.name, kind="frames")  # raises for another kind
    model: NluModel = config.build(schema=schema, seed=0)
    try:
        model.load_state_dict(weights)
    except RuntimeError:
        raise InvalidData(
            f"expected weights in {place} that fit its model.json"
        ) from None
    model.eval()
    return SavedModel(model=model, config=config, schema=schema)


def _with_code(config: ModelConfig, factory: str | None) -> ModelConfig:
    """The config, of own code whatever its file says today: the weights must fit it.

    Raises: InvalidInput where its code is not the one that is named.
    """
    own = config.own_code
    if own != factory:
        wanted = (
            f"factory {own} to be named (--factory {own})"
            if own
            else "no factory (--factory)"
        )
        raise InvalidInput(
            f"expected {wanted} for a model.name={config.name}, got {factory or 'none'}"
            + (
                "; its code must be installed and is imported where you name it"
                if own
                else ""
            )
        )
    if own is None:
        return config
    now = type(config)(**(config.model_dump() | {"source": None}))
    if now != config:
        warnings.warn(
            f"{own} has another source than the one that this model was trained with",
            stacklevel=3,
        )
    return now


def columns_of(utterances: Sequence[Utterance], *, schema: LabelSchema) -> Any:
    """Utterances in memory, as the columns of a corpus (see `data.corpus`).

    Raises: InvalidInput without an utterance, or for one without a token.
    """
    if not utterances or not all(each.tokens for each in utterances):
        raise InvalidInput("expected utterances of at least one token each")
    found = storage.encode(utterances, schema=schema)
    return SimpleNamespace(**found.arrays, types=found.types)


def unlabelled(tokens: Sequence[str]) -> Utterance:
    """An utterance without labels."""
    return Utterance(tokens=tuple(tokens), tags=("O",) * len(tokens), intent="")
