"""What an encoder's folder says of itself, read without its weights (and without torch)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainables.errors import InvalidData, InvalidInput

if TYPE_CHECKING:
    from trainables.config import DataConfig

ABOUT = "encoder.json"
_FORMAT = 2
_SHIPPED = Path(__file__).with_name("shipped")


@dataclass(frozen=True, eq=False)
class About:
    """`model` are the fields of a config's model part, as plain data; `card` says what the encoder
    was made from. `layers` are those whose states are features."""

    place: Path
    model: Mapping[str, Any]
    card: Mapping[str, Any]
    layers: tuple[int, ...]

    @property
    def corpora(self) -> tuple[str, ...]:
        """Names of the corpora that it was pretrained on, and the encoder that it started from."""
        own = (str(each["name"]) for each in self.card["corpora"])
        return tuple(dict.fromkeys((*own, *map(str, self.card.get("corpora_of_start", ())))))


def shipped() -> tuple[str, ...]:
    """Names of the encoders that ship with the package."""
    return tuple(sorted(place.parent.name for place in _SHIPPED.glob(f"*/{ABOUT}")))


def read_about(name: str) -> About:
    """What the encoder of that name says: a folder, or one that ships.

    Raises: InvalidInput where there is none, InvalidData where its file is damaged.
    """
    places = (Path(name).expanduser(), _SHIPPED / name)
    place = next((place for place in places if (place / ABOUT).is_file()), None)
    if place is None:
        allowed = ", ".join((*shipped(), "a folder that `sweep pretrain` made"))
        raise InvalidInput(f"expected model.encoder to be one of {allowed}, got {name!r}")
    try:
        fields = json.loads((place / ABOUT).read_text(encoding="utf-8"))
        found = About(
            place, dict(fields["model"]), dict(fields["card"]), tuple(map(int, fields["layers"]))
        )
        if fields["format"] != _FORMAT or not found.corpora or not found.layers:
            raise ValueError
    except (OSError, ValueError, KeyError, TypeError):
        raise InvalidData(
            f"expected an encoder of format {_FORMAT} in {place}, got a damaged {ABOUT}"
        ) from None
    return found


def write_about(
    place: Path, *, model: Mapping[str, Any], card: Mapping[str, Any], layers: tuple[int, ...]
) -> None:
    """Write what `read_about` reads; the last file of a folder, so that it is whole then."""
    about = {"format": _FORMAT, "model": dict(model), "layers": layers, "card": dict(card)}
    (place / ABOUT).write_text(json.dumps(about, indent=2) + "\n", encoding="utf-8")


def about_of(encoder: str) -> About | None:
    """What an encoder that ships, or a folder of `sweep pretrain`, says of itself; None for any
    other place.
    """
    is_one = (Path(encoder).expanduser() / ABOUT).is_file() or encoder in shipped()
    return read_about(encoder) if is_one else None


def refuse_learnt(about: About, encoder: str, data: DataConfig) -> None:
    """Raises: InvalidInput for an encoder that has learnt from the records themselves: no epsilon
    would cover it.
    """
    if data.name in about.corpora:
        raise InvalidInput(
            f"expected model.encoder without {data.name} among its public corpora, got {encoder}:"
            " it has learnt from the records themselves"
        )


def words(about: About) -> str:
    """Which encoder it is and what it learnt from."""
    name = about.card.get("name", about.place.name)
    return f"starts from the public encoder {name}, pretrained on {', '.join(about.corpora)}"
