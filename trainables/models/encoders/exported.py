"""Encoders that `sweep export` wrote, known by their weights.

The home that exported one keeps a digest of each of its tensors, by type, shape and
content, and so finds a copied folder, one without its `export.json`, and one that
another program saved again, in which tensors have other names or some are added.
"""

import hashlib
import json
from collections.abc import Iterator
from functools import lru_cache
from io import BytesIO
from pathlib import Path
from typing import IO

from trainables.errors import InvalidData
from trainables.models.encoders import hub
from trainables.models.encoders.about import MOMENTS, NAMES


def folder_of(encoder: str) -> Path | None:
    """The folder of an encoder that may be an export: a local one, or of the hub's
    cache; None for one that ships or is not here.
    """
    if (place := Path(encoder).expanduser()).is_dir():
        return place
    return hub.cached_folder(encoder) if hub.is_of_hub(encoder) else None


def tensor_digests(place: Path) -> dict[str, str]:
    """The digest of every tensor of the weights in the folder `place`, 32 hex digits by
    its name, without constant ones, which unrelated models share.

    Raises: InvalidData where a file of weights cannot be read.
    """
    found: dict[str, str] = {}
    for file in hub.files_of(place):
        if file.suffix in (".safetensors", ".bin") and file.name not in (
            MOMENTS,
            NAMES,
        ):
            found |= digests_in(file)
    return found


def digests_in(file: Path) -> dict[str, str]:
    """The digests of one file of weights, as `tensor_digests` gives them for a folder:
    32 hex digits by the tensor's name, kept in memory while the file is unchanged.

    Raises: InvalidData where the file cannot be read.
    """
    try:
        now = file.stat()
        return _digests(file, now.st_size, now.st_mtime_ns)
    except Exception as error:  # noqa: BLE001  a library raises many kinds for a damaged file
        raise InvalidData(
            f"expected weights in {file}, got a file that cannot be read"
            f" ({type(error).__name__})"
        ) from None


@lru_cache(maxsize=64)
def _digests(file: Path, size: int, time: int) -> dict[str, str]:
    with file.open("rb") as content:
        stream = content if file.suffix == ".safetensors" else _as_safetensors(file)
        return dict(_tensors(stream))


def _tensors(stream: IO[bytes]) -> Iterator[tuple[str, str]]:
    """The name and the digest of each tensor of numbers of a file of safetensors, which
    is not read at once, without constant tensors.
    """
    begin = 8 + int.from_bytes(stream.read(8), "little")
    header = json.loads(stream.read(begin - 8))
    header.pop("__metadata__", None)
    for name, about in header.items():
        if about["dtype"].startswith(("F", "BF")):
            first, last = about["data_offsets"]
            stream.seek(begin + first)
            data = stream.read(last - first)
            if data[:-8] != data[8:]:  # elements have at most 8 bytes
                kind = f"{about['dtype']} {about['shape']}".encode()
                yield name, hashlib.blake2b(kind + data, digest_size=16).hexdigest()


def _as_safetensors(file: Path) -> IO[bytes]:
    """A file of torch, of tensors alone, in the other format."""
    import torch
    from safetensors.torch import save

    state = torch.load(file, map_location="cpu", weights_only=True)
    return BytesIO(
        save({name: tensor.clone().contiguous() for name, tensor in state.items()})
    )
