"""A BERT with fewer word pieces, because most weights of a small encoder are its vocabulary.

The vocabulary of a BERT is ordered by frequency in its source text. The kept pieces are public and
fixed: the special pieces, each ASCII sign alone and inside of a word, then the first pieces of
ASCII letters or digits. Every word of ASCII letters can still be cut into pieces.
"""

from __future__ import annotations

import json
from typing import Any

from trainables.errors import InvalidInput

_INSIDE = "##"


def with_fewer_pieces(tokenizer: Any, count: int) -> tuple[Any, list[int]]:
    """The tokenizer with `count` pieces, numbered from 0, and the former number of each.

    Raises: InvalidInput for a tokenizer that is no fast WordPiece one, or has fewer pieces.
    """
    from tokenizers import Tokenizer

    fast = getattr(tokenizer, "backend_tokenizer", None)
    described = {} if fast is None else json.loads(fast.to_str())
    if described.get("model", {}).get("type") != "WordPiece":
        raise InvalidInput("expected vocabulary with an encoder of word pieces (WordPiece)")
    before: dict[str, int] = described["model"]["vocab"]
    kept = _most_frequent(described, count)
    number = {piece: place for place, piece in enumerate(kept)}
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
    return smaller, [before[piece] for piece in kept]


def _most_frequent(described: dict[str, Any], count: int) -> list[str]:
    vocabulary = described["model"]["vocab"]
    ascii_only = [p for p in sorted(vocabulary, key=vocabulary.__getitem__) if p.isascii()]
    special = [each["content"] for each in described["added_tokens"]]
    signs = [p for p in ascii_only if len(_bare(p)) == 1]
    words = [p for p in ascii_only if len(_bare(p)) > 1 and _bare(p).isalnum()]
    least, kept = len(special) + len(signs), [*special, *signs, *words]
    if not least <= count <= len(kept):
        raise InvalidInput(f"expected vocabulary from {least} to {len(kept)}, got {count}")
    return kept[:count]


def _bare(piece: str) -> str:
    return piece.removeprefix(_INSIDE)
