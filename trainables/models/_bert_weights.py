"""Sources of a BERT's weights, and the mapping to their names in `transformers`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from trainables.encoders.about import WEIGHTS
from trainables.encoders.hub import PublicEncoder, covered_encoder
from trainables.encoders.pieces import tokenizer_in, word_cutter
from trainables.encoders.source import Bits, load_model, save_tensors

if TYPE_CHECKING:
    from trainables.models.bert import Config

_TABLES = {
    "word.weight": "embeddings.word_embeddings.weight",
    "position.weight": "embeddings.position_embeddings.weight",
    "kind.weight": "embeddings.token_type_embeddings.weight",
    "embedding_norm.weight": "embeddings.LayerNorm.weight",
    "embedding_norm.bias": "embeddings.LayerNorm.bias",
}
_LAYER = {
    "attention_out": "attention.output.dense",
    "attention_norm": "attention.output.LayerNorm",
    "inner": "intermediate.dense",
    "outer": "output.dense",
    "norm": "output.LayerNorm",
}
_QKV = ("query", "key", "value")
_DISTILBERT = {
    "attention.self.query": "attention.q_lin",
    "attention.self.key": "attention.k_lin",
    "attention.self.value": "attention.v_lin",
    "attention.output.dense": "attention.out_lin",
    "attention.output.LayerNorm": "sa_layer_norm",
    "intermediate.dense": "ffn.lin1",
    "output.dense": "ffn.lin2",
    "output.LayerNorm": "output_layer_norm",
}


@dataclass(frozen=True)
class BertSizes:
    """The sizes of an encoder."""

    vocabulary: int
    width: int
    layers: int
    heads: int
    intermediate: int
    positions: int = 512
    kinds: int = 2
    eps: float = 1e-12


@dataclass(frozen=True, eq=False)
class Source:
    """An encoder's sizes, its weights by `transformers` name and its tokenizer, if it has them."""

    sizes: BertSizes
    provenance: str
    weights: Mapping[str, Tensor] | None = None
    tokenizer: Any = None
    has_kinds: bool = True  # rows for kinds of pieces; else there is one, of zeros, for ever


def source_of(config: Config) -> Source:
    """The encoder that `config.encoder` names.

    Raises: InvalidInput where it is neither here nor (HF_HUB_OFFLINE permitting) on the hub, or its
    layers are not covered.
    """
    layers = config.num_layers
    if config.encoder == "scratch":
        sizes = BertSizes(
            vocabulary=config.word_buckets,
            width=config.hidden_size,
            layers=layers,
            heads=config.num_heads,
            intermediate=config.intermediate_size,
        )
        return Source(sizes, "trained from random weights")
    return load_encoder(covered_encoder(config.encoder, layers=layers), layers)


def load_encoder(public: PublicEncoder, layers: int) -> Source:
    """The first `layers` layers of a public encoder whose family is covered.

    Raises: InvalidInput where it cannot be loaded.
    """
    from transformers import AutoConfig

    weights = load_model(public, num_hidden_layers=layers).state_dict()
    named = named_weights(weights, public, layers)
    has_kinds = _TABLES["kind.weight"] in weights
    about = AutoConfig.from_pretrained(str(public.place), local_files_only=True)
    sizes = BertSizes(
        vocabulary=about.vocab_size,
        width=about.hidden_size,
        layers=layers,
        heads=about.num_attention_heads,
        intermediate=about.intermediate_size if has_kinds else about.hidden_dim,
        positions=public.positions,
        kinds=len(named[_TABLES["kind.weight"]]),
        eps=getattr(about, "layer_norm_eps", 1e-12),
    )
    provenance = f"first {layers} layers of {public.provenance}"
    tokenizer = tokenizer_in(public.place)
    word_cutter(tokenizer, place=public.name)  # refuses one that cannot be used
    return Source(sizes, provenance, named, tokenizer, has_kinds=has_kinds)


def named_weights(
    weights: Mapping[str, Tensor], public: PublicEncoder, layers: int
) -> dict[str, Tensor]:
    """The weights of a covered family under the names of a `transformers.BertModel`; tables lack
    the rows of positions that no piece uses, and the kinds of pieces where there are none."""
    found = dict(weights)
    if public.config.model_type == "distilbert":
        for number in range(layers):
            for ours, theirs in _DISTILBERT.items():
                for part in ("weight", "bias"):
                    found[f"encoder.layer.{number}.{ours}.{part}"] = weights[
                        f"transformer.layer.{number}.{theirs}.{part}"
                    ]
    table = _TABLES["position.weight"]
    found[table] = weights[table][public.first_position :]
    found.setdefault(_TABLES["kind.weight"], torch.zeros(1, public.config.width))
    return found


def save_encoder(
    state: Mapping[str, Tensor], sizes: BertSizes, tokenizer: Any, place: Path, *, bits: Bits = 32
) -> None:
    """Write configuration, weights and pieces of a `_bert.Bert` of this state, without its heads.
    `tokenizer` is None where pieces are hashed.

    `transformers` opens them where the weights have 32 or 16 bits.
    """
    weights = {name: tensor.detach() for name, tensor in state.items()}
    save_tensors(to_transformers(weights, sizes.layers), place / WEIGHTS, bits=bits)
    transformers_config(sizes).save_pretrained(str(place))
    if tokenizer is not None:
        tokenizer.save_pretrained(str(place))


def load_into(model: nn.Module, source: Source) -> None:
    """Copy the encoder's weights into a `_bert.Bert`; its heads keep theirs."""
    if source.weights is None:
        return
    with torch.no_grad():
        for name, value in from_transformers(source.weights, source.sizes.layers).items():
            model.get_parameter(name).copy_(value)


def _names(layers: int) -> Iterator[tuple[str, list[str]]]:
    """Each of our names, with those of `transformers.BertModel`, whose rows are joined in it."""
    for ours, theirs in _TABLES.items():
        yield ours, [theirs]
    for number in range(layers):
        place = f"encoder.layer.{number}"
        for part in ("weight", "bias"):
            qkv = [f"{place}.attention.self.{name}.{part}" for name in _QKV]
            yield f"layers.{number}.qkv.{part}", qkv
            for ours, theirs in _LAYER.items():
                yield f"layers.{number}.{ours}.{part}", [f"{place}.{theirs}.{part}"]


def from_transformers(weights: Mapping[str, Tensor], layers: int) -> dict[str, Tensor]:
    """The state of a `transformers.BertModel` under our names."""
    return {ours: torch.cat([weights[n] for n in theirs]) for ours, theirs in _names(layers)}


def transformers_config(sizes: BertSizes) -> Any:
    """The `BertConfig` of an encoder of these sizes."""
    from transformers import BertConfig

    return BertConfig(
        vocab_size=sizes.vocabulary,
        hidden_size=sizes.width,
        num_hidden_layers=sizes.layers,
        num_attention_heads=sizes.heads,
        intermediate_size=sizes.intermediate,
        max_position_embeddings=sizes.positions,
        type_vocab_size=sizes.kinds,
        layer_norm_eps=sizes.eps,
        architectures=["BertModel"],
    )


def to_transformers(state: Mapping[str, Tensor], layers: int) -> dict[str, Tensor]:
    """Our encoder's state under the names that `transformers.BertModel` loads; heads left out."""
    named: dict[str, Tensor] = {}
    for ours, theirs in _names(layers):
        named |= zip(theirs, state[ours].chunk(len(theirs)), strict=True)
    return named
