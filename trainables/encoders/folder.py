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
from typing import Any, Literal

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from trainables.encoders.about import (
    ABOUT,
    LEARNT,
    MOMENTS,
    NAMES,
    WEIGHTS,
    About,
    read_about,
)
from trainables.encoders.identity import digest_of
from trainables.encoders.moments import BothMoments, load_moments
from trainables.encoders.names import NameScores
from trainables.errors import InvalidData

WORDS = "words.npz"
# The files of an encoder; other files in its folder are never exported.
FILES = (
    *(ABOUT, WEIGHTS, MOMENTS, NAMES, WORDS, LEARNT, "config.json", "model.safetensors"),
    *("tokenizer.json", "tokenizer_config.json", "vocab.txt"),
    *("special_tokens_map.json", "added_tokens.json"),
)
HEADS = ("intent_head.", "tag_head.", "crf.")  # weights that are no encoder's
Bits = Literal[32, 16, 8]
_SCALE = ".scale"
_LARGEST = 127


@dataclass(frozen=True, eq=False)
class EncoderFolder(About):
    """An encoder that was read, with its description. `moments` are of its `layers`."""

    weights: Mapping[str, Tensor] | None  # None: `model` names where they are
    moments: BothMoments | None
    names: NameScores | None
    digest: str  # SHA-256 of the files


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
    is_bert = model.get("encoder") == "."
    moments, names = place / MOMENTS, place / NAMES
    if "word_vectors" in model and (place / WORDS).is_file():
        model["word_vectors"] = str(place / WORDS)
    if is_bert:
        model["encoder"] = str(place)
    try:
        return EncoderFolder(
            place,
            model,
            about.card,
            about.layers,
            weights=None if is_bert else load_tensors(place / WEIGHTS),
            moments=load_moments(moments) if moments.is_file() else None,
            names=NameScores(**load_tensors(names)) if names.is_file() else None,
            digest=digest_of(place),
        )
    except (OSError, ValueError, KeyError, TypeError, SafetensorError):
        raise InvalidData(f"expected a whole encoder in {place}, got a damaged one") from None


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


def save_tensors(tensors: Mapping[str, Tensor], file: Path, *, bits: Bits) -> None:
    """Write tensors in so many bits; whole numbers keep their type.

    In 8 bits a matrix has one float32 scale a row, and the error of an entry is at most 1/254 of
    the largest of its row. Vectors keep 16 bits.
    """
    kept: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        if bits == 32 or not tensor.is_floating_point():
            kept[name] = tensor.contiguous()
        elif bits == 8 and tensor.dim() > 1:
            largest = tensor.float().abs().flatten(1).amax(1)
            scale = (largest / _LARGEST).clamp(min=torch.finfo(torch.float32).tiny)
            rows = (tensor.float() / _beside(scale, tensor)).round().clamp(-_LARGEST, _LARGEST)
            kept[name], kept[name + _SCALE] = rows.to(torch.int8), scale
        else:
            kept[name] = tensor.half().contiguous()
    save_file(kept, str(file))


def load_tensors(file: Path) -> dict[str, Tensor]:
    """The tensors of a file of `save_tensors`, floating point as float32.

    Raises: OSError, ValueError, KeyError or SafetensorError where it is missing or damaged.
    """
    found = load_file(str(file))
    for name in [name for name in found if name.endswith(_SCALE)]:
        scale, rows = found.pop(name), found[name.removesuffix(_SCALE)]
        found[name.removesuffix(_SCALE)] = rows.float() * _beside(scale, rows)
    return {k: t.float() if t.is_floating_point() else t for k, t in found.items()}


def _beside(scale: Tensor, rows: Tensor) -> Tensor:
    return scale.view(-1, *[1] * (rows.dim() - 1))
