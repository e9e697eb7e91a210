"""Cuts the words of an utterance by a tokenizer of the Hugging Face kind.

Words are cut one by one, each as in the middle of a text, after a space. A tokenizer of whole texts
may not add that space (byte-level BPE: "Boston" and " Boston" have different pieces), so the way in
which the words of a text give the pieces of the text is determined by trying.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainables.encoders.pieces import PieceTable, piece_table
from trainables.errors import InvalidData

_PROBE = ("of", "the", "day", "Boston", "half")


@dataclass(frozen=True, eq=False)
class WordCutter:
    """Pieces of words; `begin` and `end` enclose a record, `unknown` is a word without pieces."""

    tokenizer: Any
    before: str  # put in front of each word
    begin: int
    end: int
    unknown: int

    def pieces(self, word: str) -> list[int]:
        """Ids of the pieces of a word, as in the middle of a text."""
        return _ids(self.tokenizer, self.before + word)

    def table(self, types: Sequence[str]) -> PieceTable:
        """Pieces of distinct words."""
        return piece_table(types, self.pieces, begin=self.begin, end=self.end, unknown=self.unknown)


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


def word_cutter(tokenizer: Any, *, place: str) -> WordCutter:
    """The word cutter of `tokenizer`.

    Raises: InvalidData for one that puts other than one piece before and one behind a record, or
        whose words of a text are not cut at its spaces.
    """
    tokenizer.backend_tokenizer.no_padding()  # a folder may ask for both
    tokenizer.backend_tokenizer.no_truncation()
    around = list(tokenizer.backend_tokenizer.encode("").ids)
    if len(around) != 2:
        raise InvalidData(
            "expected a tokenizer that puts one piece before and one behind a record in"
            f" model.encoder={place}, got {len(around)} in all"
        )
    begin, end = around
    unknown = tokenizer.unk_token_id
    return WordCutter(
        tokenizer,
        _before(lambda text: _ids(tokenizer, text), place),
        begin,
        end,
        begin if unknown is None else unknown,
    )


def _before(ids: Callable[[str], list[int]], place: str) -> str:
    whole = ids(" ".join(_PROBE))
    for before in ("", " "):
        cut = [piece for word in _PROBE[1:] for piece in ids(before + word)]
        if whole[-len(cut) :] == cut:
            return before
    raise InvalidData(
        f"expected a tokenizer that splits text at spaces in model.encoder={place}, got another"
    )


def _ids(tokenizer: Any, text: str) -> list[int]:
    found: list[int] = tokenizer.backend_tokenizer.encode(text, add_special_tokens=False).ids
    return found
