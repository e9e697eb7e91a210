"""CLC: character CNN, word vectors, two biLSTM layers; intent head, CRF (Dupuy et al. 2021, 4.2).

The paper's sizes: 384 units a direction, two layers. What it leaves open and is chosen here: the
intent head reads the mean of the top layer's states over the utterance; characters are printable
ASCII; word vectors are hashed unless a public file is named.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from trainables.frozen import MAX_ROWS, MAX_WIDTH
from trainables.models._trained import EncoderConfig
from trainables.seeding import stream_seed

if TYPE_CHECKING:
    from trainables.data.records import LabelSchema
    from trainables.models._clc import Clc

KIND = "frames"
SHADOW_LEARNING_RATE = 1e-3  # of the shadow model that attacks it
DEFAULT = True


class Config(EncoderConfig):
    """The fields of `model` with `name: clc`. The sizes are the paper's by default."""

    name: Literal["clc"] = "clc"
    word_vectors: str = Field("hashed", description="hashed | glove (extra) | a .vec or GloVe file")
    word_buckets: int = Field(
        8_192,
        ge=2,
        le=MAX_ROWS,
        description="buckets of hashed words; of a file: its first rows, trained",
    )
    word_dim: int = Field(50, ge=1, le=MAX_WIDTH, description="width of hashed word vectors")
    char_dim: int = Field(16, ge=1, le=MAX_WIDTH, description="width of a character's embedding")
    char_filters: int = Field(50, ge=1, le=MAX_WIDTH, description="filters of the character CNN")
    char_kernel: int = Field(3, ge=1, le=255, description="characters a filter sees")
    hidden_size: int = Field(384, ge=2, le=MAX_WIDTH, description="biLSTM state of a direction")
    num_layers: int = Field(2, ge=1, le=1_000, description="biLSTM layers")
    dropout: float = Field(0.1, ge=0, lt=1)
    freeze_embeddings: bool = Field(False, description="leave word vectors as they were loaded")

    def unread(self) -> frozenset[str]:
        """A file of vectors has its own width, and trains no rows where it is frozen."""
        found = super().unread()
        if self.word_vectors == "hashed":
            return found
        return found | {"word_dim"} | ({"word_buckets"} if self.freeze_embeddings else set())


def build(config: Config, *, schema: LabelSchema, seed: int) -> Clc:
    """A CLC with random weights drawn from `seed`.

    Raises: InvalidInput where `config.word_vectors` names nothing that is there.
    """
    import torch

    from trainables.models._clc import Clc

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(stream_seed(seed, "model", "clc"))
        return Clc(config, num_intents=len(schema.intents), num_tags=len(schema.tags), seed=seed)
