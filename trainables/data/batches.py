"""Packed batches from a memory-mapped corpus: tokens one record after another, no
padding.

Dropout masks and the choice among a group's records come from a public seed and the key
of a text. Keyed by the record's index in the corpus, an added record would change the
random numbers of all later records, and the sum by more than the bound of one record.
Keyed by the text, they are a function of the record.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, Self, runtime_checkable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from trainables.data.storage import token_places
from trainables.dp.seeding import GOLDEN, mix

# Ids sorted by length at a time: what evaluation holds does not grow with the corpus.
_WINDOW = 65_536


class Batch:
    """The base of dataclasses of tensors, or of tensors by name; `lengths` is one of
    them.
    """

    lengths: Tensor

    def to(self, device: torch.device | str) -> Self:
        """The same batch on another device, without a copy where it is there
        already.
        """
        if self.lengths.device == torch.device(device):
            return self

        def moved(value: Any) -> Any:
            if isinstance(value, dict):
                return {name: moved(each) for name, each in value.items()}
            if torch.device(device).type != "cuda":
                return value.to(device)
            # From pinned memory a copy overlaps with the device's work.
            return value.pin_memory().to(device, non_blocking=True)

        return replace(
            self, **{name: moved(value) for name, value in vars(self).items()}
        )  # type: ignore[type-var]  # a dataclass


@dataclass(frozen=True, eq=False)
class PackedBatch(Batch):
    """B records with T tokens in all.

    `inputs` is what the model's feature table made of the tokens. `lengths` int64[B],
    at least 1 each; `intents` int64[B] and `tags` int64[T] are indices in the label
    schema, -1 where the schema lacks the label; `text_keys` int64[B] are keys of the
    texts for dropout (see `text_keys`).
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
        return cls(
            inputs=inputs, lengths=lengths, intents=zeros, tags=tags, text_keys=zeros
        )

    @property
    def num_records(self) -> int:
        """B."""
        return int(self.lengths.shape[0])


class FeatureTable(Protocol):
    """A model's features of each distinct token of a corpus, computed once, from which
    batches are collated by token id. A model makes it in `feature_table(types)`; it
    must give a token the same features whatever else is in the corpus or in the batch.
    """

    def collate(
        self, token_ids: NDArray[np.int32], lengths: NDArray[np.int64]
    ) -> dict[str, Tensor]:
        """Model inputs of packed tokens: `token_ids` [T] index the corpus' types,
        `lengths` [B].
        """


def batch_of_texts(
    texts: Sequence[Sequence[str]], table: Callable[[Sequence[str]], FeatureTable]
) -> PackedBatch:
    """A batch without labels of `texts`, each a sequence of at least one token, in
    their order. `table` makes the features of their distinct tokens, which are sorted
    first. For states and scores of texts that belong to no corpus; intents, tags and
    text keys are 0.
    """
    types = sorted({token for text in texts for token in text})
    place = {token: number for number, token in enumerate(types)}
    ids = np.array([place[token] for text in texts for token in text], dtype=np.int32)
    lengths = np.array([len(text) for text in texts], dtype=np.int64)
    inputs = table(types).collate(ids, lengths)
    return PackedBatch.unlabelled(inputs, torch.from_numpy(lengths))


@runtime_checkable
class RecordTable(Protocol):
    """A model's features of each record of a corpus, instead of a feature table of
    tokens.
    """

    def collate_records(self, records: NDArray[np.int64]) -> dict[str, Tensor]:
        """Model inputs of these records, packed."""


class Columns(Protocol):
    """The part of a corpus that batches are cut from (see `corpus.Corpus`)."""

    offsets: NDArray[np.int64]  # [n + 1]: where each record's tokens start
    tokens: NDArray[np.int32]  # [total]: indices of the distinct tokens
    types: Sequence[str]  # the distinct tokens
    intents: NDArray[np.int16]  # [n]
    tags: NDArray[np.int16]  # [total]


class Loader:
    """Cuts batches of a `corpus` for one model, whose inputs come from `table`:
    features of distinct tokens, or of whole records. Records are asked for by id, in
    any order and any number of times; labels that the schema lacks are -1. Nothing of a
    batch is kept.
    """

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
            text_keys=torch.from_numpy(
                text_keys(self._numbers[corpus.tokens[where]], lengths)
            ),
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
        """Every record of `ids` once, records of like length together: (places in
        `ids`, batch).

        A batch holds at most `max_tokens` tokens, or one record that alone is longer.
        The order depends on `ids` and the corpus only.
        """
        for low in range(0, len(ids), _WINDOW):
            window = np.asarray(ids[low : low + _WINDOW], dtype=np.int64)
            lengths = self.lengths(window)
            order = np.argsort(lengths, kind="stable")
            for cut in cuts(lengths[order], max_tokens):
                places = order[cut]
                yield places + low, self.batch(window[places])


def token_numbers(tokens: Iterable[str]) -> NDArray[np.uint64]:
    """A 64-bit hash of each token's text."""
    digests = (hashlib.blake2b(t.encode(), digest_size=8).digest() for t in tokens)
    return np.frombuffer(b"".join(digests), dtype="<u8").astype(np.uint64)


def text_keys(
    numbers: NDArray[np.integer], lengths: NDArray[np.int64]
) -> NDArray[np.int64]:
    """[B]: keys of packed texts of these `lengths` (each >= 1), `numbers` [T] being
    their tokens.

    >>> text_keys(np.array([5, 6, 6, 5, 5, 6]), np.array([2, 2, 2])).tolist()[::2] == [
    ...     int(text_keys(np.array([5, 6]), np.array([2]))[0])
    ... ] * 2
    True
    """
    starts = np.cumsum(lengths) - lengths
    place = np.arange(len(numbers)) - np.repeat(starts, lengths)
    with np.errstate(over="ignore"):
        of_token = mix(numbers.astype(np.uint64) + GOLDEN)
        each = mix(of_token + place.astype(np.uint64) * GOLDEN + GOLDEN)
        return mix(np.add.reduceat(each, starts) + GOLDEN).view(np.int64)


def _without_unknown(labels: NDArray[np.int16]) -> NDArray[np.int64]:
    """Labels with -1 for all that the schema lacks, which a corpus distinguishes."""
    return np.maximum(labels.astype(np.int64), -1)


def cuts(lengths: NDArray[np.int64], max_tokens: int) -> Iterator[slice]:
    """Consecutive runs whose lengths sum to at most `max_tokens`, each at least one
    long.
    """
    ends = np.cumsum(lengths)
    start = 0
    while start < len(lengths):
        before = int(ends[start - 1]) if start else 0
        stop = int(np.searchsorted(ends, before + max_tokens, side="right"))
        stop = max(stop, start + 1)
        yield slice(start, stop)
        start = stop
