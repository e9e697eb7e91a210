"""Scores of tokens and records by the names of labels, before any private record is
read.

The encoder reads a name like an utterance; its vector is e(name) of norm 1. A token x
scores tag `B-name` as u_B.x + e(name)^T A x and `O` as u_O.x; a record r scores an
intent as e(name)^T B r. The maps are learned on public corpora with other labels
(Athiwaratkun et al. 2020, arXiv 2009.13272).
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch.nn.functional as F
from torch import Tensor

from trainables.data.batches import batch_of_texts
from trainables.data.records import LabelSchema
from trainables.errors import InvalidData
from trainables.models.encoders.about import NAMES
from trainables.models.encoders.rows import Recipe
from trainables.models.encoders.source import DAMAGED, load_tensors

BIAS = 0.3  # the constant entry of a row that names score
_MARKS = ("O", "B", "I")  # the first rows of `NameScores.tokens`
_MARK_WEIGHT = 0.7  # weight of B or I relative to the name, whose vector has norm 1
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_WORD = re.compile(r"[^\W_]+")


def words_of(name: str) -> tuple[str, ...]:
    """The words of a label's name, lower-cased.

    >>> words_of("toloc.city_name"), words_of("AddToPlaylist"), words_of("größe#2"), words_of("__")
    (('toloc', 'city', 'name'), ('add', 'to', 'playlist'), ('größe', '2'), ('none',))
    """
    return tuple(word.lower() for word in _WORD.findall(_CAMEL.sub(" ", name))) or (
        "none",
    )


def rows_of_names(recipe: Recipe, names: Sequence[str]) -> Tensor:
    """[n, D]: the record rows of label names in the order given, each name encoded as
    an utterance of its words (see `words_of`). Names are public, so no private record
    is read.
    """
    texts = [words_of(name) for name in names]
    return recipe.of_batch(batch_of_texts(texts, recipe.encoder.feature_table))[1]


@dataclass(frozen=True, eq=False)
class NameScores:
    """Public maps from features to scores of names.

    `projection` [D, N] turns the encoder's row of a name into its vector; `tokens` [3 +
    N, D + 1] (O, B, I, then A) and `records` [N, D + 1] (B) read rows with a constant
    `BIAS` behind them.
    """

    projection: Tensor
    tokens: Tensor
    records: Tensor

    def vectors(self, rows: Tensor) -> Tensor:
        """The encoder's rows of names [n, D] -> their vectors [n, N], of norm 1."""
        return F.normalize(rows @ self.projection, dim=1)

    def of_tokens(self, rows: Tensor) -> Tensor:
        """Rows of tokens [T, D] -> [T, 3 + N]; scores are the product with
        `tag_names`.
        """
        return with_bias(rows) @ self.tokens.t()

    def of_records(self, rows: Tensor) -> Tensor:
        """Rows of records [B, D] -> [B, N]; scores are the product with vectors of
        names.
        """
        return with_bias(rows) @ self.records.t()


def scores_in(place: Path) -> NameScores | None:
    """Those that the encoder in the folder `place` has learned; None where it has none.

    Raises: InvalidData for a damaged file.
    """
    if not (place / NAMES).is_file():
        return None
    try:
        return NameScores(**load_tensors(place / NAMES))
    except DAMAGED:
        raise InvalidData(
            f"expected scores of names in {place / NAMES}, got a damaged file"
        ) from None


def with_bias(rows: Tensor) -> Tensor:
    """`rows` [n, D] -> [n, D + 1], with the constant `BIAS` as the last entry, which
    the maps of `NameScores` were learned with.
    """
    return F.pad(rows, (0, 1), value=BIAS)


def tag_names(schema: LabelSchema, vectors: Tensor) -> Tensor:
    """[tags, 3 + N]: the mark of each tag beside the vector [N] of its slot, in
    `schema`'s order.

    >>> import torch
    >>> schema = LabelSchema(intents=("a",), slots=("city",), source="doc")
    >>> tag_names(schema, torch.ones(1, 2)).tolist()[0]
    [1.0, 0.0, 0.0, 0.0, 0.0]
    """
    found = vectors.new_zeros(len(schema.tags), len(_MARKS) + vectors.shape[1])
    slots = {slot: row for row, slot in enumerate(schema.slots)}
    for row, tag in enumerate(schema.tags):
        mark, _, slot = tag.partition("-")
        found[row, _MARKS.index(mark)] = _MARK_WEIGHT if slot else 1.0
        if slot:
            found[row, len(_MARKS) :] = vectors[slots[slot]]
    return found
