"""Tensors on disk in 32, 16 or 8 bits; read back as float32.

In 8 bits a matrix has one float32 scale a row, and the error of an entry is at most 1/254 of the
largest of its row. Vectors keep 16 bits.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

Bits = Literal[32, 16, 8]
_SCALE = ".scale"
_LARGEST = 127


def save(tensors: Mapping[str, Tensor], file: Path, *, bits: Bits) -> None:
    """Write tensors; whole numbers keep their type."""
    kept: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        if bits == 32 or not tensor.is_floating_point():
            kept[name] = tensor.contiguous()
        elif bits == 8 and tensor.dim() > 1:
            kept[name], kept[name + _SCALE] = _quantize(tensor)
        else:
            kept[name] = tensor.half().contiguous()
    save_file(kept, str(file))


def load(file: Path) -> dict[str, Tensor]:
    """The tensors of a file of `save`, floating point as float32.

    Raises: OSError, ValueError or SafetensorError where the file is missing or damaged.
    """
    found = load_file(str(file))
    scales = {name: found.pop(name) for name in list(found) if name.endswith(_SCALE)}
    for name, scale in scales.items():
        rows = found[name.removesuffix(_SCALE)]
        found[name.removesuffix(_SCALE)] = rows.float() * _beside(scale, rows)
    return {k: t.float() if t.is_floating_point() else t for k, t in found.items()}


def _quantize(tensor: Tensor) -> tuple[Tensor, Tensor]:
    largest = tensor.float().abs().flatten(1).amax(1)
    scale = (largest / _LARGEST).clamp(min=torch.finfo(torch.float32).tiny)
    rows = (tensor.float() / _beside(scale, tensor)).round().clamp(-_LARGEST, _LARGEST)
    return rows.to(torch.int8), scale


def _beside(scale: Tensor, rows: Tensor) -> Tensor:
    return scale.view(-1, *[1] * (rows.dim() - 1))
