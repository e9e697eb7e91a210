"""From an encoder's states to features: the chosen layers, whitened by public moments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from trainables.data.batches import FeatureTable, PackedBatch
from trainables.encoders.names import batches_of_names
from trainables.encoders.rows import (
    LayerStates,
    Moments,
    Whitening,
    features,
    join_states,
    whitening,
    with_neighbors,
)

SHRINKAGE = 0.3  # default shrinkage of the public covariance


class Encoder(Protocol):
    """The part of a model that computes features."""

    def feature_table(self, types: Sequence[str]) -> FeatureTable:
        """The features of each distinct token."""

    def layer_states(self, batch: PackedBatch) -> LayerStates:
        """The states of every layer for a batch."""


@dataclass(frozen=True, eq=False)
class RowsOf:
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
        tokens = features(join_states([states.tokens[k] for k in self.layers]), self.white[0])
        if self.neighbors:
            tokens = with_neighbors(tokens, batch.lengths)
        records = features(join_states([states.records[k] for k in self.layers]), self.white[1])
        return RowsOf(tokens, records)

    def of_names(self, names: Sequence[str]) -> Tensor:
        """[n, E]: record rows of names, each encoded as an utterance of its words."""
        types, places = batches_of_names(names)
        table = self.encoder.feature_table(types)
        lengths = torch.tensor([len(each) for each in places])
        tokens = np.array([place for each in places for place in each], dtype=np.int32)
        batch = PackedBatch.unlabelled(table.collate(tokens, lengths.numpy()), lengths)
        return self.of_batch(batch).records


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

    Raises: ValueError as `rows.whitening` does.
    """
    tokens, records = (
        whitening(each, shrinkage=shrinkage, components=components) for each in moments
    )
    return Recipe(encoder, layers, (tokens, records), neighbors)
