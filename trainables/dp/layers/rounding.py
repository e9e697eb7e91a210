"""Bounds on the float32 rounding of a unit's gradient, which make its norm an upper
bound.

A unit's gradient is a sum over its rows. Where the rows nearly cancel, a norm found
from Grams, and the sum itself, are differences of large numbers. Both errors are
proportional to the *size* of the unit, R = sum over rows of the norm of the row's own
gradient (Higham 2002, section 3.1: a sum of n terms in any order is off by at most n u
/ (1 - n u) times the sum of their absolute values):

- of a squared norm S computed from Grams, at most e R^2, e the rounding of the Grams'
  entries;
- of the norm of a sum of n rows, when computed and when released, at most n u R each.

The released gradient of a unit with factor f has norm at most f (sqrt(S + e R^2) + 2 n
u R), and f is chosen from that bound. On records whose rows do not cancel, R is a few
norms and the bound is about 1e-5 above the norm. A unit whose rows cancel to less than
a `MOST_CANCELLED`th of R is clipped further, so that its rows' rounding is not visible
in the sum with other units either.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

# A little above the unit roundoff 2^-24, for the terms of higher order.
FLOAT32 = 6e-8
MOST_CANCELLED = 1024.0
_OF_ITS_OWN = 16  # roundings of a row's gradient that are not sums: scaling, type, root


class Size(NamedTuple):
    """What bounds the rounding of each unit's gradient.

    `total` float64[U]: R of each unit. `terms` int64[U]: most roundings that one number
    of that unit's gradient meets. Both are functions of the unit alone: a number of the
    whole batch, such as its longest unit, would let one record move the factors of all
    others.
    """

    total: Tensor
    terms: Tensor

    @property
    def rounding(self) -> Tensor:
        """float64[U]: bound of the float32 rounding in the norm of the released
        gradient.
        """
        # Once for the sum whose norm is taken, once for the sum that is released.
        return 2 * FLOAT32 * self.total * (self.terms + _OF_ITS_OWN)


def joint_size(sizes: Sequence[Size]) -> Size:
    """Of gradients that are added up."""
    total = torch.stack([size.total for size in sizes]).sum(0)
    return Size(total, torch.stack([size.terms for size in sizes]).sum(0))


def upper_bound(
    squares: Tensor, size: Size, *, relative: Tensor | float = 0.0
) -> Tensor:
    """float64[U]: upper bound of the squared norm of each unit's released gradient,
    unclipped.

    `squares` [U] as computed, off by at most `relative` * R^2, a number or one for each
    unit; negative where all cancels.
    """
    exact = (squares + relative * size.total.square()).clamp_min(0).sqrt()
    bound = exact + size.rounding
    return torch.maximum(bound, size.total / MOST_CANCELLED).square()


def row_norms(rows: Tensor) -> Tensor:
    """The L2 norm of each of the `rows` [n, ...] over all its further dimensions:
    float64[n], accumulated in float64 whatever the type of the rows, so that squares of
    small float32 numbers do not vanish. An empty row has norm 0.
    """
    norms: Tensor = torch.linalg.vector_norm(
        rows.flatten(1), dim=1, dtype=torch.float64
    )
    return norms


def upper_row_norms(rows: Tensor) -> Tensor:
    """float64[n]: at least the norms of `rows` [n, I], in one pass of float32."""
    norms = torch.linalg.vector_norm(rows, dim=1).double()
    # Squares are rounded once and added in some order; below 1e-19 they vanish.
    upper: Tensor = norms * (1 + FLOAT32 * (rows.shape[1] + 2)) + 1e-19 * math.sqrt(
        rows.shape[1]
    )
    return upper


def sums_of(rows: Tensor, unit: Tensor, num_units: int) -> Tensor:
    """The sum of the `rows` [n, D] of each unit, [num_units, D], in the type of the
    rows; `unit` int64[n] says whose each row is. A unit without rows has zeros. Added
    in the order of the rows, which decides the last bits.
    """
    return rows.new_zeros(num_units, rows.shape[1]).index_add_(0, unit, rows)


def sum_of_norms(rows: Tensor, unit: Tensor, num_units: int) -> Tensor:
    """The sum of the L2 norms of each unit's `rows` [n, ...]: float64[num_units], with
    `unit` int64[n] whose each row is. It bounds the norm of the unit's sum from above,
    whatever cancels, and is the R from which bounds of rounding are formed; 0 for a
    unit without rows.
    """
    norms = row_norms(rows)
    return norms.new_zeros(num_units).index_add_(0, unit, norms)
