"""The frozen configuration of a pretraining: an encoder and its public corpora."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field, model_validator

from trainables import catalogue
from trainables.config import DataConfig, ModelConfig, union_of
from trainables.encoders.identity import NO_FILE
from trainables.frozen import (
    MAX_EPOCHS,
    MAX_NUMBER,
    MAX_RECORDS,
    MAX_ROWS,
    MAX_SEED,
    Frozen,
    Listed,
    PositiveFloat,
    validated,
)
from trainables.layers.precision import Precision

if TYPE_CHECKING:
    Corpus = DataConfig
    Encoder = ModelConfig
else:
    Corpus = Annotated[union_of("data", kind="frames"), Field(discriminator="name")]
    Encoder = Annotated[union_of("model", kind="frames"), Field(discriminator="name")]


class PretrainingConfig(Frozen):
    """An encoder, the public corpora it learns from, and how long."""

    name: str = Field(
        pattern=r"^[a-z0-9][a-z0-9_-]{0,63}$", description="name of the encoder's folder"
    )
    encoder: Encoder = Field(description="fields of `model` (clc or bert) with its initial weights")
    corpora: Listed[Corpus] = Field(
        min_length=1, description="public corpora, each with the fields of `data`"
    )
    leave_out: Listed[str] = Field(
        (), description="corpora whose texts are excluded, by the lists in the repository"
    )
    vocabulary: int | None = Field(
        None,
        ge=100,
        le=MAX_ROWS,
        description="size of the vocabulary that is kept, in words of a clc or pieces"
        " of a loaded bert",
    )
    layers: Listed[int] | None = Field(
        None,
        min_length=1,
        description="layers whose states are features, 0 the lowest; default: all",
    )
    frozen_layers: int = Field(
        0,
        ge=0,
        le=1_000,
        description="number of the lowest layers of a bert that keep their weights, and its"
        " embeddings with them",
    )
    epochs: int = Field(2, ge=1, le=MAX_EPOCHS, description="epochs over all corpora together")
    batch_size: int = Field(
        64, ge=1, le=MAX_RECORDS, description="records per step, all of one corpus"
    )
    learning_rate: PositiveFloat = Field(
        1e-4, description="learning rate of the encoder at the first step"
    )
    head_learning_rate: PositiveFloat = Field(
        1e-3, description="learning rate of the heads at the first step"
    )
    tag_weight: PositiveFloat = Field(
        0.3, description="weight of a record's summed tag loss relative to its intent loss"
    )
    weight_decay: float = Field(0.01, ge=0, le=MAX_NUMBER)
    precision: Precision = Field(
        "fp32",
        description="bf16 rounds the products of linear layers, which is faster on"
        " chips that support it",
    )
    seed: int = Field(0, ge=0, le=MAX_SEED)

    @property
    def reads_word_file(self) -> bool:
        """Whether the encoder's words are those of a local file."""
        return getattr(self.encoder, "word_vectors", "hashed") not in NO_FILE

    @model_validator(mode="after")
    def _all_is_trained(self) -> PretrainingConfig:
        trained = getattr(self.encoder, "trained", None)
        if trained is None:
            able = [n for n in catalogue.names("models", kind="frames") if _is_encoder(n)]
            raise ValueError(
                f"expected encoder.name={' or '.join(able)}, whose layers are trained, got"
                f" {self.encoder.name}"
            )
        if trained != "all":
            raise ValueError(f"expected encoder.trained=all in a pretraining, got {trained}")
        return self

    @model_validator(mode="after")
    def _corpora_are_public(self) -> PretrainingConfig:
        for corpus in self.corpora:
            if not catalogue.entry("datasets", corpus.name).PUBLIC:
                raise ValueError(
                    f"expected public corpora in corpora, got {corpus.name}: pretraining has no"
                    " epsilon, so it must not read private records"
                )
            if corpus.name in self.leave_out:
                raise ValueError(
                    f"expected corpora without those of leave_out, got {corpus.name} in both"
                )
        return self


def _is_encoder(model: str) -> bool:
    return "trained" in catalogue.entry("models", model).Config.model_fields


def parse(fields: dict[str, Any]) -> PretrainingConfig:
    """A pretraining from plain data.

    Raises: InvalidInput, one sentence for the first thing that is wrong.
    """
    return validated(PretrainingConfig, fields)
