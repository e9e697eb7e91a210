"""Checkpoints of a trial: tensors as safetensors, the rest as JSON, nothing that unpickles.

A checkpoint is one folder that appears at once (written beside its place, then renamed), so a crash
at any moment leaves the previous one whole. It holds private statistics only in the form in which
the engine released them: weights and the optimiser's moments of noised gradients.
"""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

from trainables.errors import InvalidData

_CURRENT = "checkpoint"


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """`tensors` is flat: "model.*", "best.*" and "engine.*"; `state` is JSON data."""

    tensors: dict[str, torch.Tensor]
    state: dict[str, Any]

    def part(self, name: str) -> dict[str, torch.Tensor]:
        """The tensors whose name starts with `name.`, without that prefix."""
        prefix = f"{name}."
        return {
            key.removeprefix(prefix): tensor
            for key, tensor in self.tensors.items()
            if key.startswith(prefix)
        }


def save(folder: Path, checkpoint: Checkpoint) -> None:
    """Replace the checkpoint of `folder` by this one, atomically."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    fresh = folder / f".{_CURRENT}.{os.getpid()}"
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir(mode=0o700)
    tensors = {name: tensor.detach().contiguous() for name, tensor in checkpoint.tensors.items()}
    save_file(tensors, str(fresh / "tensors.safetensors"))
    (fresh / "state.json").write_text(json.dumps(checkpoint.state), encoding="utf-8")
    for file in fresh.iterdir():
        _flush(file)
    previous = folder / f".{_CURRENT}.previous"
    current = folder / _CURRENT
    shutil.rmtree(previous, ignore_errors=True)
    if current.exists():
        current.rename(previous)
    fresh.rename(current)
    shutil.rmtree(previous, ignore_errors=True)


def load(folder: Path) -> Checkpoint | None:
    """The checkpoint of `folder`, or None where there is none yet.

    Raises: InvalidData where its files cannot be read.
    """
    # Between the two renames of `save` only the previous one stands.
    for name in (_CURRENT, f".{_CURRENT}.previous"):
        place = folder / name
        if not (place / "state.json").exists():
            continue
        try:
            state = json.loads((place / "state.json").read_text(encoding="utf-8"))
            tensors = load_file(str(place / "tensors.safetensors"))
        except (OSError, ValueError) as error:
            raise InvalidData(f"expected a readable checkpoint in {place}, got {error}") from None
        return Checkpoint(tensors=tensors, state=state)
    return None


def _flush(file: Path) -> None:
    """Force a file to the disk: a rename must not overtake what it renames."""
    descriptor = os.open(file, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
