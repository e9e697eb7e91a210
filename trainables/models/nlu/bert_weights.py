"""Sources of a BERT's weights, and the mapping to their names in `transformers`."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from trainables.models.configs import BertConfig
from trainables.models.encoders.about import WEIGHTS
from trainables.models.encoders.pieces import WordCutter
from trainables.models.encoders.source import load_model

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


@dataclass(frozen=True)
class BertSizes:
    """The sizes of an encoder: numbers of pieces (`vocabulary`), layers, attention
    heads, positions and segment kinds, the widths of its states and of its feed-forward
    layers, and the `eps` of its norms.
    """

    vocabulary: int
    width: int
    layers: int
    heads: int
    intermediate: int
    positions: int = 512
    kinds: int = 2
    eps: float = 1e-12

    def to_config(self, **more: Any) -> Any:
        """The encoder's `BertConfig`, with `more` of its fields."""
        import transformers

        return transformers.BertConfig(
            vocab_size=self.vocabulary,
            hidden_size=self.width,
            num_hidden_layers=self.layers,
            num_attention_heads=self.heads,
            intermediate_size=self.intermediate,
            max_position_embeddings=self.positions,
            type_vocab_size=self.kinds,
            layer_norm_eps=self.eps,
            **more,
        )


@dataclass(frozen=True, eq=False)
class Source:
    """An encoder's sizes, its weights by `transformers` name and its pieces, if it has
    them.
    """

    sizes: BertSizes
    provenance: str
    weights: Mapping[str, Tensor] | None = None
    cutter: WordCutter | None = None


def source_of(config: BertConfig) -> Source:
    """The encoder that `config.encoder` names; its table of positions lacks the rows
    that no piece uses.

    Raises: InvalidInput where it is neither here nor (HF_HUB_OFFLINE permitting) on the
    hub, cannot be loaded, or its layers are not covered.
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
    public = config.covered_encoder()
    model = load_model(public, num_hidden_layers=layers)
    weights, about = dict(model.state_dict()), model.config
    positions = _TABLES["position.weight"]
    weights[positions] = weights[positions][public.first_position :]
    sizes = BertSizes(
        vocabulary=about.vocab_size,
        width=about.hidden_size,
        layers=layers,
        heads=about.num_attention_heads,
        intermediate=about.intermediate_size,
        positions=public.positions,
        kinds=about.type_vocab_size,
        eps=about.layer_norm_eps,
    )
    cutter = WordCutter.of_folder(public.place, name=public.name)
    return Source(
        sizes, f"first {layers} layers of {public.provenance}", weights, cutter
    )


def save_encoder(
    state: Mapping[str, Tensor],
    sizes: BertSizes,
    cutter: WordCutter | None,
    place: Path,
) -> None:
    """Write the encoder of a `_bert.Bert` of this state, without its heads, as
    `transformers` opens it. `cutter` is None where pieces are hashed.
    """
    tensors: dict[str, Tensor] = {}
    for ours, theirs in _names(sizes.layers):
        rows = state[ours].detach().chunk(len(theirs))
        tensors |= zip(theirs, map(Tensor.contiguous, rows), strict=True)
    save_file(tensors, place / WEIGHTS, metadata={"format": "pt"})
    sizes.to_config(architectures=["BertModel"]).save_pretrained(str(place))
    if cutter is not None:
        cutter.tokenizer.save_pretrained(str(place))


def _names(layers: int) -> Iterator[tuple[str, list[str]]]:
    """Each of our names, with those of `transformers.BertModel`, whose rows are joined
    in it.
    """
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
    return {
        ours: torch.cat([weights[n] for n in theirs]) for ours, theirs in _names(layers)
    }
