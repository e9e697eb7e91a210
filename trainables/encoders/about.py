"""The description of an encoder's folder, read without its weights (and without torch)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainables.errors import InvalidData, InvalidInput
from trainables.files import read_written_json

if TYPE_CHECKING:
    from trainables.sections import DataConfig

# Files of a folder, of which `encoders.folder` has all.
ABOUT, WEIGHTS = "encoder.json", "weights.safetensors"
MOMENTS, NAMES = "moments.safetensors", "names.safetensors"
LEARNT = "learnt.npy"
_FORMAT = 2
_SHIPPED = Path(__file__).with_name("shipped")


@dataclass(frozen=True, eq=False)
class About:
    """`model` are the fields of a config's model part, as plain data; `card` lists the corpora of
    the encoder. `layers` are those whose states are features."""

    place: Path
    model: Mapping[str, Any]
    card: Mapping[str, Any]
    layers: tuple[int, ...]

    @property
    def corpora(self) -> tuple[str, ...]:
        """Names of the pretraining corpora, and the encoder that the pretraining started from."""
        own = (str(each["name"]) for each in self.card["corpora"])
        return tuple(dict.fromkeys((*own, *map(str, self.card.get("corpora_of_start", ())))))

    @property
    def name(self) -> str:
        """The name in its card."""
        return str(self.card.get("name", self.place.name))


def shipped_encoders() -> tuple[str, ...]:
    """Names of the encoders that ship with the package."""
    return tuple(sorted(place.parent.name for place in _SHIPPED.glob(f"*/{ABOUT}")))


def about_of(encoder: str) -> About | None:
    """The description of an encoder that ships or of a folder of `sweep pretrain`; None for any
    other place.

    Raises: InvalidData where its file is damaged.
    """
    places = (Path(encoder).expanduser(), _SHIPPED / encoder)
    place = next((place for place in places if (place / ABOUT).is_file()), None)
    if place is None:
        return None
    try:
        fields = read_written_json(place / ABOUT)
        found = About(
            place, dict(fields["model"]), dict(fields["card"]), tuple(map(int, fields["layers"]))
        )
        if fields["format"] != _FORMAT or not found.corpora or not found.layers:
            raise ValueError
    except (InvalidData, ValueError, KeyError, TypeError):
        raise InvalidData(
            f"expected an encoder of format {_FORMAT} in {place}, got a damaged {ABOUT}"
        ) from None
    return found


def read_about(name: str) -> About:
    """The description of the encoder `name`, a folder or one that ships.

    Raises: InvalidInput where there is none, InvalidData where its file is damaged.
    """
    found = about_of(name)
    if found is None:
        allowed = ", ".join((*shipped_encoders(), "a folder that `sweep pretrain` made"))
        raise InvalidInput(f"expected model.encoder to be one of {allowed}, got {name!r}")
    return found


def write_about(
    place: Path, *, model: Mapping[str, Any], card: Mapping[str, Any], layers: tuple[int, ...]
) -> None:
    """Write the description of the encoder in `place`."""
    about = {"format": _FORMAT, "model": dict(model), "layers": layers, "card": dict(card)}
    (place / ABOUT).write_text(json.dumps(about, indent=2) + "\n", encoding="utf-8")


def require_kind(about: About, encoder: str, model: str) -> None:
    """Raises: InvalidInput for an encoder that is not of the entry `model`."""
    if about.model.get("name") != model:
        raise InvalidInput(
            f"expected model.encoder to be a {model} with model.name={model}, got {encoder}, a"
            f" {about.model.get('name')}"
        )


def require_files(about: About, encoder: str, *names: str) -> None:
    """Raises: InvalidData where the weights of an encoder or one of the files `names` are missing
    from its folder.
    """
    weights = "model.safetensors" if about.model.get("encoder") == "." else WEIGHTS
    for name in (weights, *names):
        if not (about.place / name).is_file():
            raise InvalidData(f"expected {name} in the folder of model.encoder={encoder}, got none")


def widths_of(about: About) -> tuple[list[int], list[int]]:
    """The widths of the layers' rows of tokens and of records.

    Raises: InvalidData where the moments of the encoder cannot be read.
    """
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(about.place / MOMENTS, framework="numpy") as file:
            tokens, records = (
                file.get_tensor(f"{kind}.widths").tolist() for kind in ("tokens", "records")
            )
    except (OSError, SafetensorError):
        tokens, records = [], []
    if not len(tokens) == len(records) == len(about.layers):
        raise InvalidData(f"expected a whole encoder in {about.place}, got a damaged {MOMENTS}")
    return tokens, records


def refuse_learnt(about: About, encoder: str, data: DataConfig) -> None:
    """Raises: InvalidInput for an encoder pretrained on the private records, which no epsilon would
    cover.
    """
    if data.name in about.corpora:
        raise InvalidInput(
            f"expected model.encoder without {data.name} among its public corpora, got {encoder}:"
            " it was trained on these records"
        )


def words(about: About) -> str:
    """A sentence with the encoder's name and its pretraining corpora."""
    return f"starts from the public encoder {about.name}, pretrained on {', '.join(about.corpora)}"


def words_of_left_out(about: About) -> str:
    """A sentence on the texts that fixed lists took out of its corpora; empty without lists."""
    lists = about.card.get("left_out_by_the_lists_of", ())
    if not lists:
        return ""
    number = sum(int(each.get("texts_left_out", 0)) for each in about.card["corpora"])
    return (
        f"fixed lists of texts that the corpora of the encoder {about.name} share with"
        f" {', '.join(lists)}, which took {number} out of its pretraining"
    )
