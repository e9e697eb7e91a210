"""Which encoder it is: a digest of its files, and the refusal of another one. No torch."""

from __future__ import annotations

import hashlib
from pathlib import Path

from trainables.encoders.about import about_of
from trainables.encoders.families import public_encoder
from trainables.errors import InvalidInput

ENCODER = "encoder_digest"  # its name in a checkpoint's state and in `model.json`


def encoder_digest(name: str) -> str:
    """SHA-256 of the files of the encoder of that name; empty for "scratch"."""
    if name == "scratch":
        return ""
    about = about_of(name)
    return public_encoder(name).digest() if about is None else digest_of(about.place)


def digest_of(place: Path) -> str:
    """SHA-256 of all files by name and content, those written by `transformers` included."""
    found = hashlib.sha256()
    for file in sorted(place.iterdir()):
        if file.is_file() and not file.name.startswith("."):
            found.update(file.name.encode())
            with file.open("rb") as content:
                found.update(hashlib.file_digest(content, "sha256").digest())
    return found.hexdigest()


def require_encoder(name: str, digest: str, *, where: Path) -> None:
    """Refuse another encoder than the one of `digest`, which was written down in `where`; an empty
    digest is that of no encoder, or of an earlier version.

    Raises: InvalidInput; InvalidData where there is no such encoder.
    """
    found = encoder_digest(name) if digest else ""
    if found != digest:
        raise InvalidInput(
            f"expected model.encoder={name} as {where} names it (SHA-256 {digest[:12]}), got"
            f" another ({found[:12]}): bring the files of that encoder back"
        )
