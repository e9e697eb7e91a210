"""Sources of fixed features: an encoder of `sweep pretrain`, or a public one of any family."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainables import catalogue
from trainables.config import model_part
from trainables.data.records import LabelSchema
from trainables.encoders import folder
from trainables.encoders.about import about_of
from trainables.encoders.families import public_encoder
from trainables.encoders.moments import MADE_UTTERANCES, BothMoments, public_moments
from trainables.errors import InvalidData

if TYPE_CHECKING:
    from trainables.encoders.names import NameScores
    from trainables.encoders.recipe import Encoder

_NONE = LabelSchema(intents=("none",), slots=(), source="none")  # an encoder's own heads


@dataclass(frozen=True, eq=False)
class FixedSource:
    """`layers` are the layers with states, `default` those joined by default; `widths` of each
    layer's rows of tokens and of records; `moments(layers, cache_dir)` are public."""

    encoder: Encoder
    layers: tuple[int, ...]
    default: tuple[int, ...]
    widths: tuple[tuple[int, ...], tuple[int, ...]]
    moments: Callable[[tuple[int, ...], Path | None], BothMoments]
    names: NameScores | None
    digest: str
    provenance: str
    moments_of: str  # what they are computed from, in words
    has_own_moments: bool = True


def source_of(name: str) -> FixedSource:
    """The encoder of that name.

    Raises: InvalidInput where it cannot be found or used, InvalidData where its files are damaged.
    """
    if about_of(name) is not None:
        return _own(name)
    from trainables.encoders.hub_encoder import HubEncoder

    public = public_encoder(name)
    encoder = HubEncoder(public)
    every = tuple(range(public.num_layers + 1))
    widths = (public.width,) * len(every)
    digest = public.digest()
    return FixedSource(
        encoder,
        every,
        public.default_layers,
        (widths, widths),
        lambda layers, cache_dir: public_moments(
            encoder, layers, place=public.place, digest=digest, cache_dir=cache_dir
        ),
        None,
        digest,
        f"features of {public.provenance}",
        MADE_UTTERANCES,
        has_own_moments=False,
    )


def _own(name: str) -> FixedSource:
    found = folder.read(name)
    fields = model_part(**found.model)
    build = catalogue.entry("models", fields.name, kind="frames").build
    encoder: Any = build(fields, schema=_NONE, seed=0)
    if found.weights is not None:
        folder.load_weights(encoder, found.weights, place=found.place)
    encoder.eval().requires_grad_(False)
    if found.moments is None:
        raise InvalidData(f"expected the moments of an encoder in {found.place}, got none")
    tokens, records = found.moments
    return FixedSource(
        encoder,
        found.layers,
        found.layers,
        (tokens.widths, records.widths),
        partial(_some, found.moments, found.layers),
        found.names,
        found.digest,
        _provenance(found.card, found.place),
        "utterances of the encoder's corpora",
    )


def _some(
    moments: BothMoments, there: tuple[int, ...], layers: tuple[int, ...], cache_dir: Path | None
) -> BothMoments:
    tokens, records = (each.of([there.index(layer) for layer in layers]) for each in moments)
    return tokens, records


def _provenance(card: Mapping[str, Any], place: Path) -> str:
    """Provenance for the card: its name, its start and its pretraining corpora."""
    corpora = ", ".join(str(each["name"]) for each in card["corpora"])
    return (
        f"features of the public encoder {card.get('name', place.name)}, pretrained"
        f" on {corpora} ({card.get('starts_from', 'unknown start')})"
    )
