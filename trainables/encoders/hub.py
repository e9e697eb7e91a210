"""Finds an encoder of the Hugging Face kind: a folder, or a name of the hub.

A name is searched in the local cache of the hub, then fetched: first its description, then, if it
is usable, its weights. One request tests the network, so that nothing is retried without one.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from trainables.documents import one_line, words_of
from trainables.encoders.about import shipped_encoders
from trainables.errors import InvalidData

WEIGHTS = "model.safetensors"
LOCAL_FOLDER = "in a local folder"
_PICKLED = "pytorch_model.bin"  # read with weights_only: tensors, no code
_NAME = re.compile(r"[\w.-]+(/[\w.-]+)?")
_SMALL = re.compile(
    r"(config|tokenizer|tokenizer_config|special_tokens_map|added_tokens|vocab)\.json"
    r"|vocab\.txt|merges\.txt|(spiece|spm|sentencepiece\.bpe)\.model|README\.md|LICENSE"
)
_PATIENCE = 10.0  # seconds for the one request


def place_of(encoder: str) -> Path:
    """The folder of an encoder; that of a hub name may lack its weights.

    Raises: InvalidData where there is neither such a folder nor, here or on the hub, such a name.
    """
    place = Path(encoder).expanduser()
    if place.is_dir():
        return place
    if not _is_name(encoder):
        raise InvalidData(
            f"expected model.encoder to be one of {', '.join(shipped_encoders())}, a folder or a"
            f" hub name, got {encoder!r}: no such folder"
        )
    return _cached_folder(encoder) or _fetch(encoder, weights=False)


def published_name(encoder: str) -> str:
    """A hub name as a provenance states it; that of a folder, whose path must not leave, in words.

    >>> published_name("gpt2"), published_name("/home/ann/gpt2")
    ('gpt2', 'in a local folder')
    """
    return LOCAL_FOLDER if is_local(encoder) else encoder


def is_local(encoder: str) -> bool:
    """Whether it is a folder, which may be gone by now, and no name of the hub."""
    return Path(encoder).expanduser().is_dir() or not _is_name(encoder)


def is_on_hub_alone(encoder: str) -> bool:
    """Whether only the hub could have an encoder: a name, without a folder and not whole in the
    cache.
    """
    if is_local(encoder):
        return False
    kept = _cached_folder(encoder)
    return kept is None or not weight_files(kept)


def with_weights(encoder: str, place: Path) -> Path:
    """`place`, or the folder of the hub's encoder once it has weights.

    Raises: InvalidData where there are none.
    """
    if not weight_files(place) and not Path(encoder).expanduser().is_dir():
        place = _fetch(encoder, weights=True)
    if not weight_files(place):
        raise InvalidData(
            f"expected weights ({WEIGHTS} or {_PICKLED}, or parts with their index) in"
            f" model.encoder={encoder}, got none"
        )
    return place


def weight_files(place: Path) -> list[Path]:
    """The files of weights that are read: safetensors where there are any, one file or an index and
    its parts.
    """
    for name in (WEIGHTS, _PICKLED):
        if (place / name).is_file():
            return [place / name]
        stem, _, suffix = name.rpartition(".")
        index, parts = place / f"{name}.index.json", sorted(place.glob(f"{stem}-*.{suffix}"))
        if parts and index.is_file():
            return [index, *parts]
    return []


def files_of(place: Path) -> list[Path]:
    """All files of the encoder in `place`: its description, then the weights."""
    small = [file for file in sorted(place.iterdir()) if _SMALL.fullmatch(file.name)]
    return [*small, *weight_files(place)]


def digest_of_files(files: Iterable[Path]) -> str:
    """SHA-256 over files, by name and content."""
    found = hashlib.sha256()
    for file in files:
        found.update(file.name.encode())
        with file.open("rb") as content:
            found.update(hashlib.file_digest(content, "sha256").digest())
    return found.hexdigest()


def _is_name(encoder: str) -> bool:
    return bool(_NAME.fullmatch(encoder)) and not encoder.startswith(".")


def _cached_folder(encoder: str) -> Path | None:
    from huggingface_hub import try_to_load_from_cache

    found = try_to_load_from_cache(encoder, "config.json")
    return Path(found).parent if isinstance(found, str) else None


def _fetch(encoder: str, *, weights: bool) -> Path:
    """Raises: InvalidData without a network, or where the hub has no such encoder for us."""
    from huggingface_hub import HfApi, snapshot_download
    from huggingface_hub.constants import HF_HUB_OFFLINE
    from huggingface_hub.errors import HfHubHTTPError

    if HF_HUB_OFFLINE or os.environ.get("HF_HUB_OFFLINE", "0").upper() in ("1", "TRUE", "YES"):
        raise _not_here(encoder, "the hub is disabled (HF_HUB_OFFLINE)")
    try:
        listed = HfApi().model_info(encoder, timeout=_PATIENCE)
        names = [each.rfilename for each in listed.siblings or ()]
        chosen = _choose_files(names) if weights else [n for n in names if _SMALL.fullmatch(n)]
        return Path(snapshot_download(encoder, allow_patterns=chosen or ["config.json"]))
    except HfHubHTTPError as error:
        status = getattr(error.response, "status_code", "an error")
        raise _not_here(encoder, f"the hub answers {status}") from None
    except Exception as error:  # noqa: BLE001  clients of the hub raise many kinds
        raise _not_here(
            encoder, f"the hub cannot be reached ({one_line(words_of(error), characters=300)})"
        ) from None


def _choose_files(names: Sequence[str]) -> list[str]:
    """Small files and weights, safetensors where there are any."""
    small = [name for name in names if _SMALL.fullmatch(name)]
    for stem, suffix in (("model", "safetensors"), ("pytorch_model", "bin")):
        own = re.compile(rf"{stem}(-\d+-of-\d+)?\.{suffix}(\.index\.json)?")
        found = [name for name in names if own.fullmatch(name)]
        if found:
            return [*small, *found]
    return small


def _not_here(encoder: str, why: str) -> InvalidData:
    return InvalidData(
        f"expected model.encoder to be one of {', '.join(shipped_encoders())}, a folder or a hub"
        f" name that can be loaded, got {encoder!r}: no such folder, nothing of it in the hub's"
        f" cache, and {why}; with a network, `hf download {encoder}` keeps it"
    )
