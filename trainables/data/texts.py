"""Tokenised texts for a language model: prompt and text one after another, packed, no
padding.

A record is `begin prompt separator text end`, or `begin text end` without a prompt. The
loss excludes the prompt.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from trainables.data.batches import Batch, text_keys
from trainables.data.storage import token_places


class Tokenizer(Protocol):
    """Cuts texts into ids below `size` and back. Three ids, `begin`, `separator`
    (between a prompt and its text) and `end`, are marks that occur in no text. It must
    be made from public texts alone, because its vocabulary is part of every export.
    """

    size: int
    begin: int
    separator: int
    end: int

    def encode(self, text: str) -> list[int]:
        """Ids of a text, without marks."""

    def decode(self, ids: Sequence[int]) -> str:
        """The text of ids, marks left out."""


@dataclass(frozen=True, eq=False)
class TextBatch(Batch):
    """B records with n rows in all: a row is a token that has a next one.

    `inputs` int64[n]; `targets` int64[n], the next token; `counted` bool[n], whether
    the loss counts it (at least one a record); `lengths` int64[B] rows of each record;
    `text_keys` int64[B] keys of the texts for dropout (see `text_keys`).
    """

    inputs: Tensor
    targets: Tensor
    counted: Tensor
    lengths: Tensor
    text_keys: Tensor


class EncodedTexts:
    """n tokenised records, addressed 0..n-1: `offsets` [n + 1] in `tokens`, `first` [n]
    the index within the record of the first token that the loss counts, `cut` bool[n]
    whether the record's text or prompt is longer than `max_tokens` allows. Some records
    may have a prompt.
    """

    def __init__(
        self,
        texts: Sequence[str],
        tokenizer: Tokenizer,
        *,
        max_tokens: int,
        prompts: Sequence[str | None] | None = None,
    ) -> None:
        rows, first, cut = [], [], []
        for text, prompt in zip(texts, prompts or [None] * len(texts), strict=True):
            start, is_whole = opening(tokenizer, prompt, max_tokens)
            ids = tokenizer.encode(text)
            room = max(1, max_tokens - len(start) - 1)
            rows.append([*start, *ids[:room], tokenizer.end])
            first.append(len(start))
            cut.append(len(ids) > room or not is_whole)
        lengths = np.array([len(row) for row in rows], dtype=np.int64)
        self.offsets: NDArray[np.int64] = np.concatenate([[0], np.cumsum(lengths)])
        self.tokens: NDArray[np.int64] = np.array(
            [t for row in rows for t in row], dtype=np.int64
        )
        self.first: NDArray[np.int64] = np.array(first, dtype=np.int64)
        self.cut: NDArray[np.bool_] = np.array(cut, dtype=np.bool_)
        self._keys = text_keys(self.tokens, lengths)

    def __len__(self) -> int:
        return len(self.first)

    def by_length(self, max_tokens: int) -> Iterator[NDArray[np.int64]]:
        """All ids, records of like length together, at most `max_tokens` (or one
        record) a time.
        """
        lengths = np.diff(self.offsets)
        order = np.argsort(lengths, kind="stable")
        start = 0
        while start < len(order):
            stop = start + 1
            # A hub's model pads to the longest, so that counts as often as there are
            # records.
            while (
                stop < len(order)
                and (stop + 1 - start) * lengths[order[stop]] <= max_tokens
            ):
                stop += 1
            yield order[start:stop]
            start = stop

    def batch(self, ids: NDArray[np.int64]) -> TextBatch:
        """The records `ids` in that order, at least one."""
        if len(ids) == 0:
            raise ValueError("expected at least one record in a batch, got none")
        records = np.asarray(ids, dtype=np.int64)
        starts = self.offsets[records]
        lengths = (
            self.offsets[records + 1] - starts - 1
        )  # the last token has no next one
        where = token_places(starts, lengths)
        within = where - np.repeat(starts, lengths)
        return TextBatch(
            inputs=torch.from_numpy(self.tokens[where]),
            targets=torch.from_numpy(self.tokens[where + 1]),
            counted=torch.from_numpy(
                within + 1 >= np.repeat(self.first[records], lengths)
            ),
            lengths=torch.from_numpy(lengths),
            text_keys=torch.from_numpy(self._keys[records]),
        )


def opening(
    tokenizer: Tokenizer, prompt: str | None, max_tokens: int
) -> tuple[list[int], bool]:
    """The ids before a text, `begin` or `begin prompt separator`, and whether the whole
    prompt is in them. A prompt has at most half of `max_tokens`, or all but 40 of them
    where that is more.
    """
    if prompt is None:
        return [tokenizer.begin], True
    ids, room = tokenizer.encode(prompt), max(max_tokens // 2, max_tokens - 40) - 2
    return [tokenizer.begin, *ids[:room], tokenizer.separator], len(ids) <= room
