"""Linear heads on the features of a fixed encoder, for few records and a strong guarantee.

The encoder is public and never trained here; its features are computed once for a corpus. A tag
head reads a token's row, an intent head the record's. The noise of a logit then grows with the norm
of a row, not with the number of weights (Tramèr and Boneh 2021).
No transitions are learnt; decoding obeys the BIO rules. With `prior: names` the heads learn what
the names of the labels do not say already (see `encoders.names`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from trainables.encoders.about import (
    MOMENTS,
    NAMES,
    about_of,
    refuse_learnt,
    require_files,
    widths_of,
)
from trainables.encoders.hub import public_encoder
from trainables.errors import InvalidInput
from trainables.frozen import MAX_NUMBER, MAX_WIDTH, Listed, With
from trainables.sections import DataConfig, ModelConfig

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trainables.data.records import LabelSchema
    from trainables.encoders.about import About
    from trainables.models._features import Features

SHADOW_LEARNING_RATE = 1e-3  # of the shadow model that attacks it
NO_NAMES = (
    "expected model.prior=none with model.encoder={}: it has learnt no names of labels (an encoder"
    " of `sweep pretrain` has)"
)


class Config(ModelConfig):
    """The fields of `model` with `name: features`."""

    name: Literal["features"] = "features"
    encoder: str = Field(
        "small",
        description="a shipped encoder | a folder of `sweep pretrain` | a folder or"
        " hub name of a Hugging Face encoder (with prior: none) | minilm"
        " (extra)",
    )
    layers: Listed[int] | None = Field(
        None,
        min_length=1,
        description="layers whose states are concatenated, 0 the embeddings; default:"
        " those chosen by `sweep pretrain`, or the middle and the last"
        " layer of another encoder",
    )
    neighbors: bool = Field(
        False, description="append the features of the previous and of the next token"
    )
    whitening: float | None = Field(
        0.3, gt=0, le=MAX_NUMBER, description="shrinkage of the public covariance; null: none"
    )
    components: Annotated[int | None, With(whitening=float)] = Field(
        None, ge=1, le=MAX_WIDTH, description="number of public principal components; default: all"
    )
    tag_head: Literal["plain", "factored"] = Field(
        "factored", description="factored: a tag's weights are a sum over the parts of its name"
    )
    tag_weight: float = Field(
        1.0,
        gt=0,
        le=MAX_NUMBER,
        description="weight of the tokens' losses relative to the intent's; it"
        " divides C between them",
    )
    bias: float = Field(0.3, ge=0, le=MAX_NUMBER, description="constant feature of every row")
    prior: Literal["names", "none"] = Field(
        "names",
        description="initial scores: from the names of the labels, as learned on the"
        " encoder's public corpora, or none",
    )

    @property
    def has_prior(self) -> bool:
        """With names."""
        return self.prior == "names"


def require_usable(config: Config, data: DataConfig) -> None:
    """Refuse an encoder that was trained on the trial's records, which no epsilon would cover, and
    one that cannot be used.

    Raises: InvalidInput for such an encoder, and for one that does not exist.
    """
    about = about_of(config.encoder)
    if about is not None:
        refuse_learnt(about, config.encoder, data)
        _require_parts(config, about)
        return
    public = public_encoder(config.encoder)
    if config.prior == "names":
        raise InvalidInput(NO_NAMES.format(config.encoder))
    require_layers(config, range(public.config.num_layers + 1))
    require_components(config, [public.config.width] * len(config.layers or public.default_layers))


def _require_parts(config: Config, about: About) -> None:
    """Raises: InvalidInput for layers, components or names that an encoder of `sweep pretrain`
    lacks, InvalidData where its files are missing.
    """
    require_files(about, config.encoder, MOMENTS)
    if config.prior == "names" and not (about.place / NAMES).is_file():
        raise InvalidInput(NO_NAMES.format(config.encoder))
    require_layers(config, about.layers)
    for widths in widths_of(about):
        of_layer = dict(zip(about.layers, widths, strict=True))
        require_components(config, [of_layer[k] for k in config.layers or about.layers])


def require_layers(config: Config, there: Sequence[int]) -> None:
    """Raises: InvalidInput for a layer that is not among those of the encoder."""
    if not set(config.layers or ()) <= set(there):
        raise InvalidInput(
            f"expected model.layers among {list(there)} with model.encoder={config.encoder}, got"
            f" {list(config.layers or ())}"
        )


def require_components(config: Config, widths: Sequence[int]) -> None:
    """Raises: InvalidInput for more components than rows of layers of these `widths` have."""
    if config.whitening is not None and (config.components or 0) > sum(widths):
        raise InvalidInput(
            f"expected model.components <= {sum(widths)} with model.encoder={config.encoder}, got"
            f" {config.components}"
        )


def build(config: Config, *, schema: LabelSchema, seed: int) -> Features:
    """Heads with initial weights 0; nothing is drawn from `seed`.

    Raises: InvalidInput where the encoder cannot be found, a layer does not exist or whitening is
        selected for an encoder without moments; InvalidData where its folder is damaged.
    """
    from trainables.models._features import Features

    return Features(config, schema)
