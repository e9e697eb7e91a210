"""BERT: encoder layers over packed pieces. Linear layers and norms see no padding,
attention takes records of equal length together.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Any, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from trainables.data.batches import PackedBatch
from trainables.data.records import LabelSchema
from trainables.dp.layers.attention import attention
from trainables.dp.layers.dropout import Masks
from trainables.dp.layers.embedding import Embedding
from trainables.dp.layers.layer_norm import LayerNorm
from trainables.dp.layers.linear import Linear
from trainables.dp.layers.packing import (
    ByLength,
    by_length,
    mean_over_record,
    time_major,
)
from trainables.errors import InvalidInput
from trainables.models.configs import BertConfig
from trainables.models.encoders.pieces import PieceTable
from trainables.models.encoders.rows import LayerStates
from trainables.models.encoders.word_vectors import bucket
from trainables.models.nlu.base import Encoded, NluModel
from trainables.models.nlu.bert_weights import (
    BertSizes,
    Source,
    from_transformers,
    source_of,
)

_PARTS = re.compile(r"[^\W\d_]+|\d|[^\w\s]|_")
_SITES = 3  # places of dropout in a layer


def hashed_pieces(word: str, num_buckets: int) -> list[int]:
    """Runs of letters, single digits and signs, each hashed into 2..num_buckets-1; no
    vocabulary.

    0 and 1 are the begin and end of a record.

    >>> len(hashed_pieces("4:30pm", 100)), hashed_pieces("Paris", 9) == hashed_pieces("paris", 9)
    (5, True)
    """
    return [2 + bucket(part, num_buckets - 2) for part in _PARTS.findall(word)]


class BertLayer(nn.Module):
    """One encoder layer, post-norm. Queries, keys and values are one matrix product."""

    def __init__(self, sizes: BertSizes) -> None:
        super().__init__()
        self.heads = sizes.heads
        self.qkv = Linear(sizes.width, 3 * sizes.width)
        self.attention_out = Linear(sizes.width, sizes.width)
        self.attention_norm = LayerNorm(sizes.width, eps=sizes.eps)
        self.inner = Linear(sizes.width, sizes.intermediate)
        self.outer = Linear(sizes.intermediate, sizes.width)
        self.norm = LayerNorm(sizes.width, eps=sizes.eps)

    def forward(
        self, x: Tensor, layout: ByLength, masks: Masks | None, site: int
    ) -> Tensor:
        """Rows [P, width] in the order of `layout` -> the same."""
        rows = layout.rows
        seen = attention(
            self.qkv(x, rows), layout, heads=self.heads, masks=masks, site=site
        )
        seen = self.attention_out(seen, rows)
        if masks is not None:
            seen = masks.drop(seen, site + 1)
        x = self.attention_norm(x + seen, rows)
        fed = self.outer(F.gelu(self.inner(x, rows)), rows)
        if masks is not None:
            fed = masks.drop(fed, site + 2)
        out: Tensor = self.norm(x + fed, rows)
        return out


class Bert(NluModel):
    """A BERT encoder (Devlin et al. 2019) whose layers clip by record, with an intent
    head, a tag head and a CRF. `source` has its sizes and, where it is pretrained,
    weights and word pieces; heads are drawn. Packed inputs: those of
    `PieceTable.collate`.
    """

    def __init__(
        self, config: BertConfig, source: Source, schema: LabelSchema, *, seed: int
    ) -> None:
        sizes = source.sizes
        super().__init__(
            schema, token_width=sizes.width, dropout=config.dropout, seed=seed
        )
        self.sizes = sizes
        self.pooling = config.pooling
        self.cutter = source.cutter
        self.word = Embedding(sizes.vocabulary, sizes.width)
        self.position = Embedding(sizes.positions, sizes.width)
        self.kind = Embedding(sizes.kinds, sizes.width)
        self.embedding_norm = LayerNorm(sizes.width, eps=sizes.eps)
        self.layers = nn.ModuleList(BertLayer(sizes) for _ in range(sizes.layers))
        for module in self.modules():
            if isinstance(module, nn.Linear | nn.Embedding):
                nn.init.normal_(module.weight, std=0.02)
            if isinstance(module, nn.Linear) and module.bias is not None:
                nn.init.zeros_(module.bias)
        self.provenance = source.provenance
        if source.weights is not None:  # heads keep theirs
            weights = from_transformers(source.weights, sizes.layers)
            self.load_state_dict(weights, strict=False)
        if config.trained == "biases":
            self.provenance += "; trained: heads, biases and norms"
            self.requires_grad_(False)
            for head in (self.intent_head, self.tag_head, self.crf):
                head.requires_grad_(True)
            for module in self.layers.modules():
                for name, parameter in module.named_parameters(recurse=False):
                    # A norm's scale is of the size of a bias.
                    is_trained = name == "bias" or isinstance(module, LayerNorm)
                    parameter.requires_grad_(is_trained)

    @classmethod
    def build(cls, config: Any, *, schema: LabelSchema, seed: int) -> Self:
        """See `ModelConfig.build`."""
        source = source_of(config)
        if source.sizes.width % source.sizes.heads:
            raise InvalidInput(
                "expected model.hidden_size to be a multiple of"
                f" model.num_heads={source.sizes.heads}, got {source.sizes.width}"
            )
        return cls(config, source, schema, seed=seed)

    def feature_table(self, types: Sequence[str]) -> PieceTable:
        """Pieces of the distinct tokens, lower-cased where the encoder's vocabulary
        is.
        """
        if self.cutter is not None:
            return self.cutter.table(types)
        cut = (hashed_pieces(word, self.sizes.vocabulary) for word in types)
        return PieceTable(cut, begin=0, end=1, unknown=2)

    def layer_states(self, batch: PackedBatch) -> LayerStates:
        """The embeddings, then each layer. The state of a token is that of its first
        piece, that of a record the mean of its pieces.
        """
        lengths = batch.inputs["piece_lengths"]
        layout = by_length(lengths)
        first = layout.place.index_select(0, batch.inputs["first_piece"])
        states = tuple(self._states(batch, layout))
        return LayerStates(
            tokens=tuple(x.index_select(0, first) for x in states),
            records=tuple(mean_over_record(x, layout.record, lengths) for x in states),
        )

    def _states(self, batch: PackedBatch, layout: ByLength) -> Iterator[Tensor]:
        """Rows [P, width] of the embeddings and of each layer, in the order of
        `layout`.
        """
        rows = layout.rows
        pieces = batch.inputs["pieces"].index_select(0, layout.source)
        # Pieces beyond the table's end share its last position.
        position = layout.position.clamp(max=self.sizes.positions - 1)
        x = self.word(pieces, rows) + self.position(position, rows)
        x = self.embedding_norm(x + self.kind(torch.zeros_like(pieces), rows), rows)
        masks = self.masks(batch, layout)
        if masks is not None:
            x = masks.drop(x, 0)
        yield x
        for number, layer in enumerate(self.layers):
            x = layer(x, layout, masks, 1 + number * _SITES)
            yield x

    def encode(self, batch: PackedBatch) -> Encoded:
        """The vector of a token is that of its first piece; that of a record is by
        `pooling`.
        """
        lengths = batch.inputs["piece_lengths"]
        layout = by_length(lengths)
        *_, x = self._states(batch, layout)
        if self.pooling == "first":
            records = x.index_select(0, layout.first)
        else:
            records = mean_over_record(x, layout.record, lengths)
        tokens = time_major(batch.lengths)
        first = batch.inputs["first_piece"].index_select(0, tokens.source)
        places = layout.place.index_select(0, first)
        return Encoded(x.index_select(0, places), records, tokens)
