"""A BERT encoder (Devlin et al. 2019) with an intent head and a CRF on first word
pieces.

The paper's sizes (Dupuy et al. 2021, 4.2): 4 layers, 12 heads, width 312, feed-forward
1200. Rows are packed: linear layers and norms see no padding, attention takes records
of equal length together. `encoder` is `scratch` (random weights, hashed pieces, no
vocabulary), `minilm` (the first layers of MiniLM-L6, an extra), a local folder or a hub
name.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, model_validator

from trainables.config.sections import Depth, ModelConfig, Rate, Width
from trainables.dp.seeding import stream_seed, torch_seeded
from trainables.errors import InvalidData, InvalidInput
from trainables.fields import MAX_ROWS, MAX_WIDTH, ReadOnlyIf
from trainables.models.encoders.about import shipped_encoders
from trainables.models.encoders.hub import PublicEncoder, public_encoder

if TYPE_CHECKING:
    from trainables.config.sections import DataConfig
    from trainables.data.records import LabelSchema
    from trainables.models.nlu.bert import Bert

SHADOW_LEARNING_RATE = 3e-4  # of the shadow model that attacks it
# Families whose layers are ours under other names, so that exact clipping can train
# them.
COVERED = ("bert", "camembert", "electra", "roberta", "xlm-roberta")
_SCRATCH = ReadOnlyIf(encoder="scratch")


class Config(ModelConfig):
    """The fields of `model` with `name: bert`. The sizes are the paper's by default."""

    name: Literal["bert"] = "bert"
    encoder: str = "scratch"
    """scratch | a shipped encoder | minilm (extra) | a folder or hub name of a BERT,
    RoBERTa, XLM-RoBERTa, CamemBERT or ELECTRA
    """
    trained: Literal["all", "biases"] = "all"
    """biases: only biases, norms and the heads (BitFit, Bu et al. 2022); frozen weights
    take no share of the clip norm and no noise
    """
    num_layers: Depth = 4
    """number of encoder layers, the first ones of a loaded encoder; default: 4, or all
    of a folder with fewer
    """
    word_buckets: Annotated[int, _SCRATCH, Field(ge=3, le=MAX_ROWS)] = 8_192
    """scratch: number of buckets of hashed pieces"""
    hidden_size: Annotated[int, _SCRATCH, Field(ge=2, le=MAX_WIDTH)] = 312
    """scratch: width"""
    num_heads: Annotated[Width, _SCRATCH] = 12
    """scratch: number of attention heads"""
    intermediate_size: Annotated[int, _SCRATCH, Field(ge=1, le=10 * MAX_WIDTH)] = 1_200
    """scratch: feed-forward width"""
    dropout: Rate = 0.1
    """dropout rate"""
    pooling: Literal["first", "mean"] = "first"
    """what the intent head reads: the state of [CLS], or the mean over all pieces,
    which encoders of sentences such as MiniLM were trained with
    """

    @model_validator(mode="before")
    @classmethod
    def _fill_in_layers(cls, fields: Any) -> Any:
        """A folder with fewer layers than the default is used whole."""
        if not isinstance(fields, dict) or fields.get("num_layers") is not None:
            return fields
        found = _layers_of(fields.get("encoder"))
        default = cls.model_fields["num_layers"].default
        return (
            fields
            if found is None or found >= default
            else {**fields, "num_layers": found}
        )


def _layers_of(encoder: Any) -> int | None:
    """The number of layers of an encoder on this disk; None for others and for unusable
    ones, which `require_usable` refuses.
    """
    if not isinstance(encoder, str) or not (
        encoder in shipped_encoders() or Path(encoder).expanduser().is_dir()
    ):
        return None
    try:
        return public_encoder(encoder).config.num_layers
    except InvalidInput:
        return None


def require_usable(config: Config, data: DataConfig) -> None:
    """Refuse an encoder of `sweep pretrain` that was trained on the trial's records,
    and one that cannot be trained.

    Raises: InvalidInput for such an encoder.
    """
    if config.encoder != "scratch":
        covered_encoder(config).refuse_learnt(data)


def covered_encoder(config: Config) -> PublicEncoder:
    """The public encoder whose first `config.num_layers` layers are trained: one of a
    family in `COVERED` with gelu, absolute positions and embeddings as wide as its
    layers, because only these layers can clip by record here.

    Raises: InvalidData where it cannot be found or is of another kind, with the reason;
    InvalidInput where it has fewer layers.
    """
    found = public_encoder(config.encoder)
    about, other = found.config, ""
    if about.model_type not in COVERED:
        other = f"family {about.model_type}"
    elif about.activation != "gelu":
        other = f"activation {about.activation}"
    elif about.embedding_size not in (None, about.width):
        other = f"embeddings of width {about.embedding_size}"
    elif about.position_embedding_type not in (None, "absolute"):
        other = "positions that are relative"
    if other:
        raise InvalidData(
            "expected model.encoder of a family whose layers can be trained"
            f" ({', '.join(COVERED)}; gelu, embeddings as wide as layers), got"
            f" {config.encoder!r} with {other}; model.name=features reads it as it is"
        )
    if config.num_layers > about.num_layers:
        raise InvalidInput(
            f"expected model.num_layers <= {about.num_layers} with"
            f" model.encoder={config.encoder}, got {config.num_layers}"
        )
    return found


def build(config: Config, *, schema: LabelSchema, seed: int) -> Bert:
    """A BERT; what is not loaded is drawn from `seed`.

    Raises: InvalidInput where the encoder cannot be found or its width is no multiple
    of its heads.
    """
    from trainables.models.nlu.bert import Bert
    from trainables.models.nlu.bert_weights import source_of

    source = source_of(config)
    if source.sizes.width % source.sizes.heads:
        raise InvalidInput(
            "expected model.hidden_size to be a multiple of"
            f" model.num_heads={source.sizes.heads}, got {source.sizes.width}"
        )
    with torch_seeded(stream_seed(seed, "model", "bert")):
        return Bert(config, source, schema, seed=seed)
