"""Packed batches from a memory-mapped corpus: tokens one record after another, no padding."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from trainables.data.storage import token_places
from trainables.data.text_keys import text_keys, token_numbers

# Ids sorted by length at a time: what evaluation holds does not grow with the corpus.
_WINDOW = 65_536


@dataclass(frozen=True, eq=False)
class PackedBatch:
    """B records with T tokens in all.

    `inputs` is what the model's feature table made of the tokens. `lengths` int64[B], at least 1
    each; `intents` int64[B] and `tags` int64[T] are indices in the label schema, -1 where the
    schema lacks the label; `text_keys` int64[B] are keys of the texts for dropout (see
    `text_keys`).
    """

    inputs: dict[str, Tensor] = field(repr=False)
    lengths: Tensor
    intents: Tensor
    tags: Tensor
    text_keys: Tensor

    @classmethod
    def unlabelled(cls, inputs: dict[str, Tensor], lengths: Tensor) -> PackedBatch:
        """A batch for computing a model's states alone: labels and text keys are 0."""
        zeros = torch.zeros(len(lengths), dtype=torch.int64)
        tags = torch.zeros(int(lengths.sum()), dtype=torch.int64)
        return cls(inputs=inputs, lengths=lengths, intents=zeros, tags=tags, text_keys=zeros)

    @property
    def num_records(self) -> int:
        """B."""
        return int(self.lengths.shape[0])

    def to(self, device: torch.device | str) -> PackedBatch:
        """The same batch on another device, without a copy where it is there already."""
        if self.lengths.device == torch.device(device):
            return self

        def moved(tensor: Tensor) -> Tensor:
            if torch.device(device).type != "cuda":
                return tensor.to(device)
            # From pinned memory a copy overlaps with the device's work.
            return tensor.pin_memory().to(device, non_blocking=True)

        return replace(
            self,
            inputs={name: moved(tensor) for name, tensor in self.inputs.items()},
            lengths=moved(self.lengths),
            intents=moved(self.intents),
            tags=moved(self.tags),
            text_keys=moved(self.text_keys),
        )


class FeatureTable(Protocol):
    """A model's features of each distinct token of a corpus."""

    def collate(
        self, token_ids: NDArray[np.int32], lengths: NDArray[np.int64]
    ) -> dict[str, Tensor]:
        """Model inputs of packed tokens: `token_ids` [T] index the corpus' types, `lengths` [B]."""


def batch_of_texts(
    texts: Sequence[Sequence[str]], table: Callable[[Sequence[str]], FeatureTable]
) -> PackedBatch:
    """A batch without labels of texts, each of its tokens; `table` of their distinct ones."""
    types = sorted({token for text in texts for token in text})
    place = {token: number for number, token in enumerate(types)}
    ids = np.array([place[token] for text in texts for token in text], dtype=np.int32)
    lengths = np.array([len(text) for text in texts], dtype=np.int64)
    inputs = table(types).collate(ids, lengths)
    return PackedBatch.unlabelled(inputs, torch.from_numpy(lengths))


@runtime_checkable
class RecordTable(Protocol):
    """A model's features of each record of a corpus, instead of a feature table of tokens."""

    def collate_records(self, records: NDArray[np.int64]) -> dict[str, Tensor]:
        """Model inputs of these records, packed."""


class Columns(Protocol):
    """The part of a corpus that batches are cut from (see `corpus.Corpus`)."""

    @property
    def offsets(self) -> NDArray[np.int64]:
        """[n + 1]: where each record's tokens start."""

    @property
    def tokens(self) -> NDArray[np.int32]:
        """[total]: indices of the distinct tokens."""

    @property
    def types(self) -> Sequence[str]:
        """The distinct tokens."""

    @property
    def intents(self) -> NDArray[np.int16]:
        """[n]."""

    @property
    def tags(self) -> NDArray[np.int16]:
        """[total]."""


class Loader:
    """Cuts batches of a corpus, ready for one model."""

    def __init__(self, corpus: Columns, table: FeatureTable | RecordTable) -> None:
        self._corpus = corpus
        self._table = table
        self._numbers = token_numbers(corpus.types)

    def batch(self, ids: NDArray[np.int64]) -> PackedBatch:
        """The records `ids` in that order, at least one; a record may occur twice.

        Raises: ValueError where `ids` is empty (there is nothing to collate).
        """
        if len(ids) == 0:
            raise ValueError("expected at least one record in a batch, got none")
        corpus = self._corpus
        records = np.asarray(ids, dtype=np.int64)
        starts = corpus.offsets[records]
        lengths = corpus.offsets[records + 1] - starts
        where = token_places(starts, lengths)
        return PackedBatch(
            inputs=(
                self._table.collate_records(records)
                if isinstance(self._table, RecordTable)
                else self._table.collate(corpus.tokens[where], lengths)
            ),
            lengths=torch.from_numpy(lengths),
            intents=torch.from_numpy(_without_unknown(corpus.intents[records])),
            tags=torch.from_numpy(_without_unknown(corpus.tags[where])),
            text_keys=torch.from_numpy(text_keys(self._numbers[corpus.tokens[where]], lengths)),
        )

    def lengths(self, ids: NDArray[np.int64]) -> NDArray[np.int64]:
        """[len(ids)]: the numbers of tokens of these records."""
        return self._corpus.offsets[ids + 1] - self._corpus.offsets[ids]

    def text_keys(self, ids: NDArray[np.int64]) -> NDArray[np.int64]:
        """[len(ids)]: the keys of these records' texts."""
        found = np.empty(len(ids), dtype=np.int64)
        for low in range(0, len(ids), _WINDOW):
            starts = self._corpus.offsets[ids[low : low + _WINDOW]]
            lengths = self.lengths(ids[low : low + _WINDOW])
            tokens = self._corpus.tokens[token_places(starts, lengths)]
            found[low : low + _WINDOW] = text_keys(self._numbers[tokens], lengths)
        return found

    def evaluation_batches(
        self, ids: NDArray[np.int64], *, max_tokens: int
    ) -> Iterator[tuple[NDArray[np.int64], PackedBatch]]:
        """Every record of `ids` once, records of like length together: (places in `ids`, batch).

        A batch holds at most `max_tokens` tokens, or one record that alone is longer. The order
        depends on `ids` and the corpus only.
        """
        for low in range(0, len(ids), _WINDOW):
            window = np.asarray(ids[low : low + _WINDOW], dtype=np.int64)
            lengths = self.lengths(window)
            order = np.argsort(lengths, kind="stable")
            for cut in _cuts(lengths[order], max_tokens):
                places = order[cut]
                yield places + low, self.batch(window[places])


def _without_unknown(labels: NDArray[np.int16]) -> NDArray[np.int64]:
    """Labels with -1 for all that the schema lacks, which a corpus distinguishes."""
    return np.maximum(labels.astype(np.int64), -1)


def _cuts(lengths: NDArray[np.int64], max_tokens: int) -> Iterator[slice]:
    """Consecutive runs whose lengths sum to at most `max_tokens`, each at least one long."""
    ends = np.cumsum(lengths)
    start = 0
    while start < len(lengths):
        before = int(ends[start - 1]) if start else 0
        stop = int(np.searchsorted(ends, before + max_tokens, side="right"))
        stop = max(stop, start + 1)
        yield slice(start, stop)
        start = stop
