"""Word pieces of distinct tokens, computed once; batches of pieces by index arithmetic."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from trainables.encoders.word_vectors import bucket

MAX_PIECES = 8  # of one token; the rest of a very long token is not read
_PARTS = re.compile(r"[^\W\d_]+|\d|[^\w\s]|_")


@dataclass(frozen=True, eq=False)
class PieceTable:
    """Pieces of V distinct tokens, one token after another: token v's are
    `pieces[starts[v] : starts[v] + counts[v]]`, at least one."""

    pieces: np.ndarray  # int64[sum of counts]
    starts: np.ndarray  # int64[V]
    counts: np.ndarray  # int64[V]
    begin: int  # id put before each record ([CLS])
    end: int  # id put behind each record ([SEP])

    def collate(self, token_ids: np.ndarray, lengths: np.ndarray) -> dict[str, Tensor]:
        """Packed `pieces` [P] with `piece_lengths` [B] and `first_piece` [T], index in [P]."""
        counts = self.counts[token_ids]
        of_record = np.repeat(np.arange(lengths.size), lengths)
        # Each record has one more in front and one behind: token t is moved by 2 * record + 1.
        first = np.cumsum(counts) - counts + 2 * of_record + 1
        within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        piece_lengths = np.bincount(of_record, counts, lengths.size).astype(np.int64) + 2
        ends = np.cumsum(piece_lengths)
        out = np.empty(int(ends[-1]), dtype=np.int64)
        out[np.repeat(first, counts) + within] = self.pieces[
            np.repeat(self.starts[token_ids], counts) + within
        ]
        out[ends - piece_lengths] = self.begin
        out[ends - 1] = self.end
        return {
            "pieces": torch.from_numpy(out),
            "piece_lengths": torch.from_numpy(piece_lengths),
            "first_piece": torch.from_numpy(first),
        }


def piece_table(
    types: Sequence[str],
    pieces_of: Callable[[str], list[int]],
    *,
    begin: int,
    end: int,
    unknown: int,
) -> PieceTable:
    """Cut each of `types`; a token without any piece gets `unknown`."""
    cut = [pieces_of(word)[:MAX_PIECES] or [unknown] for word in types]
    counts = np.array([len(pieces) for pieces in cut], dtype=np.int64)
    flat = np.array([piece for pieces in cut for piece in pieces], dtype=np.int64)
    return PieceTable(flat, np.cumsum(counts) - counts, counts, begin, end)


def hashed_pieces(word: str, num_buckets: int) -> list[int]:
    """Runs of letters, single digits and signs, each hashed into 2..num_buckets-1; no vocabulary.

    0 and 1 are the begin and end of a record.

    >>> len(hashed_pieces("4:30pm", 100)), hashed_pieces("Paris", 9) == hashed_pieces("paris", 9)
    (5, True)
    """
    return [2 + bucket(part, num_buckets - 2) for part in _PARTS.findall(word)]
