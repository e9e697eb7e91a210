"""The frozen configuration of a pretraining: an encoder and its public corpora."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field, model_validator

from trainables.config.sections import Epochs, Seed
from trainables.config.trial import DataConfig, union_of
from trainables.dp.layers.precision import Precision
from trainables.fields import (
    MAX_ROWS,
    Count,
    Frozen,
    Listed,
    NotNegative,
    PositiveFloat,
    validated,
)
from trainables.models.configs import BertConfig

if TYPE_CHECKING:
    Corpus = DataConfig
else:
    Corpus = union_of("data", kind="frames")


class PretrainingConfig(Frozen):
    """An encoder, the public corpora it learns from, and how long."""

    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,63}$")]
    """name of the encoder's folder"""
    encoder: BertConfig
    """fields of `model` (a bert) with the encoder that it starts from"""
    corpora: Annotated[Listed[Corpus], Field(min_length=1)]
    """public corpora, each with the fields of `data`"""
    leave_out: Listed[str] = ()
    """corpora whose texts are excluded, by the lists in the repository"""
    vocabulary: Annotated[int, Field(ge=100, le=MAX_ROWS)] | None = None
    """number of pieces of the vocabulary that are kept"""
    layers: Annotated[Listed[int], Field(min_length=1)] | None = None
    """layers whose states are features, 0 the lowest; default: all"""
    frozen_layers: Annotated[int, Field(ge=0, le=1_000)] = 0
    """number of the lowest layers that keep their weights, and the embeddings with
    them
    """
    epochs: Epochs = 2
    """epochs over all corpora together"""
    batch_size: Count = 64
    """records per step, all of one corpus"""
    learning_rate: PositiveFloat = 1e-4
    """learning rate of the encoder at the first step"""
    head_learning_rate: PositiveFloat = 1e-3
    """learning rate of the heads at the first step"""
    tag_weight: PositiveFloat = 0.3
    """weight of a record's summed tag loss relative to its intent loss"""
    weight_decay: NotNegative = 0.01
    precision: Precision = "fp32"
    """bf16 rounds the products of linear layers, which is faster on chips that support
    it
    """
    seed: Seed = 0

    @model_validator(mode="after")
    def _encoder_fits(self) -> PretrainingConfig:
        encoder = self.encoder
        if encoder.trained != "all":
            raise ValueError(
                f"expected encoder.trained=all in a pretraining, got {encoder.trained}"
            )
        if encoder.encoder == "scratch":
            raise ValueError(
                "expected encoder.encoder to name a public encoder, whose tokenizer is"
                " kept, got scratch"
            )
        most = encoder.num_layers
        if any(not 0 <= layer <= most for layer in self.layers or ()):
            raise ValueError(
                f"expected layers from 0 to {most}, got {list(self.layers or ())}"
            )
        if self.frozen_layers >= most:
            raise ValueError(
                f"expected frozen_layers below encoder.num_layers={most}, got"
                f" {self.frozen_layers}"
            )
        return self

    @model_validator(mode="after")
    def _corpora_are_public(self) -> PretrainingConfig:
        for corpus in self.corpora:
            if not corpus.is_public:
                raise ValueError(
                    f"expected public corpora in corpora, got {corpus.name}:"
                    " pretraining has no epsilon, so it must not read private records"
                )
            if corpus.name in self.leave_out:
                raise ValueError(
                    f"expected corpora without those of leave_out, got {corpus.name} in"
                    " both"
                )
        return self


def parse(fields: dict[str, Any]) -> PretrainingConfig:
    """A pretraining from plain data, such as a YAML file: every field checked, defaults
    filled in.

    Raises: InvalidInput, one sentence for the first thing that is wrong.
    """
    return validated(PretrainingConfig.model_validate, fields)
