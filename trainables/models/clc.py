"""CLC: character CNN, word vectors, two biLSTM layers; intent head, CRF (Dupuy et al.
2021, 4.2).

The paper's sizes: 384 units a direction, two layers. Choices that it leaves open: the
intent head reads the mean of the top layer's states over the utterance; characters are
printable ASCII; word vectors are hashed unless a public file is named.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from trainables.config.fields import MAX_ROWS, MAX_WIDTH, ReadOnlyIf
from trainables.config.sections import Depth, ModelConfig, Rate, Width
from trainables.dp.seeding import stream_seed, torch_seeded

if TYPE_CHECKING:
    from trainables.data.records import LabelSchema
    from trainables.models.nlu.clc import Clc

SHADOW_LEARNING_RATE = 1e-3  # of the shadow model that attacks it


class Config(ModelConfig):
    """The fields of `model` with `name: clc`. The sizes are the paper's by default."""

    name: Literal["clc"] = "clc"
    word_vectors: str = "hashed"
    """hashed | glove (a package) | a .vec or GloVe file"""
    word_buckets: Annotated[
        int,
        ReadOnlyIf(word_vectors="hashed"),
        ReadOnlyIf(freeze_embeddings=False),
        Field(ge=2, le=MAX_ROWS),
    ] = 8_192
    """number of buckets of hashed words; with a file, number of its first rows that are
    trained
    """
    word_dim: Annotated[Width, ReadOnlyIf(word_vectors="hashed")] = 50
    """width of hashed word vectors"""
    char_dim: Width = 16
    """width of character embeddings"""
    char_filters: Width = 50
    """number of filters of the character CNN"""
    char_kernel: Annotated[int, Field(ge=1, le=255)] = 3
    """kernel width of the character CNN, in characters"""
    hidden_size: Annotated[int, Field(ge=2, le=MAX_WIDTH)] = 384
    """size of the biLSTM state per direction"""
    num_layers: Depth = 2
    """number of biLSTM layers"""
    dropout: Rate = 0.1
    """dropout rate"""
    freeze_embeddings: bool = False
    """keep the loaded word vectors fixed"""


def missing(config: Config) -> str | None:
    """What is not installed that a trial needs, and how to install it."""
    from trainables.models.encoders import word_vectors

    lacks = word_vectors.lacks_package(config.word_vectors)
    return word_vectors.NO_GLOVE if lacks else None


def build(config: Config, *, schema: LabelSchema, seed: int) -> Clc:
    """A CLC; what is not loaded is drawn from `seed`.

    Raises: InvalidInput where `config` names word vectors that are not there.
    """
    from trainables.models.nlu.clc import Clc

    with torch_seeded(stream_seed(seed, "model", "clc")):
        return Clc(config, schema, seed=seed)
