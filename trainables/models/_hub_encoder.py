"""The module of `lora`: an encoder of `transformers` with adapters, and heads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from trainables.data.batches import PackedBatch
from trainables.data.records import LabelSchema
from trainables.encoders.pieces import PieceTable, WordCutter
from trainables.errors import InvalidInput
from trainables.layers.packing import Rows, tensor_like, time_major
from trainables.models._lora import Foreign, refuse_unknown_rows
from trainables.models._nlu import Encoded, NluModel, independent_losses, mean_over_record

_WORDS_AT_ONCE = 1_024  # of a pass, the longest records' padding included
_TRIED = (2, 5, 3)  # words of the records that `refuse_unknown_rows` reads


class AdaptedEncoder(Foreign, NluModel):
    """`inner` is the encoder; records are padded at their end, where nothing attends.

    Packed inputs: those of `PieceTable.collate`. The vector of a token is that of its first piece,
    that of a record the mean of its pieces. A record of more pieces than `positions` is read in
    windows that follow each other. `padding` is the piece that pads.

    Raises: InvalidInput as `lora.build` does.
    """

    def __init__(
        self,
        inner: Any,
        cutter: WordCutter,
        schema: LabelSchema,
        *,
        name: str,
        provenance: str,
        positions: int,
        padding: int,
        targets: Sequence[str],
        rank: int,
        alpha: float,
        in_bf16: bool = False,
    ) -> None:
        super().__init__(
            num_intents=len(schema.intents),
            num_tags=len(schema.tags),
            token_width=inner.config.hidden_size,
            dropout=0.0,
            seed=0,
        )
        self.cutter, self.positions, self._padding = cutter, positions, padding
        self.hold(inner, in_bf16=in_bf16)
        self.put_adapters(_chosen_maps(inner, targets, name=name), rank=rank, alpha=alpha)
        self.provenance = f"{provenance}; trained: heads and adapters"
        self.forbid_broken_spans(schema)
        refuse_unknown_rows(self, self._tried(), name=name)

    def feature_table(self, types: Sequence[str]) -> PieceTable:
        """Pieces of the distinct tokens."""
        return self.cutter.table(types)

    def records_at_once(self, lengths: NDArray[np.int64]) -> int:
        """How many records of these lengths a step passes at a time."""
        return max(1, _WORDS_AT_ONCE // int(lengths.max(initial=1)))

    def losses(self, batch: PackedBatch) -> Tensor:
        """[B]: cross-entropies of the intent and, independently, of the tokens, in nats."""
        encoded = self.encode(batch)
        intents, tags = self._heads(encoded)
        layout = encoded.layout
        gold = batch.tags.index_select(0, layout.source)
        of_tags = independent_losses(tags, gold, layout.record, batch.num_records)
        return self._intent_losses(intents, batch, 0.0) + of_tags

    def encode(self, batch: PackedBatch) -> Encoded:
        """See the class."""
        pieces, lengths = batch.inputs["pieces"], batch.inputs["piece_lengths"]
        number = len(pieces)
        source, record = windows(lengths.cpu().numpy(), self.positions)
        ids = torch.cat(
            [pieces, pieces.new_tensor([self.cutter.begin, self.cutter.end, self._padding])]
        )
        is_read = source < number + 2
        of_cell = np.repeat(record, source.shape[1])
        self.name_rows(Rows(of_cell, len(lengths)))
        found = self.inner(
            input_ids=ids[tensor_like(source, pieces)],
            attention_mask=tensor_like(is_read.astype(np.int64), pieces),
        )
        [inner] = np.nonzero(source.ravel() < number)
        place = np.zeros(number, dtype=np.int64)
        place[source.ravel()[inner]] = inner
        first = tensor_like(place, pieces)[batch.inputs["first_piece"]]
        [cells] = np.nonzero(is_read.ravel())
        counts = tensor_like(np.bincount(of_cell[cells], minlength=len(lengths)), pieces)
        owner, cell = tensor_like(of_cell[cells], pieces), tensor_like(cells, pieces)
        rows = found[0].flatten(0, 1)
        of_records = mean_over_record(rows.index_select(0, cell), owner, counts)
        layout = time_major(batch.lengths)
        return Encoded(rows.index_select(0, first[layout.source]), of_records, layout)

    def _tried(self) -> list[PackedBatch]:
        """Records of made words together, and each alone."""
        words = [str(number) for number in range(sum(_TRIED))]
        table = self.feature_table(words)
        starts = np.cumsum((0, *_TRIED))
        every = [(0, list(_TRIED)), *((s, [n]) for s, n in zip(starts, _TRIED, strict=False))]
        batches = []
        for start, sizes in every:
            tokens, lengths = np.arange(start, start + sum(sizes)), np.array(sizes)
            inputs = table.collate(tokens.astype(np.int32), lengths)
            batches.append(PackedBatch.unlabelled(inputs, torch.from_numpy(lengths)))
        return batches


def windows(
    lengths: NDArray[np.int64], positions: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Packed records of `lengths` [B] pieces, those at their ends included, as W rows of equal
    length, none longer than `positions`: the packed place of each cell [W, L], and the record of
    each row [W]. Beyond the P places: P begins a record, P + 1 ends it, P + 2 pads.

    >>> windows(np.array([5, 3]), 4)[0].tolist()
    [[8, 1, 2, 9], [8, 3, 9, 10], [8, 6, 9, 10]]
    """
    room, total = positions - 2, int(lengths.sum())
    inside = lengths - 2
    many = -(-inside // room)
    record = np.repeat(np.arange(len(lengths)), many)
    begin = (np.arange(len(record)) - np.repeat(np.cumsum(many) - many, many)) * room
    size = np.minimum(inside[record] - begin, room)[:, None]
    column = np.arange(size.max() + 2)
    source = (np.cumsum(lengths) - lengths)[record][:, None] + begin[:, None] + column
    source = np.where(column <= size, source, total + 2)
    source[:, 0] = total
    np.put_along_axis(source, size + 1, total + 1, axis=1)
    return source, record


def _chosen_maps(inner: Any, targets: Sequence[str], *, name: str) -> dict[str, nn.Linear]:
    """The linear maps of these last names, by their names; none of a pooler, which is not read.

    Raises: InvalidInput where there is none of a name.
    """
    every = inner.named_modules()
    maps = {n: m for n, m in every if isinstance(m, nn.Linear) and "pooler" not in n}
    names = {n: n.rpartition(".")[2] for n in maps}
    if missing := set(targets) - set(names.values()):
        raise InvalidInput(
            f"expected model.lora_targets among {', '.join(sorted(set(names.values())))} with"
            f" model.encoder={name}, got {sorted(missing)[0]}"
        )
    return {n: m for n, m in maps.items() if names[n] in targets}
