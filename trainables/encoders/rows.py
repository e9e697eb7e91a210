"""From the states of an encoder's layers to the features of a linear head.

Each layer's row is centred over its entries and scaled to norm 1. The chosen layers are
concatenated and divided by the root of their number. Public statistics whiten the result,
neighbours are appended, and the final row has norm 1. Features are a fixed function of one record
and of public numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

Doubles = NDArray[np.float64]
_TINY = 1e-12


@dataclass(frozen=True, eq=False)
class LayerStates:
    """The states of each layer of an encoder for a batch, the lowest first.

    `tokens[k]` [T, D_k], rows in the batch's order; `records[k]` [B, E_k], a mean over the record's
    rows.
    """

    tokens: tuple[Tensor, ...]
    records: tuple[Tensor, ...]


@dataclass(frozen=True, eq=False)
class Moments:
    """Mean [D] and covariance [D, D] of joined rows of all layers, from `count` public rows.

    `widths` are those of the layers, their sum is D.
    """

    mean: Doubles
    covariance: Doubles
    widths: tuple[int, ...]
    count: int

    def of(self, layers: Sequence[int]) -> Moments:
        """The moments of the chosen layers alone, in that order."""
        ends = np.cumsum(self.widths)
        where = np.concatenate([np.arange(ends[k] - self.widths[k], ends[k]) for k in layers])
        return Moments(
            mean=self.mean[where],
            covariance=self.covariance[np.ix_(where, where)],
            widths=tuple(self.widths[k] for k in layers),
            count=self.count,
        )


@dataclass(frozen=True, eq=False)
class Whitening:
    """x -> (x - mean) @ root; `root` [D, P] is symmetric or, with fewer columns, a projection."""

    mean: Tensor
    root: Tensor


def join_states(states: Sequence[Tensor]) -> Tensor:
    """Layer states [n, D_k] -> [n, sum of D_k], each centred over its entries and of norm 1."""
    parts = []
    for state in states:
        centred = state.float() - state.float().mean(dim=1, keepdim=True)
        parts.append(F.normalize(centred, dim=1, eps=_TINY))
    return torch.cat(parts, dim=1)


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
    count = rows.shape[0]
    ends = torch.cumsum(lengths, 0)
    is_first = torch.zeros(count, dtype=torch.bool)
    is_first[ends - lengths] = True
    is_last = torch.zeros(count, dtype=torch.bool)
    is_last[ends - 1] = True
    before = rows.roll(1, 0).masked_fill(is_first.unsqueeze(1), 0.0)
    behind = rows.roll(-1, 0).masked_fill(is_last.unsqueeze(1), 0.0)
    return torch.cat([rows, before, behind], dim=1).div(3**0.5)


class MomentSums:
    """Adds up joined rows [n, D] in float64; `moments` gives their mean and covariance."""

    def __init__(self) -> None:
        self._count = 0
        self._sum: Doubles | None = None
        self._squares: Doubles | None = None
        self._widths: tuple[int, ...] = ()

    def add(self, states: Sequence[Tensor]) -> None:
        """The states of all layers of one batch."""
        rows = join_states(states).numpy().astype(np.float64)
        squares = rows.T @ rows
        if self._sum is None or self._squares is None:
            self._sum, self._squares = rows.sum(0), squares
            self._widths = tuple(state.shape[1] for state in states)
        else:
            self._sum += rows.sum(0)
            self._squares += squares
        self._count += len(rows)

    def moments(self) -> Moments:
        """Raises: ValueError where nothing was added."""
        if self._sum is None or self._squares is None:
            raise ValueError("expected at least one row")
        mean = self._sum / self._count
        covariance = self._squares / self._count - np.outer(mean, mean)
        return Moments(mean, covariance, self._widths, self._count)
