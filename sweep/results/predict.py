"""Using an exported model: utterances in, intents and slots out.

    from sweep import load_model
    load_model("folder")(["show flights from boston to denver"])

Nothing of the sweep is needed, only the exported folder (or its `model` folder).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from trainables.errors import InvalidInput

if TYPE_CHECKING:
    from trainables.saved import SavedModel


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

    def __init__(self, saved: SavedModel) -> None:
        self._saved = saved
        self.model = saved.model
        self.schema = saved.schema

    def __call__(self, utterances: Sequence[str | Sequence[str]]) -> list[Prediction]:
        """A prediction for each utterance, a text (split at blanks) or a list of tokens.

        Raises: InvalidInput for one without a token, naming its number.
        """
        from trainables.attacks import FEATURES
        from trainables.saved import unlabelled

        texts = [tuple(u.split()) if isinstance(u, str) else tuple(u) for u in utterances]
        for number, tokens in enumerate(texts, start=1):
            if not tokens:
                raise InvalidInput(f"expected words in utterance {number}, got none")
        if not texts:
            return []
        said = self._saved.read(unlabelled(tokens) for tokens in texts)
        # The path's log-probability is kept by token.
        intent, path = (said.features[:, FEATURES.index(name)] for name in ("intent_1", "path"))
        confidence = intent * np.exp(path * np.array([len(tokens) for tokens in texts]))
        return [
            Prediction(
                tokens=tokens,
                intent=frame.intent,
                slots=tuple(
                    (name, start, end, " ".join(tokens[start:end]))
                    for name, start, end in frame.slots
                ),
                confidence=float(chance),
            )
            for tokens, frame, chance in zip(
                texts, said.frames(self.schema), confidence, strict=True
            )
        ]


def load_model(folder: str | Path) -> ExportedModel:
    """The model in an exported folder.

    Raises: InvalidInput where the folder holds no model of intents and slots, InvalidData where its
    files are damaged or differ from its manifest.
    """
    from sweep.results.exported import require_export
    from trainables import saved

    require_export(Path(folder))
    return ExportedModel(saved.load(Path(folder)))
