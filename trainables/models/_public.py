"""A public encoder that `sweep pretrain` made, as the start of a model that is trained."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from trainables.encoders.about import ABOUT, About, read_about, shipped
from trainables.errors import InvalidData, InvalidInput

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import Tensor

    from trainables.config import DataConfig
    from trainables.models._nlu import NluModel

_HEADS = ("intent_head.", "tag_head.", "crf.")


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


def load_weights(model: NluModel, weights: Mapping[str, Tensor], *, place: Path) -> None:
    """All of an encoder's weights into a model that has heads of its own.

    Raises: InvalidData where they do not fit.
    """
    try:
        missing, unknown = model.load_state_dict(dict(weights), strict=False)
    except RuntimeError:
        missing, unknown = ["all"], []
    if unknown or any(not name.startswith(_HEADS) for name in missing):
        raise InvalidData(f"expected weights in {place} that fit its encoder.json")
