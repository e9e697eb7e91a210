"""Features of a linear head from the states of an encoder's layers, and what is public
in them.

Each layer's row is centred over its entries and scaled to norm 1. The chosen layers are
concatenated, public moments whiten the result, and the final row has norm 1: a fixed
function of one record and of public numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from trainables.data.batches import FeatureTable, PackedBatch

Doubles = NDArray[np.float64]
SHRINKAGE = (
    0.3  # of the public covariance by default, on which scores of names are learned
)
_TINY = 1e-12
_KINDS = ("tokens", "records")


class LayerStates(NamedTuple):
    """The states of each layer of an encoder for a batch, the lowest first: `tokens[k]`
    [T, D] and `records[k]` [B, D], means over a record's rows, in the batch's order.
    """

    tokens: tuple[Tensor, ...]
    records: tuple[Tensor, ...]


class Encoder(Protocol):
    """The part of a model that computes features."""

    def feature_table(self, types: Sequence[str]) -> FeatureTable:
        """The features of each distinct token."""

    def layer_states(self, batch: PackedBatch) -> LayerStates:
        """The states of every layer for a batch."""


def join_states(states: Sequence[Tensor]) -> Tensor:
    """Layer states [n, D] -> [n, layers * D], each centred over its entries and of norm
    1.
    """
    rows = torch.stack(tuple(states), 1).float()
    centred = rows - rows.mean(dim=2, keepdim=True)
    return F.normalize(centred, dim=2, eps=_TINY).flatten(1)


@dataclass(frozen=True, eq=False)
class Moments:
    """Mean [D] and covariance [D, D] of the joined rows of `layers`, over public
    rows.
    """

    mean: Doubles
    covariance: Doubles
    layers: tuple[int, ...]

    def of(self, layers: Sequence[int]) -> Moments:
        """The moments of the chosen layers alone, in that order."""
        columns = np.arange(len(self.mean)).reshape(len(self.layers), -1)
        where = columns[[self.layers.index(layer) for layer in layers]].ravel()
        return Moments(
            self.mean[where], self.covariance[np.ix_(where, where)], tuple(layers)
        )

    def whitening(self, shrinkage: float) -> tuple[Tensor, Tensor]:
        """The mean, and (S + shrinkage * tr(S) / D * I)^(-1/2)."""
        values, vectors = np.linalg.eigh(self.covariance)
        values = np.clip(values, 0.0, None)
        scale = (values + shrinkage * values.mean()) ** -0.5
        root = (vectors * scale) @ vectors.T
        return torch.from_numpy(self.mean).float(), torch.from_numpy(root).float()


BothMoments = tuple[Moments, Moments]  # of tokens, of records


def moments_of(batches: Iterable[LayerStates], layers: Sequence[int]) -> BothMoments:
    """Mean [D] and covariance [D, D] of the joined rows of `layers`, of tokens and of
    records apart, added up in float64 over all batches. The batches must be public:
    nothing here is noised. At least one batch with a token is needed.
    """
    sums: list[tuple[int, Doubles, Doubles]] = [(0, np.zeros(1), np.zeros(1))] * len(
        _KINDS
    )
    for states in batches:
        for place, (of_kind, (count, total, squares)) in enumerate(
            zip(states, sums, strict=True)
        ):
            rows = join_states([of_kind[k] for k in layers]).numpy().astype(np.float64)
            sums[place] = (
                count + len(rows),
                total + rows.sum(0),
                squares + rows.T @ rows,
            )
    tokens, records = (
        Moments(total / n, squares / n - np.outer(total / n, total / n), tuple(layers))
        for n, total, squares in sums
    )
    return tokens, records


def pack(moments: BothMoments) -> dict[str, Tensor]:
    """The covariance as the upper triangle of float16, in units of its largest entry.
    The rounding error is far below the ridge of whitening.
    """
    packed = {"layers": torch.tensor(moments[0].layers)}
    for kind, each in zip(_KINDS, moments, strict=True):
        upper = each.covariance[np.triu_indices(len(each.mean))]
        unit = float(np.abs(upper).max()) or 1.0
        packed |= {
            f"{kind}.mean": torch.from_numpy(each.mean.astype(np.float32)),
            f"{kind}.covariance": torch.from_numpy((upper / unit).astype(np.float16)),
            f"{kind}.unit": torch.tensor(unit, dtype=torch.float64),
        }
    return packed


def unpack(packed: dict[str, Tensor], layers: tuple[int, ...]) -> BothMoments:
    """The moments of `pack`; of `layers` where it does not say of which.

    Raises: KeyError, ValueError or IndexError for others.
    """
    layers = tuple(packed["layers"].tolist()) if "layers" in packed else layers
    found = []
    for kind in _KINDS:
        mean = packed[f"{kind}.mean"].double().numpy()
        if not layers or len(mean) % len(layers):
            raise ValueError("expected a mean of equally wide layers")
        upper = packed[f"{kind}.covariance"].double().numpy() * float(
            packed[f"{kind}.unit"]
        )
        covariance = np.zeros((len(mean), len(mean)))
        places = np.triu_indices(len(mean))
        covariance[places] = covariance.T[places] = upper
        found.append(Moments(mean, covariance, layers))
    tokens, records = found
    return tokens, records


class Recipe:
    """Features of norm 1 from the states of `layers` of an encoder: each layer's row
    centred and scaled to norm 1, joined, whitened by their public `moments` with
    `shrinkage` (relative to the mean variance), and scaled to norm 1. A row is a
    function of its own record and of public numbers.
    """

    def __init__(
        self,
        encoder: Encoder,
        layers: tuple[int, ...],
        moments: BothMoments,
        shrinkage: float = SHRINKAGE,
    ) -> None:
        self.encoder, self.layers = encoder, layers
        self.white = [each.of(layers).whitening(shrinkage) for each in moments]

    @torch.no_grad()
    def of_batch(self, batch: PackedBatch) -> tuple[Tensor, Tensor]:
        """Rows of tokens [T, D] and of records [B, D] of a batch of the encoder."""
        return self.of_states(self.encoder.layer_states(batch))

    def of_states(self, states: LayerStates) -> tuple[Tensor, Tensor]:
        """The rows from the encoder's states of a batch."""
        tokens, records = (
            F.normalize(
                (join_states([each[k] for k in self.layers]) - mean) @ root,
                dim=1,
                eps=_TINY,
            )
            for each, (mean, root) in zip(states, self.white, strict=True)
        )
        return tokens, records
