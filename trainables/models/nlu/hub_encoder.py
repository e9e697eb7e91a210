"""An encoder of `transformers` with low-rank adapters, and heads."""

from collections.abc import Sequence
from itertools import count
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from trainables.data.batches import PackedBatch, batch_of_texts
from trainables.data.records import LabelSchema
from trainables.dp.layers.packing import time_major
from trainables.errors import InvalidInput
from trainables.models.configs import LoraConfig
from trainables.models.encoders.adapters import Foreign, refuse_unknown_rows
from trainables.models.encoders.hub import PublicEncoder, public_encoder
from trainables.models.encoders.pieces import PieceTable, WordCutter, pooled, windows
from trainables.models.encoders.source import load_model
from trainables.models.nlu.base import (
    Encoded,
    NluModel,
    independent_losses,
    label_losses,
)

# Maps that get adapters, of queries and values, by the last part of their names and by
# family. Of DeBERTa-v2 the queries' map also reads positions, which no record has to
# itself.
_TARGETS = {
    "deberta": ("in_proj",),
    "deberta-v2": ("value_proj",),
    "distilbert": ("q_lin", "v_lin"),
    "modernbert": ("Wqkv",),
    "mpnet": ("q", "v"),
}
_WORDS_AT_ONCE = 1_024  # of a pass, the longest records' padding included
_TRIED = (2, 5, 3)  # words of the records that `refuse_unknown_rows` reads


class AdaptedEncoder(Foreign, NluModel):
    """Records are padded at their end, where nothing attends (see `Foreign.states_of`).

    Packed inputs: those of `PieceTable.collate`. The vector of a token is that of its
    first piece, that of a record the mean of its pieces. A record of more pieces than
    `positions` is read in windows that follow each other.

    Raises: InvalidInput where the encoder lacks the layers or maps that get adapters, or
        has maps that do not read record after record.
    """

    def __init__(
        self, config: LoraConfig, public: PublicEncoder, schema: LabelSchema
    ) -> None:
        super().__init__(schema, token_width=public.config.width)
        self.cutter = WordCutter.of_folder(public.place, name=public.name)
        self.positions = public.positions
        self._padding = max(public.first_position - 1, 0)  # the piece that pads
        self.hold(load_model(public), in_bf16=config.frozen_weights == "bf16")
        targets = config.lora_targets or _TARGETS.get(
            public.config.model_type, ("query", "value")
        )
        # A pooler is not read.
        maps = {n: each for n, each in self.linear_maps().items() if "pooler" not in n}
        names = {n: n.rpartition(".")[2] for n in maps}
        if missing := set(targets) - set(names.values()):
            raise InvalidInput(
                "expected model.lora_targets among"
                f" {', '.join(sorted(set(names.values())))} with"
                f" model.encoder={config.encoder}, got {sorted(missing)[0]}"
            )
        chosen = {n: each for n, each in maps.items() if names[n] in targets}
        self.put_adapters(chosen, rank=config.lora_rank, alpha=config.lora_alpha)
        self.provenance = f"{public.provenance}; trained: heads and adapters"
        self.forbid_broken_spans(schema)
        refuse_unknown_rows(self, self._tried(), name=config.encoder)

    @classmethod
    def build(cls, config: Any, *, schema: LabelSchema, seed: int) -> Self:
        """See `ModelConfig.build`."""
        public = public_encoder(config.encoder)
        if config.lora_rank > public.config.width:
            raise InvalidInput(
                f"expected 1 <= model.lora_rank <= {public.config.width}, the width of"
                f" the encoder, got {config.lora_rank}"
            )
        return cls(config, public, schema)

    def feature_table(self, types: Sequence[str]) -> PieceTable:
        """Pieces of the distinct tokens."""
        return self.cutter.table(types)

    def records_at_once(self, lengths: NDArray[np.int64]) -> int:
        """How many records of these lengths a step passes at a time."""
        return max(1, _WORDS_AT_ONCE // int(lengths.max(initial=1)))

    def losses(self, batch: PackedBatch) -> Tensor:
        """[B]: cross-entropies of the intent and, independently, of the tokens, in
        nats.
        """
        encoded = self.encode(batch)
        intents, tags = self._heads(encoded)
        layout = encoded.layout
        gold = batch.tags.index_select(0, layout.source)
        of_tags = independent_losses(tags, gold, layout.record, batch.num_records)
        return label_losses(intents.float(), batch.intents) + of_tags

    def encode(self, batch: PackedBatch) -> Encoded:
        """See the class."""
        lengths = batch.inputs["piece_lengths"].tolist()
        rows, owners = windows(batch.inputs["pieces"], lengths, self.positions)
        states = self.states_of(
            rows,
            np.array(owners),
            len(lengths),
            padding=self._padding,
            most=self.positions,
            read=lambda ids, mask: self.inner(input_ids=ids, attention_mask=mask)[0],
        )
        sizes, owner = (
            batch.lengths.new_tensor(v) for v in ([len(r) for r in rows], owners)
        )
        tokens, of_records = pooled(states, batch, sizes, owner)
        layout = time_major(batch.lengths)
        return Encoded(tokens.index_select(0, layout.source), of_records, layout)

    def _tried(self) -> list[PackedBatch]:
        """Records of made words together, and each alone."""
        number = count()
        texts = [[str(next(number)) for _ in range(size)] for size in _TRIED]
        every = texts, *([text] for text in texts)
        return [batch_of_texts(each, self.feature_table) for each in every]
