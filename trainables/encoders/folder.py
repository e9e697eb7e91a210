"""An encoder on disk: its description, weights, public moments and card.

    encoder.json         the fields of `model`, the card (corpora, licences, counts), the format
    weights.safetensors  in 32, 16 or 8 bits, our names; heads left out (a bert: model.safetensors
                         and config.json, as `transformers` names them)
    moments.safetensors  mean and covariance of the layers' joined rows, of tokens and of records
    names.safetensors    how label names score tokens and records, learnt on the public corpora
    words.npz            the word table of a clc, where it has one
    learnt.npy           hashes of its pretraining texts (`encoders.learnt`)
    tokenizer files      of a bert

A folder contains no private data; it is made from the public corpora that the card names.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from torch import Tensor, nn

from trainables.encoders import tensors
from trainables.encoders.about import (
    ABOUT,
    LEARNT,
    MOMENTS,
    NAMES,
    WEIGHTS,
    About,
    read_about,
    write_about,
)
from trainables.encoders.identity import digest_of
from trainables.encoders.moments import load_moments, save_moments
from trainables.encoders.names import NameScores
from trainables.encoders.rows import Moments
from trainables.errors import InvalidData

WORDS = "words.npz"
# The files of an encoder; other files in its folder are never exported.
FILES = (
    *(ABOUT, WEIGHTS, MOMENTS, NAMES, WORDS, LEARNT, "config.json", "model.safetensors"),
    *("tokenizer.json", "tokenizer_config.json", "vocab.txt"),
    *("special_tokens_map.json", "added_tokens.json"),
)
HEADS = ("intent_head.", "tag_head.", "crf.")  # weights that are no encoder's
_SCORES = ("projection", "tokens", "records")


@dataclass(frozen=True, eq=False)
class EncoderFolder(About):
    """An encoder that was read, with its description. `moments` are of its `layers`."""

    weights: Mapping[str, Tensor] | None  # None: `model` names where they are
    moments: tuple[Moments, Moments] | None  # of tokens, of records
    names: NameScores | None
    digest: str  # SHA-256 of the files


def write(
    place: Path,
    *,
    model: Mapping[str, Any],
    card: Mapping[str, Any],
    weights: Mapping[str, Tensor] | None,
    layers: tuple[int, ...],
    moments: tuple[Moments, Moments],
    names: NameScores,
    bits: tensors.Bits,
) -> None:
    """Write all files but those of words and pieces and the weights of a bert, written earlier."""
    place.mkdir(parents=True, exist_ok=True)
    if weights is not None:
        tensors.save(weights, place / WEIGHTS, bits=bits)
    save_moments(moments, place / MOMENTS)
    scores = {key: getattr(names, key) for key in _SCORES}
    tensors.save(scores, place / NAMES, bits=16 if bits == 32 else bits)
    write_about(place, model=model, card=card, layers=layers)


def with_words(model: Mapping[str, Any], place: Path, target: Path) -> dict[str, Any]:
    """The fields `model` of the encoder in `place`, for its copy in `target`, which gets the table
    of the words where there is one.
    """
    if not (place / WORDS).is_file():
        return dict(model)
    shutil.copyfile(place / WORDS, target / WORDS)
    return {**model, "word_vectors": WORDS}


def read(name: str) -> EncoderFolder:
    """The encoder `name`.

    Raises: InvalidInput where there is none, InvalidData where its files are damaged.
    """
    about = read_about(name)
    place, model = about.place, dict(about.model)
    try:
        weights = None if model.get("encoder") == "." else tensors.load(place / WEIGHTS)
        moments = None
        if (place / MOMENTS).is_file():
            moments = load_moments(place / MOMENTS)
        names = None
        if (place / NAMES).is_file():
            names = NameScores(**tensors.load(place / NAMES))
    except (OSError, ValueError, KeyError, TypeError, SafetensorError):
        raise InvalidData(f"expected a whole encoder in {place}, got a damaged one") from None
    if "word_vectors" in model and (place / WORDS).is_file():
        model["word_vectors"] = str(place / WORDS)
    if model.get("encoder") == ".":
        model["encoder"] = str(place)
    return EncoderFolder(
        place, model, about.card, about.layers, weights, moments, names, digest_of(place)
    )


def load_weights(model: nn.Module, weights: Mapping[str, Tensor], *, place: Path) -> None:
    """Load all of an encoder's weights into a model with other heads.

    Raises: InvalidData where they do not fit.
    """
    try:
        missing, unknown = model.load_state_dict(dict(weights), strict=False)
    except RuntimeError:
        missing, unknown = ["all"], []
    if unknown or any(not name.startswith(HEADS) for name in missing):
        raise InvalidData(f"expected weights in {place} that fit its encoder.json")
