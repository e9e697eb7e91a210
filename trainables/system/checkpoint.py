"""Checkpoints of a trial: tensors as safetensors, the rest as JSON, nothing that unpickles.

A checkpoint is one folder that is replaced atomically (written to another name, then renamed), so a
crash leaves the previous one complete. Its only private statistics are those that the engine
released: weights and the optimiser's moments of noised gradients.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainables.errors import InvalidData
from trainables.files import dump_json, make_folder, read_written_json
from trainables.system.disk import flush

if TYPE_CHECKING:
    import torch

_CURRENT = "checkpoint"
_STATE = "state.json"
_PREVIOUS = f".{_CURRENT}.previous"  # the only copy between the two renames of `save`


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """`tensors` is flat: "model.*", "best.*" and "engine.*"; `state` is JSON data."""

    tensors: dict[str, torch.Tensor]
    state: dict[str, Any]

    def part(self, name: str) -> dict[str, torch.Tensor]:
        """The tensors whose name starts with `name.`, without that prefix."""
        return part_of(self.tensors, name)


def part_of(tensors: Mapping[str, torch.Tensor], name: str) -> dict[str, torch.Tensor]:
    """The tensors whose name starts with `name.`, without that prefix."""
    prefix = f"{name}."
    return {n.removeprefix(prefix): t for n, t in tensors.items() if n.startswith(prefix)}


def save(folder: Path, checkpoint: Checkpoint) -> None:
    """Replace the checkpoint of `folder` by this one, atomically."""
    make_folder(folder)
    fresh = folder / f".{_CURRENT}.{os.getpid()}"
    shutil.rmtree(fresh, ignore_errors=True)
    try:
        _write(fresh, checkpoint)
    except Exception:  # a partial checkpoint would take space on a full disk
        shutil.rmtree(fresh, ignore_errors=True)
        raise
    previous = folder / _PREVIOUS
    current = folder / _CURRENT
    shutil.rmtree(previous, ignore_errors=True)
    if current.exists():
        current.rename(previous)
    fresh.rename(current)
    shutil.rmtree(previous, ignore_errors=True)


def _write(fresh: Path, checkpoint: Checkpoint) -> None:
    fresh.mkdir(mode=0o700)
    write_tensors(fresh / "tensors.safetensors", checkpoint.tensors)
    dump_json(fresh / _STATE, checkpoint.state)
    for file in fresh.iterdir():
        flush(file)  # so that a rename does not precede its content


def write_tensors(file: Path, tensors: Mapping[str, torch.Tensor]) -> None:
    """Write tensors as safetensors, which has none that share memory, as tied weights do."""
    from safetensors.torch import save_file

    written: dict[str, torch.Tensor] = {}
    places: set[int] = set()
    for name, tensor in tensors.items():
        whole = tensor.detach().contiguous()
        place = whole.untyped_storage().data_ptr()
        written[name] = whole.clone() if place in places else whole
        places.add(place)
    save_file(written, str(file))


def is_there(folder: Path) -> bool:
    """Whether `folder` has a checkpoint, readable or not. A copy under another name is none."""
    return _place(folder) is not None


def state_of(folder: Path) -> dict[str, Any]:
    """The state of the checkpoint of `folder`, without its tensors; empty without a checkpoint.

    Raises: InvalidData where it cannot be read.
    """
    place = _place(folder)
    state = {} if place is None else read_written_json(place / _STATE)
    if not isinstance(state, dict):
        raise InvalidData(f"expected a readable checkpoint in {place}, got a damaged {_STATE}")
    return state


def load(folder: Path) -> Checkpoint | None:
    """The checkpoint of `folder`; None without one.

    Raises: InvalidData where its files cannot be read.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    place = _place(folder)
    if place is None:
        return None
    try:
        tensors = load_file(str(place / "tensors.safetensors"))
        return Checkpoint(tensors=tensors, state=state_of(folder))
    except (OSError, InvalidData, ValueError, SafetensorError) as error:
        raise InvalidData(f"expected a readable checkpoint in {place}, got {error}") from None


def _place(folder: Path) -> Path | None:
    found = (folder / name for name in (_CURRENT, _PREVIOUS))
    return next((place for place in found if place.exists()), None)


def remove(folder: Path) -> None:
    """Remove the checkpoint of `folder`, and the remains of one interrupted by a crash. A copy
    under another name stays.
    """
    for place in (folder / _CURRENT, *folder.glob(f".{_CURRENT}.*")):
        if place.is_dir():
            shutil.rmtree(place)
        else:
            place.unlink(missing_ok=True)
