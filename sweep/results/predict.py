"""Prediction of intents and slots by an exported model: `load_model("folder")("show
flights")`.

Only the exported folder (or its `model` folder) is needed, not the sweep.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from trainables.data.records import size_problem
from trainables.data.tokenization import Tokenization, tokens_of
from trainables.errors import InvalidInput, kind_of
from trainables.io.documents import DocumentProblem, parse_json

if TYPE_CHECKING:
    from trainables.io.files import Line

_LINES_AT_ONCE = 256


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """The predicted meaning of an utterance. A slot is (name, first token, one past the
    last, text); `confidence` is the probability of intent and tags together.
    """

    tokens: tuple[str, ...]
    intent: str
    slots: tuple[tuple[str, int, int, str], ...]
    confidence: float

    def to_dict(self) -> dict[str, object]:
        """Plain data, as `sweep score` reads it: `text` has one space between tokens.
        By hand, because the slots of that format are objects.
        """
        slots = [
            {"slot": name, "start": start, "end": end, "text": text}
            for name, start, end, text in self.slots
        ]
        return {
            "text": " ".join(self.tokens),
            "intent": self.intent,
            "slots": slots,
            "confidence": self.confidence,
        }


class ExportedModel:
    """A trained model with its label maps. Call it with utterances. A pickled one names
    its folder, from which it is loaded again, and checked.
    """

    def __init__(
        self,
        folder: Path,
        *,
        tokenize: Tokenization | None = None,
        factory: str | None = None,
    ) -> None:
        from trainables import saved

        self._source = (folder.absolute(), tokenize, factory)
        self._saved = saved.load(folder, factory=factory)
        self.model = self._saved.model
        self.schema = self._saved.schema
        self.tokenize: Tokenization = tokenize or self.schema.tokenize

    def __reduce__(self) -> tuple[Any, ...]:
        folder, tokenize, factory = self._source
        return partial(load_model, tokenize=tokenize, factory=factory), (folder,)

    def tokens_of(self, text: str) -> tuple[str, ...]:
        """The tokens of a text, by `tokenize`."""
        return tokens_of(text, tokenize=self.tokenize)

    @overload  # a text is a sequence of texts, too
    def __call__(self, utterances: str) -> Prediction: ...  # type: ignore[overload-overlap]

    @overload
    def __call__(
        self, utterances: Sequence[str | Sequence[str]]
    ) -> list[Prediction]: ...

    def __call__(
        self, utterances: str | Sequence[str | Sequence[str]]
    ) -> Prediction | list[Prediction]:
        """The prediction for a text, or those for several utterances, each a text (cut
        as the texts of its training corpus were) or a list of tokens.

        Raises: InvalidInput for one that is neither, without a token, or with too many,
        naming its number.
        """
        if isinstance(utterances, str):
            return self([utterances])[0]
        from trainables.attacks import FEATURES
        from trainables.saved import unlabelled

        texts = []
        for number, each in enumerate(utterances, start=1):
            tokens = (
                self.tokens_of(each) if isinstance(each, str) else _listed(each, number)
            )
            texts.append(tokens)
            if (problem := _problem(tokens)) is not None:
                raise InvalidInput(f"{problem} in utterance {number}")
        if not texts:
            return []
        predicted = self._saved.read(unlabelled(tokens) for tokens in texts)
        # The path's log-probability is kept by token.
        intent, path = (
            predicted.features[:, FEATURES.index(name)] for name in ("intent_1", "path")
        )
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
                texts, predicted.frames(self.schema), confidence, strict=True
            )
        ]


def _listed(given: object, number: int) -> tuple[str, ...]:
    """Raises: InvalidInput unless utterance `number` is a list of tokens."""
    if isinstance(given, Iterable) and not isinstance(given, bytes):
        tokens = tuple(given)
        if all(isinstance(token, str) for token in tokens):
            return tokens
    raise InvalidInput(
        f"expected a text or a list of tokens in utterance {number}, got"
        f" {kind_of(given)}"
    )


def answers(
    model: ExportedModel, groups: Iterable[Sequence[Line]], *, are_objects: bool = False
) -> Iterator[tuple[int, Prediction | str]]:
    """For each line of `groups` its number and its prediction or problem, in order. A
    line is a text or, with `are_objects`, a JSON object with `tokens` or `text`. Memory
    does not grow with the input.
    """
    for group in groups:
        for start in range(0, len(group), _LINES_AT_ONCE):
            found: dict[int, tuple[str, ...] | str] = {}
            for number, line in group[start : start + _LINES_AT_ONCE]:
                try:
                    if not isinstance(line, str):
                        raise line
                    tokens = (
                        _tokens_in(line, model)
                        if are_objects
                        else model.tokens_of(line)
                    )
                    found[number] = _problem(tokens) or tokens
                except DocumentProblem as problem:
                    found[number] = str(problem)
            good = [tokens for tokens in found.values() if not isinstance(tokens, str)]
            predictions = iter(model(good))
            for number, each in found.items():
                yield number, each if isinstance(each, str) else next(predictions)


def _tokens_in(line: str, model: ExportedModel) -> tuple[str, ...]:
    """Raises: DocumentProblem unless it is a JSON object with tokens or a text."""
    fields = parse_json(line)
    tokens = fields.get("tokens") if isinstance(fields, dict) else None
    if isinstance(tokens, list) and all(
        isinstance(t, str) and t.split() == [t] for t in tokens
    ):
        return tuple(tokens)
    text = fields.get("text") if isinstance(fields, dict) else None
    if tokens is not None or not isinstance(text, str):
        raise DocumentProblem("expected a JSON object with tokens or text")
    return model.tokens_of(text)


def _problem(tokens: Sequence[str]) -> str | None:
    if not tokens:
        return "expected at least one word, got none"
    return size_problem(tokens)


def load_model(
    folder: str | Path,
    *,
    tokenize: Tokenization | None = None,
    factory: str | None = None,
) -> ExportedModel:
    """The model in an exported folder. `tokenize` is the tokenization; default: that of
    its training corpus. `factory` names the code of a model with user code, which is
    then imported.

    Raises: InvalidInput where the folder holds no model of intents and slots,
    InvalidData where its files are damaged or differ from its manifest.
    """
    from sweep.results.exported import require_export

    require_export(Path(folder))
    return ExportedModel(Path(folder), tokenize=tokenize, factory=factory)
