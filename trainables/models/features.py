"""Linear heads on the features of a fixed encoder, for few records and a strong
guarantee.

The encoder is public and never trained here; its features are computed once for a
corpus. Of several encoders, k, the rows are joined, each divided by the root of k, so
that the norm is that of one. A tag head reads a token's row, in which are those of its
neighbours, an intent head the record's. The noise of a logit then grows with the norm
of a row, not with the number of weights (Tramèr and Boneh 2021). No transitions are
learnt; decoding obeys the BIO rules and prefers to continue a slot by a fixed score.
With `prior: names` the heads learn what the names of the labels do not say already (see
`encoders.rows`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from trainables.config.sections import DataConfig, ModelConfig
from trainables.errors import InvalidData, InvalidInput
from trainables.fields import Listed, NotNegative, PositiveFloat
from trainables.models.encoders.about import MOMENTS, NAMES
from trainables.models.encoders.hub import public_encoder

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trainables.data.records import LabelSchema
    from trainables.models.nlu.features import Features

SHADOW_LEARNING_RATE = 1e-3  # of the shadow model that attacks it
NO_NAMES = (
    "expected model.prior=none with model.encoder={}: it has learnt no names of labels"
    " (an encoder of `sweep pretrain` has)"
)
TrialsSuggested = Annotated[Listed[int], Field(min_length=1)]
LayersOfEach = Annotated[Listed[TrialsSuggested | None], Field(min_length=1)]
Several = Annotated[Listed[str], Field(min_length=1, max_length=8)]


class Config(ModelConfig):
    """The fields of `model` with `name: features`."""

    name: Literal["features"] = "features"
    encoder: str | Several = "dialogues"
    """a shipped encoder | a folder of `sweep pretrain` | a folder or hub name of a
    Hugging Face encoder (with prior: none) | minilm, mpnet (extras); a list: the rows
    of each, joined
    """
    layers: TrialsSuggested | LayersOfEach | None = None
    """layers whose states are concatenated, 0 the embeddings, or of several encoders a
    list for each; default: those chosen by `sweep pretrain`, or the middle and the last
    layer of another encoder
    """
    whitening: PositiveFloat = 0.3
    """shrinkage of the public covariance"""
    neighbours: NotNegative = 0.4
    """weight of the rows of the previous and the next token, from the lowest of
    `layers`, in a token's row; 0: none
    """
    tag_weight: PositiveFloat = 1.0
    """weight of the tokens' losses relative to the intent's; it divides C between
    them
    """
    sure: Annotated[float, Field(gt=0, le=1)] = 0.95
    """probability of a token's tag from which on the token teaches nothing; 1: all
    teach
    """
    bias: NotNegative = 0.3
    """constant feature of every row"""
    span_bonus: NotNegative = 2.5
    """score, in nats, that a tag gains where it continues its slot; fixed, not learnt;
    0: none
    """
    prior: Literal["names", "none"] = "names"
    """initial scores: from the names of the labels, as learned on the encoder's public
    corpora, or none
    """

    @field_validator("encoder", mode="before")
    @classmethod
    def _one_in_a_list(cls, value: Any) -> Any:
        """A list of one encoder is that encoder, so that both are one config."""
        return (
            value[0] if isinstance(value, list | tuple) and len(value) == 1 else value
        )

    @model_validator(mode="after")
    def _layers_of_each(self) -> Any:
        given, number = self.layers, len(self.encoders)
        if given and not isinstance(given[0], int) and len(given) != number:
            raise ValueError(
                f"expected model.layers to be a list of numbers, or {number} of them,"
                f" one for each model.encoder, got {len(given)}"
            )
        return self

    @property
    def has_prior(self) -> bool:
        """With names."""
        return self.prior == "names"

    @property
    def encoders(self) -> tuple[str, ...]:
        """The encoders by their names."""
        return (self.encoder,) if isinstance(self.encoder, str) else self.encoder

    def layers_of(self, number: int) -> tuple[int, ...] | None:
        """The layers of the encoder of that place, counted from 0; None: its
        default.
        """
        given: Any = self.layers
        is_of_all = given is None or isinstance(given[0], int)
        found: tuple[int, ...] | None = given if is_of_all else given[number]
        return found


def require_usable(config: Config, data: DataConfig) -> None:
    """Refuse an encoder that was trained on the trial's records, which no epsilon would
    cover, and one that cannot be used.

    Raises: InvalidInput for such an encoder, and for one that does not exist;
        InvalidData where its files are missing.
    """
    has_names = False
    for number, encoder in enumerate(config.encoders):
        public = public_encoder(encoder)
        public.refuse_learnt(data)
        if public.about and not (public.place / MOMENTS).is_file():
            raise InvalidData(
                f"expected {MOMENTS} in the folder of model.encoder={encoder}, got none"
            )
        has_names |= (public.place / NAMES).is_file()
        require_layers(config, number, public.layers)
    if config.has_prior and not has_names:
        raise InvalidInput(NO_NAMES.format(", ".join(config.encoders)))


def require_layers(config: Config, number: int, there: Sequence[int]) -> None:
    """Raises: InvalidInput for a layer that is not among those of the encoder of that
    place.
    """
    chosen = config.layers_of(number) or ()
    if not set(chosen) <= set(there):
        raise InvalidInput(
            f"expected model.layers among {list(there)} with"
            f" model.encoder={config.encoders[number]}, got {list(chosen)}"
        )


def build(config: Config, *, schema: LabelSchema, seed: int) -> Features:
    """Heads with initial weights 0; nothing is drawn from `seed`.

    Raises: InvalidInput where the encoder cannot be found or a layer does not exist;
        InvalidData where its folder is damaged or has no moments.
    """
    from trainables.models.nlu.features import Features

    return Features(config, schema)
