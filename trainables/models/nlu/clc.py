"""The CLC: character CNN, word vectors, biLSTM layers and their inputs."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor, nn

from trainables.data.batches import PackedBatch
from trainables.data.records import LabelSchema
from trainables.dp.layers.char_cnn import CharCnn, encode
from trainables.dp.layers.embedding import Embedding
from trainables.dp.layers.lstm import BiLstm
from trainables.dp.layers.packing import mean_over_record, time_major
from trainables.models.configs import ClcConfig
from trainables.models.encoders.word_vectors import VectorFile, bucket
from trainables.models.nlu.base import Encoded, NluModel


@dataclass(frozen=True, eq=False)
class ClcTable:
    """Per distinct token: character ids, row of the trained table, frozen vector
    (either may lack).

    A frozen vector is 0 for a word whose row is trained.
    """

    chars: np.ndarray  # int64[V, .]
    rows: np.ndarray | None  # int64[V]
    vectors: np.ndarray | None  # float32[V, dim]

    def collate(self, token_ids: np.ndarray, lengths: np.ndarray) -> dict[str, Tensor]:
        """`token_ids` [T] packed. Characters stand once for each distinct token of the
        batch.
        """
        distinct, word = np.unique(token_ids, return_inverse=True)
        inputs = {
            "chars": torch.from_numpy(self.chars[distinct]),
            "char_word": torch.from_numpy(word.astype(np.int64)),
        }
        if self.rows is not None:
            inputs["words"] = torch.from_numpy(self.rows[token_ids])
        if self.vectors is not None:
            inputs["vectors"] = torch.from_numpy(self.vectors[token_ids])
        return inputs


class Clc(NluModel):
    """Character CNN and word vectors, biLSTM layers, an intent head on the mean state
    of a record, a tag head and a CRF (Dupuy et al. 2021, 4.2). Packed inputs: those of
    `ClcTable.collate`.

    Raises: InvalidInput or InvalidData where a file of word vectors is missing or
    damaged.
    """

    def __init__(self, config: ClcConfig, schema: LabelSchema, *, seed: int) -> None:
        hidden = config.hidden_size
        super().__init__(
            schema, token_width=2 * hidden, dropout=config.dropout, seed=seed
        )
        self.config = config
        self.file = (
            None if config.word_vectors == "hashed" else VectorFile(config.word_vectors)
        )
        self.word_table: Embedding | None = None
        word_dim = config.word_dim
        if self.file is None:
            self.word_table = Embedding(config.word_buckets, word_dim)
            nn.init.normal_(self.word_table.weight, std=0.4)
            self.word_table.weight.requires_grad_(not config.freeze_embeddings)
        else:
            word_dim = self.file.first(1).shape[1]
            kind = "frozen"
            if not config.freeze_embeddings:
                first = torch.from_numpy(self.file.first(config.word_buckets))
                # One more row, 0 at first, is shared by all words whose own vector
                # stays frozen.
                self.word_table = Embedding(first.shape[0] + 1, word_dim)
                with torch.no_grad():
                    self.word_table.weight.copy_(
                        torch.cat([first, first.new_zeros(1, word_dim)])
                    )
                kind = f"first {len(first)} rows trained, others frozen"
            is_glove = config.word_vectors == "glove"
            # Without the path of a file.
            name = "GloVe 6B 50d" if is_glove else "vectors of a local file"
            self.provenance = f"word vectors: {name}, {kind}"
        self.char_cnn = CharCnn(
            config.char_dim, config.char_filters, config.char_kernel
        )
        widths = [word_dim + config.char_filters]
        widths += [2 * hidden] * (config.num_layers - 1)
        self.layers = nn.ModuleList(BiLstm(width, hidden) for width in widths)

    @classmethod
    def build(cls, config: Any, *, schema: LabelSchema, seed: int) -> Self:
        """See `ModelConfig.build`."""
        return cls(config, schema, seed=seed)

    def feature_table(self, types: Sequence[str]) -> ClcTable:
        """Rows and vectors of the distinct tokens; `types` decides memory, never the
        model.
        """
        chars = encode(types, self.config.char_kernel)
        if self.file is None:
            size = self.config.word_buckets
            rows = np.array([bucket(word, size) for word in types], dtype=np.int64)
            return ClcTable(chars, rows, None)
        rank, vectors = self.file.look_up(types)
        if self.word_table is None:
            return ClcTable(chars, None, vectors)
        shared = self.word_table.num_embeddings - 1
        own = (rank >= 0) & (rank < shared)
        frozen = np.where(own[:, None], np.float32(0), vectors)
        return ClcTable(chars, np.where(own, rank, shared), frozen)

    def encode(self, batch: PackedBatch) -> Encoded:
        """Top biLSTM states, with dropout behind them; a record's vector is their
        mean.
        """
        layout = time_major(batch.lengths)
        inputs, source = batch.inputs, layout.source
        parts = []
        if self.word_table is not None:
            parts.append(
                self.word_table(inputs["words"].index_select(0, source), layout.rows)
            )
        if "vectors" in inputs:
            frozen = inputs["vectors"].index_select(0, source)
            parts = [parts[0] + frozen] if parts else [frozen]
        word = inputs["char_word"].index_select(0, source)
        parts.append(self.char_cnn(inputs["chars"], word, layout.rows))
        x = torch.cat(parts, dim=1)
        masks = self.masks(batch, layout)
        for site, layer in enumerate(self.layers):
            x = layer(x if masks is None else masks.drop(x, site), layout)
        top = x if masks is None else masks.drop(x, len(self.layers))
        return Encoded(top, mean_over_record(top, layout.record, batch.lengths), layout)
