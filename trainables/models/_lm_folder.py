"""A trained causal LM as a folder: its weights, sizes and tokenizer.

Drawing needs nothing else, except for adapters on a model of `transformers` that is no GPT-2. The
folder then has the adapters, and `base.json` identifies the base weights. They are read from the
folder `base` inside, else from `model.encoder`, and must be identical. An export has `base` as its
`model.encoder` where that was a folder, whose path must not leave.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from trainables.config import SynthesisConfig
from trainables.data.texts import Tokenizer
from trainables.documents import read_written_json
from trainables.encoders import hub
from trainables.errors import InvalidData, InvalidInput
from trainables.models._causal_lm import CausalLm, LmSizes
from trainables.models._lm_source import base_model, tokenizer_of
from trainables.models._tokenizers import PretrainedTokenizer, PublicBpe, load_bpe
from trainables.models.causal_lm import Config

_WEIGHTS, _SIZES, _BASE_FILE = "weights.safetensors", "sizes.json", "base.json"
_TOKENIZER, _BASE = "tokenizer", "base"  # folders, `base` also as the name of an encoder


def save_lm(models: Mapping[str, nn.Module], tokenizer: Tokenizer, folder: Path) -> None:
    """Write models that share a tokenizer; of a model of the hub only the trained weights."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    tensors, sizes = {}, {}
    for stage, model in models.items():
        if isinstance(model, CausalLm):
            sizes[stage] = asdict(model.sizes)
        for name, tensor in model.state_dict().items():
            tensors[f"{stage}.{name}"] = tensor.detach().cpu().contiguous().clone()
    save_file(tensors, str(folder / _WEIGHTS))
    (folder / _SIZES).write_text(json.dumps(sizes, indent=1), encoding="utf-8")
    adapted = [model for stage, model in models.items() if stage not in sizes]
    if adapted:
        about = {"weights": adapted[0].provenance, "digest": _digest(adapted[0])}
        (folder / _BASE_FILE).write_text(json.dumps(about, indent=1), encoding="utf-8")
    if isinstance(tokenizer, PublicBpe):
        tokenizer.save(folder)
    elif isinstance(tokenizer, PretrainedTokenizer):
        tokenizer.save(folder / _TOKENIZER)


def load_lm(
    folder: Path, stages: Sequence[str], config: Config, synthesis: SynthesisConfig
) -> tuple[dict[str, nn.Module], Tokenizer]:
    """The models that `save_lm` wrote, ready to draw from, and their tokenizer.

    Raises: InvalidInput where the folder lacks weights or a tokenizer, they are damaged, or the
    weights are not all those of the models and no others.
    """
    tensors, sizes = _read(folder)
    if config.encoder == "scratch":
        tokenizer: Tokenizer = load_bpe(folder)
    else:
        tokenizer = tokenizer_of(str(folder / _TOKENIZER))
    models: dict[str, nn.Module] = {}
    for stage in stages:
        if config.encoder == "scratch" or stage in sizes:
            model: Any = _of_sizes(folder, sizes.get(stage), stage)
            _require_positions(model.sizes.positions, synthesis, where=folder / _SIZES)
        else:
            model = _of_base(folder, config, positions=synthesis.max_tokens)
        if synthesis.lora_rank is not None:
            model.adapt(rank=synthesis.lora_rank, alpha=synthesis.lora_alpha)
        if stage not in sizes:
            _refuse_another_base(folder, model)
        prefix = f"{stage}."
        own = {n.removeprefix(prefix): t for n, t in tensors.items() if n.startswith(prefix)}
        _load(model, own, where=f"of the stage {stage} in {folder / _WEIGHTS}")
        models[stage] = model.eval()
    return models, tokenizer


