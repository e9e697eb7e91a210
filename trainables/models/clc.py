"""CLC: character CNN, word vectors, two biLSTM layers; intent head, CRF (Dupuy et al. 2021, 4.2).

The paper's sizes: 384 units a direction, two layers. Choices that it leaves open: the intent head
reads the mean of the top layer's states over the utterance; characters are printable ASCII; word
vectors are hashed unless a public file is named.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from trainables.encoders.about import (
    read_about,
    refuse_learnt,
    require_files,
    require_kind,
    words,
)
from trainables.errors import InvalidInput
from trainables.frozen import MAX_ROWS, MAX_WIDTH, With, validated
from trainables.models._trained import EncoderConfig
from trainables.seeding import stream_seed

if TYPE_CHECKING:
    from trainables.data.records import LabelSchema
    from trainables.encoders.source import EncoderFolder
    from trainables.models._clc import Clc
    from trainables.sections import DataConfig

SHADOW_LEARNING_RATE = 1e-3  # of the shadow model that attacks it
_SCRATCH = With(encoder="scratch")
_OF_TRIAL = ("dropout", "trained", "top_layers", "lora_rank", "lora_alpha")


class Config(EncoderConfig):
    """The fields of `model` with `name: clc`. The sizes are the paper's by default."""

    name: Literal["clc"] = "clc"
    encoder: str = Field(
        "scratch",
        description="scratch | a shipped encoder | a folder of `sweep pretrain`,"
        " which defines words and sizes",
    )
    word_vectors: Annotated[str, _SCRATCH] = Field(
        "hashed", description="hashed | glove (extra) | a .vec or GloVe file"
    )
    word_buckets: Annotated[
        int,
        With(encoder="scratch", word_vectors="hashed"),
        With(encoder="scratch", freeze_embeddings=False),
    ] = Field(
        8_192,
        ge=2,
        le=MAX_ROWS,
        description="number of buckets of hashed words; with a file, number of its"
        " first rows that are trained",
    )
    word_dim: Annotated[int, With(encoder="scratch", word_vectors="hashed")] = Field(
        50, ge=1, le=MAX_WIDTH, description="width of hashed word vectors"
    )
    char_dim: Annotated[int, _SCRATCH] = Field(
        16, ge=1, le=MAX_WIDTH, description="width of character embeddings"
    )
    char_filters: Annotated[int, _SCRATCH] = Field(
        50, ge=1, le=MAX_WIDTH, description="number of filters of the character CNN"
    )
    char_kernel: Annotated[int, _SCRATCH] = Field(
        3, ge=1, le=255, description="kernel width of the character CNN, in characters"
    )
    hidden_size: Annotated[int, _SCRATCH] = Field(
        384, ge=2, le=MAX_WIDTH, description="size of the biLSTM state per direction"
    )
    num_layers: Annotated[int, _SCRATCH] = Field(
        2, ge=1, le=1_000, description="number of biLSTM layers"
    )
    dropout: float = Field(0.1, ge=0, lt=1, description="dropout rate")
    freeze_embeddings: Annotated[bool, _SCRATCH] = Field(
        False, description="keep the loaded word vectors fixed"
    )

    @property
    def layers(self) -> int | None:
        """The number of layers; None where the encoder's folder defines it."""
        return self.num_layers if self.encoder == "scratch" else None

    @property
    def narrowest(self) -> int | None:
        """See `EncoderConfig`. The width of the word vectors of a file is not counted here."""
        if self.encoder != "scratch":
            return None
        adapts_words = self.top_layers in (None, self.num_layers)
        if self.word_vectors != "hashed" or not adapts_words:
            return self.hidden_size
        return min(self.hidden_size, self.word_dim + self.char_filters)


def require_usable(config: Config, data: DataConfig) -> None:
    """Refuse an encoder of `sweep pretrain` that was trained on the trial's records.

    Raises: InvalidInput for such an encoder, and for one that does not exist.
    """
    if config.encoder != "scratch":
        about = read_about(config.encoder)
        refuse_learnt(about, config.encoder, data)
        require_kind(about, config.encoder, "clc")
        require_files(about, config.encoder)


def build(config: Config, *, schema: LabelSchema, seed: int) -> Clc:
    """A CLC; what is not loaded is drawn from `seed`.

    Raises: InvalidInput where `config` names word vectors or an encoder that is not there, one that
        is no CLC, or more layers than it has; InvalidData where its folder is damaged.
    """
    import torch

    from trainables.encoders.source import load_weights
    from trainables.models._clc import Clc

    own, start = (config, None) if config.encoder == "scratch" else _start_of(config)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(stream_seed(seed, "model", "clc"))
        model = Clc(
            own,
            num_intents=len(schema.intents),
            num_tags=len(schema.tags),
            seed=seed,
        )
        if start is not None:
            load_weights(model, start.weights or {}, place=start.place)
            model.provenance = f"{words(start)}; {model.provenance}"
        if config.trained == "lora":
            model.adapt(config)
    return model


def _start_of(config: Config) -> tuple[Config, EncoderFolder]:
    """The config with the fields of the encoder, and the encoder."""
    from trainables.encoders import source as folder

    found = folder.read(config.encoder)
    require_kind(found, config.encoder, "clc")
    own = validated(Config, dict(found.model))
    if (config.top_layers or 0) > own.num_layers:
        raise InvalidInput(
            f"expected model.top_layers <= {own.num_layers}, the layers of {config.encoder}, got"
            f" {config.top_layers}"
        )
    return own.model_copy(update={name: getattr(config, name) for name in _OF_TRIAL}), found
