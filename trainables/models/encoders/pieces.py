"""Word pieces of distinct tokens, computed once; batches of pieces by index arithmetic.

Words are cut one by one, each as in the middle of a text, after a space. A tokenizer of
whole texts may not add that space (byte-level BPE: "Boston" and " Boston" have
different pieces), so the way in which the words of a text give the pieces of the text
is determined by trying.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from trainables.data.batches import PackedBatch
from trainables.data.storage import token_places
from trainables.dp.layers.packing import mean_over_record
from trainables.errors import InvalidData
from trainables.io.files import read_json

MAX_PIECES = 8  # of one token; the rest of a very long token is not read
_PROBE = ("of", "the", "day", "Boston", "half")


class PieceTable:
    """Pieces of V distinct tokens, one token after another: token v's are
    `pieces[starts[v] : starts[v] + counts[v]]`, `unknown` where it is cut into none.
    Behind them are `begin` and `end`, which enclose a record ([CLS], [SEP]), as V and V
    + 1.
    """

    def __init__(
        self, cut: Iterable[Sequence[int]], *, begin: int, end: int, unknown: int
    ) -> None:
        kept = [list(pieces[:MAX_PIECES]) or [unknown] for pieces in cut]
        kept += [[begin], [end]]
        self.pieces = np.array(
            [piece for pieces in kept for piece in pieces], dtype=np.int64
        )
        self.counts = np.array([len(pieces) for pieces in kept], dtype=np.int64)
        self.starts = np.cumsum(self.counts) - self.counts

    def collate(self, token_ids: np.ndarray, lengths: np.ndarray) -> dict[str, Tensor]:
        """Packed `pieces` [P] with `piece_lengths` [B] and `first_piece` [T], index in
        [P].
        """
        ends, begin = np.cumsum(lengths), len(self.counts) - 2
        edges = np.stack([ends - lengths, ends], axis=1).ravel()
        ids = np.insert(token_ids, edges, [begin, begin + 1] * len(lengths))
        counts = self.counts[ids]
        first = np.cumsum(counts) - counts
        found = {
            "pieces": self.pieces[token_places(self.starts[ids], counts)],
            "piece_lengths": np.add.reduceat(counts, np.flatnonzero(ids == begin)),
            "first_piece": first[ids < begin],
        }
        return {name: torch.from_numpy(each) for name, each in found.items()}


class WordCutter:
    """Pieces of words, each cut as in the middle of a text.

    Raises: InvalidData for a tokenizer that puts other than one piece before and one
        behind a record, or whose words of a text are not cut at its spaces; `name` is
        the model.encoder.
    """

    def __init__(self, tokenizer: Any, *, name: str) -> None:
        self.tokenizer = tokenizer
        tokenizer.backend_tokenizer.no_padding()  # a folder may ask for both
        tokenizer.backend_tokenizer.no_truncation()
        around = tokenizer.backend_tokenizer.encode("").ids
        if len(around) != 2:
            raise InvalidData(
                "expected a tokenizer that puts one piece before and one behind a"
                f" record in model.encoder={name}, got {len(around)} in all"
            )
        self.begin, self.end = around
        self.unknown = (
            around[0] if tokenizer.unk_token_id is None else tokenizer.unk_token_id
        )
        whole = self._ids(" ".join(_PROBE))
        for self.before in ("", " "):  # put in front of each word
            cut = [
                piece for word in _PROBE[1:] for piece in self._ids(self.before + word)
            ]
            if whole[-len(cut) :] == cut:
                return
        raise InvalidData(
            f"expected a tokenizer that splits text at spaces in model.encoder={name},"
            " got another"
        )

    @classmethod
    def of_folder(cls, place: Path, *, name: str) -> WordCutter:
        """That of the tokenizer in a folder, without running any of its code.

        Raises: InvalidData where none loads, or it does not know which word a piece is
            of; as the class.
        """
        from transformers import AutoTokenizer

        try:
            found = AutoTokenizer.from_pretrained(
                str(place), trust_remote_code=False, local_files_only=True
            )
        except Exception:  # noqa: BLE001  the library raises many kinds for a damaged file
            raise InvalidData(
                f"expected a tokenizer in {place}, got none that loads"
            ) from None
        if getattr(found, "backend_tokenizer", None) is None:
            raise InvalidData(
                f"expected a tokenizer.json (a fast tokenizer) in {place}, got none"
            )
        return cls(_as_in_file(found, place), name=name)

    def table(self, types: Sequence[str]) -> PieceTable:
        """Pieces of distinct words."""
        cut = (self._ids(self.before + word) for word in types)
        return PieceTable(cut, begin=self.begin, end=self.end, unknown=self.unknown)

    def _ids(self, text: str) -> list[int]:
        tokenizer = self.tokenizer.backend_tokenizer
        return list(tokenizer.encode(text, add_special_tokens=False).ids)


def _as_in_file(found: Any, place: Path) -> Any:
    """A tokenizer with the rules of `tokenizer.json`, which the library replaces by
    those of the class in `tokenizer_config.json`, such as lower case.

    Raises: InvalidData where both files say something about case, and differ.
    """
    from tokenizers import Tokenizer
    from transformers import PreTrainedTokenizerFast

    file, config = place / "tokenizer.json", place / "tokenizer_config.json"
    if not file.is_file():
        return found
    own = Tokenizer.from_file(str(file))
    rules = json.loads(own.to_str())
    declared = read_json(config, max_bytes=1 << 26) if config.is_file() else {}
    lowers = (rules["normalizer"] or {}).get("lowercase")
    if None not in (lowers, said := declared.get("do_lower_case")) and said != lowers:
        raise InvalidData(
            f"expected {file} and {config.name} to agree on do_lower_case, got {lowers}"
            f" and {said}"
        )
    used = json.loads(found.backend_tokenizer.to_str())
    if all(rules[each] == used[each] for each in ("normalizer", "pre_tokenizer")):
        return found
    return PreTrainedTokenizerFast(tokenizer_object=own, **found.special_tokens_map)


def windows(
    pieces: Tensor, lengths: Sequence[int], positions: int
) -> tuple[list[Tensor], list[int]]:
    """Packed records of `lengths` pieces as rows of at most `positions`, each between
    the pieces at its record's ends, and the record of each row.

    >>> windows(torch.tensor([0, 5, 6, 7, 1, 0, 8, 1]), [5, 3], 4)
    ([tensor([0, 5, 6, 1]), tensor([0, 7, 1]), tensor([0, 8, 1])], [0, 0, 1])
    """
    rows, records = [], []
    for record, own in enumerate(torch.split(pieces, list(lengths))):
        for part in torch.split(own[1:-1], positions - 2):
            rows.append(torch.cat([own[:1], part, own[-1:]]))
            records.append(record)
    return rows, records


def pooled(
    states: Tensor, batch: PackedBatch, lengths: Tensor, owners: Tensor
) -> tuple[Tensor, Tensor]:
    """States [P, D] of the pieces of windows, whose `lengths` and records (`owners`)
    are int64[W] -> those of tokens [T, D], each its first piece's, and of records [B,
    D], means over pieces.
    """
    ends = lengths.cumsum(0)
    is_inner = torch.ones(len(states), dtype=torch.bool, device=states.device)
    is_inner[ends - lengths] = is_inner[ends - 1] = False
    # Inner pieces follow each other as in the batch, where each record has two more.
    first = batch.inputs["first_piece"] - 2 * torch.repeat_interleave(batch.lengths) - 1
    counts = torch.zeros_like(batch.lengths).index_add(0, owners, lengths)
    of_records = mean_over_record(states, owners.repeat_interleave(lengths), counts)
    return states[is_inner].index_select(0, first), of_records