def copy_base(encoder: str, source: Path, target: Path) -> str:
    """The `model.encoder` of a copy of the folder `source` in `target`: the same, or, of a local
    folder, `base`, and adapters then have a copy of its weights.

    Raises: InvalidInput where they need a folder that is gone.
    """
    if encoder == "scratch" or not hub.is_local(encoder):
        return encoder
    own, place = source / _BASE, Path(encoder).expanduser()
    if own.is_dir():
        place = own
    if (source / _BASE_FILE).is_file():
        if not place.is_dir():
            raise InvalidInput(
                f"expected the weights that the adapters in {source} belong on at"
                f" model.encoder={encoder!r}, got no such folder: restore its files"
            )
        (target / _BASE).mkdir(mode=0o700)
        for file in hub.files_of(place):
            shutil.copyfile(file, target / _BASE / file.name)
    return _BASE


def _read(folder: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    for name in (_WEIGHTS, _SIZES):
        if not (folder / name).is_file():
            raise InvalidInput(f"expected weights of a causal LM in {folder}, got no {name}")
    try:
        tensors = load_file(str(folder / _WEIGHTS))
    except (OSError, ValueError, SafetensorError):
        raise InvalidInput(f"expected weights in {folder / _WEIGHTS}, got a damaged file") from None
    sizes = read_written_json(folder / _SIZES)
    if not isinstance(sizes, dict):
        raise InvalidInput(f"expected sizes in {folder / _SIZES}, got a damaged file")
    return tensors, sizes


def _of_sizes(folder: Path, sizes: Any, stage: str) -> CausalLm:
    try:
        return CausalLm(LmSizes(**sizes))
    except (InvalidInput, TypeError, ValueError, RuntimeError, ZeroDivisionError):
        raise InvalidInput(
            f"expected the sizes of the stage {stage} in {folder / _SIZES}, got none that fit"
        ) from None


def _require_positions(positions: int, synthesis: SynthesisConfig, *, where: Path) -> None:
    if synthesis.max_tokens > positions:
        raise InvalidInput(
            f"expected synthesis.max_tokens <= {positions}, the positions in {where}, got"
            f" {synthesis.max_tokens}"
        )


def _of_base(folder: Path, config: Config, *, positions: int) -> nn.Module:
    own = folder / _BASE
    encoder = str(own) if own.is_dir() else config.encoder
    try:
        return base_model(encoder, positions=positions)
    except InvalidInput:
        raise InvalidInput(
            f"expected the weights that the adapters in {folder} belong on in {own} or at"
            f" model.encoder={config.encoder!r}, got none that load here (the hub is not asked for"
            " a folder's weights; `hf download` keeps them)"
        ) from None


def _refuse_another_base(folder: Path, model: nn.Module) -> None:
    file = folder / _BASE_FILE
    try:
        wanted = read_written_json(file)["digest"]
    except (InvalidData, KeyError, TypeError):
        raise InvalidInput(f"expected the digest of the base in {file}, got none") from None
    if wanted != _digest(model):
        raise InvalidInput(
            f"expected the weights that the adapters in {folder} were trained on, got others"
        )


def _digest(model: nn.Module) -> str:
    """SHA-256 of the weights that are not trained, 64 hex digits."""
    digest = hashlib.sha256()
    for name, tensor in model.named_parameters():
        if not tensor.requires_grad:
            digest.update(f"{name} {tuple(tensor.shape)}\n".encode())
            digest.update(tensor.detach().cpu().contiguous().numpy().data)
    return digest.hexdigest()


def _load(model: nn.Module, own: dict[str, Tensor], *, where: str) -> None:
    """Load a model's state, whose tensors must match; a missing one would stay random."""
    wanted = model.state_dict()
    missing, other = wanted.keys() - own.keys(), own.keys() - wanted.keys()
    if missing or other:
        raise InvalidInput(
            f"expected the {len(wanted)} weights {where}, got {len(missing)} too few and"
            f" {len(other)} others"
        )
    for name, tensor in own.items():
        if tensor.shape != wanted[name].shape or tensor.dtype != wanted[name].dtype:
            raise InvalidInput(f"expected weights {where} of the model's shapes, got others")
        if not tensor.isfinite().all():
            raise InvalidInput(f"expected finite weights {where}, got others")
    model.load_state_dict(own)
