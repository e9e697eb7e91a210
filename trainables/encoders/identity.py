"""Which public files a model starts from: their digest, and the refusal of others. No torch."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import zip_longest
from pathlib import Path
from typing import Any

from trainables.encoders.about import LEARNT, about_of
from trainables.encoders.hub import digest_of_files, is_on_hub_alone, public_encoder
from trainables.errors import InvalidInput

NO_FILE = ("hashed", "glove")  # values of model.word_vectors
ENCODER = "encoder_digest"  # its name in a checkpoint's state and in `model.json`


def encoders_of(model: Mapping[str, Any]) -> tuple[str, ...]:
    """The public encoders of a model with these fields; none for one of random weights.

    >>> encoders_of({"encoder": "dialogues"}), encoders_of({"encoder": ["dialogues", "minilm"]})
    (('dialogues',), ('dialogues', 'minilm'))
    """
    named = model.get("encoder", "scratch")
    every = (named,) if isinstance(named, str) else tuple(named)
    return tuple(name for name in every if name != "scratch")


def copies_in(folder: Path, *, number: int) -> list[Path]:
    """Where the `folder` of an export has its copies of so many encoders: the folder itself is that
    of one, several are numbered in it.
    """
    return [folder] if number == 1 else [folder / str(k) for k in range(1, number + 1)]


def moments_file(number: int) -> str:
    """The file beside a trial's weights with the moments that it computed for its encoder of that
    place, counted from 0.
    """
    return f"moments-{number}.safetensors"


def files_digest(model: Mapping[str, Any]) -> str:
    """SHA-256 of the files of the encoder of a model with these fields, or of its file of word
    vectors; of several encoders one each, with commas between them; empty where it has neither.

    Raises: InvalidInput where there is no such encoder or file.
    """
    encoders = encoders_of(model)
    vectors = str(model.get("word_vectors", "hashed"))
    if encoders or vectors in NO_FILE:
        return ",".join(map(encoder_digest, encoders))
    try:
        return digest_of_files([Path(vectors)])
    except OSError:
        raise InvalidInput(
            f"expected model.word_vectors={vectors} to be a file of word vectors, got none"
        ) from None


def encoder_digest(name: str) -> str:
    """SHA-256 of the files of the encoder of that name; empty for "scratch"."""
    if name == "scratch":
        return ""
    about = about_of(name)
    return public_encoder(name).digest() if about is None else digest_of(about.place)


def digest_of(place: Path) -> str:
    """SHA-256 of all files by name and content, those written by `transformers` included; the list
    of its texts, which no feature depends on, left out.
    """
    files = (file for file in sorted(place.iterdir()) if file.name != LEARNT)
    return digest_of_files(f for f in files if f.is_file() and not f.name.startswith("."))


def require_files_of(model: Mapping[str, Any], digest: str, *, where: Path) -> None:
    """Refuse other files than those of `digest`, which was written down in `where`; an empty digest
    is that of no file.

    Raises: InvalidInput; InvalidData where there is no such encoder.
    """
    found = files_digest(model) if digest else ""
    if found == digest:
        return
    names = encoders_of(model)
    is_of_words = not names and model.get("word_vectors", "hashed") != "hashed"
    field = "word_vectors" if is_of_words else "encoder"
    named = names or (model.get(field, "scratch"),)
    every = zip_longest(named, digest.split(","), found.split(","), fillvalue="")
    differing = (each for each in every if each[1] != each[2])
    name, wanted, got = next(differing, (named[0], digest, found))
    raise InvalidInput(
        f"expected model.{field}={name} as {where} names it (SHA-256 {wanted[:12]}), got another"
        f" ({got[:12]}): restore its files"
    )


def require_here(model: Mapping[str, Any], *, where: Path) -> None:
    """Refuse an encoder that must be fetched first: the folder `where`, which names it, may be
    another person's.

    Raises: InvalidInput.
    """
    for encoder in filter(is_on_hub_alone, encoders_of(model)):
        raise InvalidInput(
            f"expected model.encoder={encoder!r}, which {where} names, in the hub's cache, got none"
            f": the hub is not asked for a folder's encoder (`hf download {encoder}` keeps it)"
        )
