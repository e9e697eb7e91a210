"""From the states of an encoder's layers to the features of a linear head.

Each layer's row is centred over its entries and scaled to norm 1. The chosen layers are
concatenated, public moments whiten the result, neighbours are appended, and the final row has
norm 1. Features are a fixed function of one record and of public numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from trainables.data.batches import FeatureTable, PackedBatch
from trainables.encoders.names import batches_of_names

if TYPE_CHECKING:
    from trainables.encoders.moments import Moments

_TINY = 1e-12
SHRINKAGE = 0.3  # default shrinkage of the public covariance


class LayerStates(NamedTuple):
    """The states of each layer of an encoder for a batch, the lowest first.

    `tokens[k]` [T, D_k], rows in the batch's order; `records[k]` [B, E_k], a mean over the record's
    rows.
    """

    tokens: tuple[Tensor, ...]
    records: tuple[Tensor, ...]


class Encoder(Protocol):
    """The part of a model that computes features."""

    def feature_table(self, types: Sequence[str]) -> FeatureTable:
        """The features of each distinct token."""

    def layer_states(self, batch: PackedBatch) -> LayerStates:
        """The states of every layer for a batch."""


class Whitening(NamedTuple):
    """x -> (x - mean) @ root; `root` [D, P] is symmetric or, with fewer columns, a projection."""

    mean: Tensor
    root: Tensor


class RowsOf(NamedTuple):
    """Features of norm 1: `tokens` [T, D] and `records` [B, E]."""

    tokens: Tensor
    records: Tensor


@dataclass(frozen=True, eq=False)
class Recipe:
    """An encoder, its layers, the whitening of tokens and of records."""

    encoder: Encoder
    layers: tuple[int, ...]
    white: tuple[Whitening | None, Whitening | None]
    neighbors: bool = False

    @torch.no_grad()
    def of_batch(self, batch: PackedBatch) -> RowsOf:
        """The rows of a batch of the encoder."""
        return self.of_states(self.encoder.layer_states(batch), batch)

    def of_states(self, states: LayerStates, batch: PackedBatch) -> RowsOf:
        """The rows from the encoder's states of a batch."""
        tokens, records = (
            features(join_states([each[k] for k in self.layers]), white)
            for each, white in zip(states, self.white, strict=True)
        )
        return RowsOf(with_neighbors(tokens, batch.lengths) if self.neighbors else tokens, records)

    def of_names(self, names: Sequence[str]) -> Tensor:
        """[n, E]: record rows of names, each encoded as an utterance of its words."""
        types, places = batches_of_names(names)
        table = self.encoder.feature_table(types)
        lengths = torch.tensor([len(each) for each in places])
        tokens = np.array([place for each in places for place in each], dtype=np.int32)
        batch = PackedBatch.unlabelled(table.collate(tokens, lengths.numpy()), lengths)
        return self.of_batch(batch).records


def join_states(states: Sequence[Tensor]) -> Tensor:
    """Layer states [n, D_k] -> [n, sum of D_k], each centred over its entries and of norm 1."""
    parts = []
    for state in states:
        centred = state.float() - state.float().mean(dim=1, keepdim=True)
        parts.append(F.normalize(centred, dim=1, eps=_TINY))
    return torch.cat(parts, dim=1)


def make_recipe(
    encoder: Encoder,
    layers: tuple[int, ...],
    moments: tuple[Moments, Moments],
    *,
    shrinkage: float = SHRINKAGE,
    components: int | None = None,
    neighbors: bool = False,
) -> Recipe:
    """The recipe of `layers`, whose moments are given. Scores of names were learnt on the default.

    Raises: ValueError as `whitening` does.
    """
    tokens, records = (
        whitening(each, shrinkage=shrinkage, components=components) for each in moments
    )
    return Recipe(encoder, layers, (tokens, records), neighbors)


def whitening(moments: Moments, *, shrinkage: float, components: int | None = None) -> Whitening:
    """(S + shrinkage * tr(S) / D * I)^(-1/2) of public moments, or its `components` largest
    principal directions of S.

    Raises: ValueError unless 1 <= components <= D and shrinkage > 0.
    """
    size = len(moments.mean)
    if not shrinkage > 0 or (components is not None and not 1 <= components <= size):
        raise ValueError(f"expected shrinkage > 0 and 1 <= components <= {size}")
    values, vectors = np.linalg.eigh(moments.covariance)
    values = np.clip(values, 0.0, None)
    scale = (values + shrinkage * values.sum() / size) ** -0.5
    if components is None:
        root = (vectors * scale) @ vectors.T
    else:
        root = (vectors * scale)[:, ::-1][:, :components]
    return Whitening(
        mean=torch.from_numpy(moments.mean.astype(np.float32)),
        root=torch.from_numpy(np.ascontiguousarray(root, dtype=np.float32)),
    )


def features(rows: Tensor, white: Whitening | None) -> Tensor:
    """Joined rows [n, D] -> [n, P] of norm 1, whitened where `white` is given."""
    if white is not None:
        rows = (rows - white.mean) @ white.root
    return F.normalize(rows, dim=1, eps=_TINY)


def with_neighbors(rows: Tensor, lengths: Tensor) -> Tensor:
    """[T, P] packed rows of records -> [T, 3 P]: each with those before and behind it, 0 beyond
    the record's ends, divided by the root of 3."""
    ends = torch.cumsum(lengths, 0)
    before, behind = rows.roll(1, 0), rows.roll(-1, 0)
    before[ends - lengths] = 0.0
    behind[ends - 1] = 0.0
    return torch.cat([rows, before, behind], dim=1).div(3**0.5)
