"""A public encoder of any family with low-rank adapters, an intent head and a tag head.

`encoder` is a shipped one, a folder or a hub name, read by `transformers` and frozen
(Hu et al. 2022; under DP: Yu et al. 2022). Adapters stand beside its linear maps, by
default those of queries and values, and clipping by record is exact. Memory grows with
`training.physical_batch_size`, which has a default here, and not with the batch. No
transitions are learnt; decoding obeys the BIO rules.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import Field

from trainables.config.sections import DataConfig, ModelConfig
from trainables.dp.seeding import stream_seed, torch_seeded
from trainables.errors import InvalidInput
from trainables.fields import Listed, PositiveFloat
from trainables.models.encoders.hub import public_encoder

if TYPE_CHECKING:
    from trainables.data.records import LabelSchema
    from trainables.models.nlu.hub_encoder import AdaptedEncoder

SHADOW_LEARNING_RATE = 1e-3  # of the shadow model that attacks it
BUILT_WHEN_PLANNED = True  # for the trial's labels, and tried
# Maps that get adapters, of queries and values, by the last part of their names and by
# family. Of DeBERTa-v2 the queries' map also reads positions, which no record has to
# itself.
TARGETS = {
    "deberta": ("in_proj",),
    "deberta-v2": ("value_proj",),
    "distilbert": ("q_lin", "v_lin"),
    "modernbert": ("Wqkv",),
    "mpnet": ("q", "v"),
}


class Config(ModelConfig):
    """The fields of `model` with `name: lora`."""

    name: Literal["lora"] = "lora"
    trained: ClassVar[str] = "lora"
    encoder: str = "dialogues"
    """a shipped encoder | minilm, mpnet (extras) | a folder or hub name of an encoder
    of `transformers`
    """
    lora_rank: Annotated[int, Field(ge=1)] = 8
    """rank of the adapters"""
    lora_alpha: PositiveFloat = 16.0
    """the output of the adapters is scaled by alpha / rank"""
    lora_targets: Annotated[Listed[str], Field(min_length=1)] | None = None
    """linear maps with adapters, by the last part of their names; default: those of
    queries and values
    """
    frozen_weights: Literal["fp32", "bf16"] = "fp32"
    """type of the frozen maps in memory; bf16 takes half, and less time with
    training.precision=bf16"""


def require_usable(config: Config, data: DataConfig) -> None:
    """Refuse an encoder that was trained on the trial's records, and one that cannot be
    read.

    Raises: InvalidInput.
    """
    public_encoder(config.encoder).refuse_learnt(data)


def build(config: Config, *, schema: LabelSchema, seed: int) -> AdaptedEncoder:
    """The encoder with adapters and heads, which are drawn from `seed`.

    Raises: InvalidInput where the encoder cannot be found or loaded, lacks the layers
        or maps that get adapters, is narrower than their rank, or has maps that do not
        read record after record.
    """
    from trainables.models.nlu.hub_encoder import AdaptedEncoder

    public = public_encoder(config.encoder)
    if config.lora_rank > public.config.width:
        raise InvalidInput(
            f"expected 1 <= model.lora_rank <= {public.config.width}, the width of the"
            f" encoder, got {config.lora_rank}"
        )
    with torch_seeded(stream_seed(seed, "model", "lora")):
        return AdaptedEncoder(config, public, schema)
