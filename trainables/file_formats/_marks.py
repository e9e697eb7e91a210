"""Utterances as texts whose slots are marked in place."""

from __future__ import annotations

from collections.abc import Callable

from trainables.data.bio import slots_lenient
from trainables.data.records import Utterance
from trainables.errors import InvalidData


def text_with_marks(
    utterance: Utterance,
    number: int,
    *,
    mark: Callable[[str, str], str],
    no_tokens: str,
    no_names: str,
) -> str:
    """The tokens with spaces between them, each slot as `mark(name, text)`.

    Raises: InvalidData for record `number` where a token has a sign of `no_tokens`, or a slot's
    name one of `no_names`: they are marks.
    """
    tokens, pieces, done = utterance.tokens, [], 0
    if any(sign in token for token in tokens for sign in no_tokens):
        raise InvalidData(f"expected no bracket in the text of record {number}, which marks slots")
    for name, start, end in slots_lenient(utterance.tags):
        if any(sign in name for sign in no_names):
            raise InvalidData(f"expected no bracket or colon in a slot's name in record {number}")
        pieces += [*tokens[done:start], mark(name, " ".join(tokens[start:end]))]
        done = end
    return " ".join([*pieces, *tokens[done:]])
