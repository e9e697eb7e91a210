"""Checkpoints of a trial: tensors as safetensors, the rest as JSON, nothing that
unpickles.

A checkpoint is one folder that is replaced atomically (written to another name, then
renamed), so a crash leaves the previous one complete. Its only private statistics are
those that the engine released: weights and the optimiser's moments of noised gradients.
Both files name their common writing and the owner, so that neither is loaded with
another's.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainables.errors import InvalidData
from trainables.io.disk import flush_tree
from trainables.io.files import dump_json, make_folder, read_written_json

if TYPE_CHECKING:
    import torch

_CURRENT = "checkpoint"
_STATE, _TENSORS = "state.json", "tensors.safetensors"
_MOST_HEADER = 100_000_000  # bytes, the format's own limit
_MARK = "written"  # in the state: by whom, and the name of the writing
OWNER: ContextVar[str] = ContextVar("owner", default="")  # of what this thread saves
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
    return {
        n.removeprefix(prefix): t for n, t in tensors.items() if n.startswith(prefix)
    }


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
    mark = {"owner": OWNER.get(), "name": secrets.token_hex(8)}
    write_tensors(fresh / _TENSORS, checkpoint.tensors, metadata=mark)
    dump_json(fresh / _STATE, {**checkpoint.state, _MARK: mark})
    flush_tree(fresh)  # so that a rename does not precede its content


def write_tensors(
    file: Path,
    tensors: Mapping[str, torch.Tensor],
    *,
    metadata: dict[str, str] | None = None,
) -> None:
    """Write tensors as safetensors, which has none that share memory, as tied weights
    do.
    """
    from safetensors.torch import save_file

    written: dict[str, torch.Tensor] = {}
    places: set[int] = set()
    for name, tensor in tensors.items():
        whole = tensor.detach().contiguous()
        place = whole.untyped_storage().data_ptr()
        written[name] = whole.clone() if place in places else whole
        places.add(place)
    save_file(written, str(file), metadata)


def exists(folder: Path) -> bool:
    """Whether `folder` has a checkpoint, readable or not. A copy under another name is
    none.
    """
    return _place(folder) is not None


def state_of(folder: Path) -> dict[str, Any]:
    """The state of the checkpoint of `folder`, without its tensors; empty without a
    checkpoint.

    Raises: InvalidData where it cannot be read.
    """
    return _state_and_mark(folder)[0]


def owner_of(folder: Path) -> str:
    """The owner of the checkpoint of `folder`; "" where none is named, or without a
    checkpoint.

    Raises: InvalidData where it cannot be read.
    """
    return str(_state_and_mark(folder)[1].get("owner", ""))


def _state_and_mark(folder: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    place = _place(folder)
    if place is None:
        return {}, {}
    state = read_written_json(place / _STATE)
    mark = state.pop(_MARK, {}) if isinstance(state, dict) else None
    if not isinstance(mark, dict):
        raise InvalidData(
            f"expected a readable checkpoint in {place}, got a damaged {_STATE}"
        )
    if _metadata_of(place / _TENSORS) != mark:
        raise InvalidData(
            f"expected a readable checkpoint in {place}, got a {_STATE} and {_TENSORS}"
            " that were not written together"
        )
    return state, mark


def _metadata_of(file: Path) -> dict[str, str]:
    """The metadata of a file of safetensors (8 bytes of its header's length, the
    header, tensors), without its tensors and without PyTorch.

    Raises: InvalidData for one that is missing, or shorter or longer than its header
    says.
    """
    try:
        with file.open("rb") as content:
            length = int.from_bytes(content.read(8), "little")
            header = json.loads(content.read(min(length, _MOST_HEADER)))
        metadata = header.pop("__metadata__", {})
        ends = [int(tensor["data_offsets"][1]) for tensor in header.values()]
        is_whole = file.stat().st_size == 8 + length + max(ends, default=0)
    except (
        OSError,
        ValueError,
        TypeError,
        KeyError,
        AttributeError,
        IndexError,
        RecursionError,
    ):
        is_whole = False
    if not is_whole:
        raise InvalidData(
            f"expected a readable checkpoint in {file.parent}, got a damaged"
            f" {file.name}"
        )
    return dict(metadata)


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
        state, _ = _state_and_mark(folder)
        return Checkpoint(tensors=load_file(str(place / _TENSORS)), state=state)
    except (OSError, InvalidData, ValueError, SafetensorError) as error:
        raise InvalidData(
            f"expected a readable checkpoint in {place}, got {error}"
        ) from None


def _place(folder: Path) -> Path | None:
    found = (folder / name for name in (_CURRENT, _PREVIOUS))
    return next((place for place in found if place.exists()), None)


def remove(folder: Path) -> None:
    """Remove the checkpoint of `folder`, and the remains of one interrupted by a crash.
    A copy under another name stays.
    """
    for place in (folder / _CURRENT, *folder.glob(f".{_CURRENT}.*")):
        if place.is_dir():
            shutil.rmtree(place)
        else:
            place.unlink(missing_ok=True)
