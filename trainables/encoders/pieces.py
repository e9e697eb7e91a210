"""Word pieces of distinct tokens, computed once; batches of pieces by index arithmetic.

Words are cut one by one, each as in the middle of a text, after a space. A tokenizer of whole texts
may not add that space (byte-level BPE: "Boston" and " Boston" have different pieces), so the way in
which the words of a text give the pieces of the text is determined by trying.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from trainables.data.batches import PackedBatch
from trainables.data.storage import token_places
from trainables.encoders.word_vectors import bucket
from trainables.errors import InvalidData, InvalidInput

MAX_PIECES = 8  # of one token; the rest of a very long token is not read
_PARTS = re.compile(r"[^\W\d_]+|\d|[^\w\s]|_")
_PROBE = ("of", "the", "day", "Boston", "half")


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
        piece_lengths = np.bincount(of_record, counts, lengths.size).astype(np.int64) + 2
        ends = np.cumsum(piece_lengths)
        out = np.empty(int(ends[-1]), dtype=np.int64)
        out[token_places(first, counts)] = self.pieces[token_places(self.starts[token_ids], counts)]
        out[ends - piece_lengths] = self.begin
        out[ends - 1] = self.end
        return {
            "pieces": torch.from_numpy(out),
            "piece_lengths": torch.from_numpy(piece_lengths),
            "first_piece": torch.from_numpy(first),
        }


def piece_table(cut: Iterable[Sequence[int]], *, begin: int, end: int, unknown: int) -> PieceTable:
    """The table of tokens that are cut so; one without any piece gets `unknown`."""
    kept = [list(pieces[:MAX_PIECES]) or [unknown] for pieces in cut]
    counts = np.array([len(pieces) for pieces in kept], dtype=np.int64)
    flat = np.array([piece for pieces in kept for piece in pieces], dtype=np.int64)
    return PieceTable(flat, np.cumsum(counts) - counts, counts, begin, end)


def hashed_pieces(word: str, num_buckets: int) -> list[int]:
    """Runs of letters, single digits and signs, each hashed into 2..num_buckets-1; no vocabulary.

    0 and 1 are the begin and end of a record.

    >>> len(hashed_pieces("4:30pm", 100)), hashed_pieces("Paris", 9) == hashed_pieces("paris", 9)
    (5, True)
    """
    return [2 + bucket(part, num_buckets - 2) for part in _PARTS.findall(word)]


class WordCutter:
    """Pieces of words, each cut as in the middle of a text; `begin` and `end` enclose a record,
    `unknown` is a word without pieces.

    Raises: InvalidData for a tokenizer that puts other than one piece before and one behind a
        record, or whose words of a text are not cut at its spaces.
    """

    def __init__(self, tokenizer: Any, *, place: str) -> None:
        self.tokenizer = tokenizer
        tokenizer.backend_tokenizer.no_padding()  # a folder may ask for both
        tokenizer.backend_tokenizer.no_truncation()
        around = tokenizer.backend_tokenizer.encode("").ids
        if len(around) != 2:
            raise InvalidData(
                "expected a tokenizer that puts one piece before and one behind a record in"
                f" model.encoder={place}, got {len(around)} in all"
            )
        self.begin, self.end = around
        self.unknown = around[0] if tokenizer.unk_token_id is None else tokenizer.unk_token_id
        whole = self._ids(" ".join(_PROBE))
        for self.before in ("", " "):  # put in front of each word
            cut = [piece for word in _PROBE[1:] for piece in self._ids(self.before + word)]
            if whole[-len(cut) :] == cut:
                return
        raise InvalidData(
            f"expected a tokenizer that splits text at spaces in model.encoder={place}, got another"
        )

    def table(self, types: Sequence[str]) -> PieceTable:
        """Pieces of distinct words."""
        cut = (self._ids(self.before + word) for word in types)
        return piece_table(cut, begin=self.begin, end=self.end, unknown=self.unknown)

    def _ids(self, text: str) -> list[int]:
        encoded = self.tokenizer.backend_tokenizer.encode(text, add_special_tokens=False)
        return list(encoded.ids)


def windows(
    pieces: Tensor, lengths: Sequence[int], positions: int
) -> tuple[list[Tensor], list[int]]:
    """Packed records of `lengths` pieces as rows of at most `positions`, each between the pieces at
    its record's ends, and the record of each row.

    >>> windows(torch.tensor([0, 5, 6, 7, 1, 0, 8, 1]), [5, 3], 4)
    ([tensor([0, 5, 6, 1]), tensor([0, 7, 1]), tensor([0, 8, 1])], [0, 0, 1])
    """
    rows, records = [], []
    for record, own in enumerate(torch.split(pieces, list(lengths))):
        for part in torch.split(own[1:-1], positions - 2):
            rows.append(torch.cat([own[:1], part, own[-1:]]))
            records.append(record)
    return rows, records


def first_inside(batch: PackedBatch) -> Tensor:
    """[T]: the first piece of each token among those between the ends of all windows, which follow
    each other as in the batch, where each record has two more.
    """
    return batch.inputs["first_piece"] - 2 * torch.repeat_interleave(batch.lengths) - 1


def tokenizer_in(place: Path) -> Any:
    """The tokenizer in a folder, without running any of its code.

    Raises: InvalidData where none loads, or it does not know which word a piece is of.
    """
    from transformers import AutoTokenizer

    try:
        found = AutoTokenizer.from_pretrained(
            str(place), trust_remote_code=False, local_files_only=True
        )
    except Exception:  # noqa: BLE001  the library raises many kinds for a damaged file
        raise InvalidData(f"expected a tokenizer in {place}, got none that loads") from None
    if getattr(found, "backend_tokenizer", None) is None:
        raise InvalidData(f"expected a tokenizer.json (a fast tokenizer) in {place}, got none")
    return found


def with_fewer_pieces(tokenizer: Any, count: int) -> tuple[Any, list[int]]:
    """The tokenizer with `count` pieces, numbered from 0, and the former number of each: most
    weights of a small encoder are its vocabulary, which a BERT has in the order of frequency.

    The kept pieces are public and fixed: the special ones, each ASCII sign alone and inside of a
    word, then the first ones of ASCII letters or digits. Every word of ASCII letters can still be
    cut into pieces.

    Raises: InvalidInput for a tokenizer that is no fast WordPiece one, or has fewer pieces.
    """
    from tokenizers import Tokenizer

    fast = getattr(tokenizer, "backend_tokenizer", None)
    described = {} if fast is None else json.loads(fast.to_str())
    if described.get("model", {}).get("type") != "WordPiece":
        raise InvalidInput("expected vocabulary with an encoder of word pieces (WordPiece)")
    before: dict[str, int] = described["model"]["vocab"]
    bare = {p: p.removeprefix("##") for p in sorted(before, key=before.__getitem__) if p.isascii()}
    special = [each["content"] for each in described["added_tokens"]]
    signs = [piece for piece, sign in bare.items() if len(sign) == 1]
    words = [piece for piece, word in bare.items() if len(word) > 1 and word.isalnum()]
    least, kept = len(special) + len(signs), [*special, *signs, *words]
    if not least <= count <= len(kept):
        raise InvalidInput(f"expected vocabulary from {least} to {len(kept)}, got {count}")
    number = {piece: place for place, piece in enumerate(kept[:count])}
    for each in described["added_tokens"]:
        each["id"] = number[each["content"]]
    for name, each in described["post_processor"]["special_tokens"].items():
        each["ids"] = [number[name]]
    described["model"]["vocab"] = number
    names = ("pad_token", "unk_token", "cls_token", "sep_token", "mask_token")
    smaller = type(tokenizer)(
        tokenizer_object=Tokenizer.from_str(json.dumps(described)),
        **{name: getattr(tokenizer, name) for name in names},
    )
    return smaller, [before[piece] for piece in number]
