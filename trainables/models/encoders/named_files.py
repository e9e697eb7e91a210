"""The files that a model's fields name, encoders and word vectors, and whether they are
still those that it was trained with. No torch.
"""

from collections.abc import Mapping
from itertools import zip_longest
from pathlib import Path
from typing import Any

from trainables.errors import InvalidInput
from trainables.models.encoders.hub import digest_of, is_here, public_encoder

ENCODER = "encoder_digest"  # its name in a checkpoint's state and in `model.json`
_NO_FILE = ("hashed", "glove")  # values of model.word_vectors


def encoders_of(model: Mapping[str, Any]) -> tuple[str, ...]:
    """The public encoders of a model with these fields; none for one of random weights.

    >>> encoders_of({"encoder": "dialogues"}), encoders_of({"encoder": ["dialogues", "minilm"]})
    (('dialogues',), ('dialogues', 'minilm'))
    """
    named = model.get("encoder", "scratch")
    every = (named,) if isinstance(named, str) else tuple(named)
    return tuple(name for name in every if name != "scratch")


def copies_in(folder: Path, *, number: int) -> list[Path]:
    """Where the `folder` of an export has its copies of so many encoders: the folder
    itself is that of one, several are numbered in it.
    """
    return [folder] if number == 1 else [folder / str(k) for k in range(1, number + 1)]


def moments_file(number: int) -> str:
    """The file beside a trial's weights with the moments that it computed for its
    encoder of that place, counted from 0.
    """
    return f"moments-{number}.safetensors"


def files_digest(model: Mapping[str, Any]) -> str:
    """SHA-256 of the files of the encoder of a model with these fields, or of its file
    of word vectors; of several encoders one each, with commas between them; empty where
    it has neither.

    Raises: InvalidInput where there is no such encoder or file.
    """
    encoders = encoders_of(model)
    vectors = str(model.get("word_vectors", "hashed"))
    if encoders or vectors in _NO_FILE:
        return ",".join(public_encoder(name).digest() for name in encoders)
    try:
        return digest_of([Path(vectors)])
    except OSError:
        raise InvalidInput(
            f"expected model.word_vectors={vectors} to be a file of word vectors, got"
            " none"
        ) from None


def require_files_of(model: Mapping[str, Any], digest: str, *, where: Path) -> None:
    """Refuse other files than those of `digest`, which was written down in `where`; an
    empty digest is that of no file.

    Raises: InvalidInput; InvalidData where there is no such encoder.
    """
    field = (
        "word_vectors" if model.get("word_vectors", "hashed") != "hashed" else "encoder"
    )
    names = encoders_of(model) or (model.get(field, "scratch"),)
    found = files_digest(model) if digest else ""
    every = zip_longest(names, digest.split(","), found.split(","), fillvalue="")
    for name, wanted, got in every:
        if wanted != got:
            raise InvalidInput(
                f"expected model.{field}={name} as {where} names it (SHA-256"
                f" {wanted[:12]}), got another ({got[:12]}): restore its files"
            )


def require_here(model: Mapping[str, Any], *, where: Path) -> None:
    """Refuse an encoder of the hub that is not whole in its cache: the folder `where`,
    which names it, may be another person's.

    Raises: InvalidInput.
    """
    for encoder in encoders_of(model):
        if not is_here(encoder):
            raise InvalidInput(
                f"expected model.encoder={encoder!r}, which {where} names, in the hub's"
                " cache, got none: the hub is not asked for a folder's encoder (`hf"
                f" download {encoder}` keeps it)"
            )
