"""Using an exported model: utterances in, intents and slots out.

    from sweep import load_model
    load_model("folder")(["show flights from boston to denver"])

Nothing of the sweep is needed, only the exported folder (or its `model` folder).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from trainables.errors import InvalidData, InvalidInput

if TYPE_CHECKING:
    from trainables.data.records import LabelSchema
    from trainables.models._nlu import NluModel

_MAX_TOKENS = 4_096  # of one pass


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """What an utterance means. A slot is (name, first token, one past the last, text);
    `confidence` is the probability of intent and tags together.
    """

    tokens: tuple[str, ...]
    intent: str
    slots: tuple[tuple[str, int, int, str], ...]
    confidence: float

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        slots = [
            {"slot": name, "start": start, "end": end, "text": text}
            for name, start, end, text in self.slots
        ]
        return {"intent": self.intent, "slots": slots, "confidence": self.confidence}


class ExportedModel:
    """A trained model with its label maps. Call it with utterances."""

    def __init__(self, model: NluModel, schema: LabelSchema) -> None:
        self.model = model
        self.schema = schema

    def __call__(self, utterances: Sequence[str | Sequence[str]]) -> list[Prediction]:
        """A prediction for each utterance, a text (split at blanks) or a list of tokens.

        Raises: InvalidInput for one without a token, naming its number.
        """
        from trainables.data.batches import Loader
        from trainables.data.bio import slots_lenient

        texts = [tuple(u.split()) if isinstance(u, str) else tuple(u) for u in utterances]
        for number, tokens in enumerate(texts, start=1):
            if not tokens:
                raise InvalidInput(f"expected words in utterance {number}, got none")
        if not texts:
            return []
        columns = _Columns(texts)
        loader = Loader(columns, self.model.feature_table(columns.types))
        found: dict[int, Prediction] = {}
        for places, batch in loader.evaluation_batches(
            np.arange(len(texts)), max_tokens=_MAX_TOKENS
        ):
            said = self.model.predict(batch)
            intents = said.intent_log_probs
            best = intents.argmax(dim=1).tolist()
            chance = (intents.max(dim=1).values + said.path_log_prob).exp().tolist()
            ends = np.cumsum(batch.lengths.numpy())[:-1]
            paths = np.split(said.tag_paths.numpy(), ends)
            for place, intent, path, confidence in zip(places, best, paths, chance, strict=True):
                tokens = texts[int(place)]
                tags = tuple(self.schema.tags[tag] for tag in path)
                found[int(place)] = Prediction(
                    tokens=tokens,
                    intent=self.schema.intents[intent],
                    slots=tuple(
                        (name, start, end, " ".join(tokens[start:end]))
                        for name, start, end in slots_lenient(tags)
                    ),
                    confidence=float(confidence),
                )
        return [found[place] for place in range(len(texts))]


def load_model(folder: str | Path) -> ExportedModel:
    """The model in an exported folder.

    Raises: InvalidInput where the folder holds no model of intents and slots, InvalidData where its
    files are damaged.
    """
    place = Path(folder)
    place = place / "model" if (place / "model").is_dir() else place
    about_file, weights = place / "model.json", place / "weights.safetensors"
    if not about_file.is_file() or not weights.is_file():
        raise InvalidInput(
            f"expected {folder} to be an exported folder with model/model.json and"
            " model/weights.safetensors"
        )
    from pydantic import ValidationError
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    from trainables import catalogue
    from trainables.config import ModelConfig
    from trainables.data.records import LabelSchema

    try:
        about = json.loads(about_file.read_text(encoding="utf-8"))
        config = ModelConfig.model_validate(about["model"])
        schema = LabelSchema(
            intents=tuple(about["intents"]),
            slots=tuple(about["slots"]),
            source=str(about["schema_source"]),
        )
        state = load_file(str(weights))
    except (OSError, ValueError, KeyError, TypeError, ValidationError, SafetensorError):
        raise InvalidData(f"expected a readable model in {place}") from None
    encoder = place / "transformers"
    if encoder.is_dir():  # the folder is enough: no extra, no hub
        config = config.model_copy(update={"encoder": str(encoder)})
    model: NluModel = catalogue.entry("models", config.name).build(config, schema=schema, seed=0)
    try:
        model.load_state_dict(state)
    except RuntimeError:
        raise InvalidData(f"expected weights in {place} that fit its model.json") from None
    model.eval()
    return ExportedModel(model, schema)


class _Columns:
    """Utterances as the columns that batches are cut from; their labels are unknown."""

    def __init__(self, texts: Sequence[tuple[str, ...]]) -> None:
        places: dict[str, int] = {}
        tokens = [places.setdefault(token, len(places)) for text in texts for token in text]
        self.types = list(places)
        lengths = [0, *(len(text) for text in texts)]
        self.offsets: NDArray[np.int64] = np.cumsum(np.asarray(lengths, dtype=np.int64))
        self.tokens: NDArray[np.int32] = np.asarray(tokens, dtype=np.int32)
        self.intents: NDArray[np.int16] = np.full(len(texts), -1, dtype=np.int16)
        self.tags: NDArray[np.int16] = np.full(len(tokens), -1, dtype=np.int16)
