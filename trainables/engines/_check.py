"""The clipped sum of a step recomputed by its definition, while a trial runs.

Books of layers, C code and `torch.func` are accelerators. Their sum over some records of a batch is
compared with that of plain autograd in float64: the gradient of each unit alone, in a pass of its
own, so that an error of a book, of a norm or of the records' separation is seen before anything of
the step is released.

Compared are up to 16 random records of the first step, and 4 of a random step in each epoch (fewer
of more than 3 million trained weights, at least 8 and 2): the gradient of one record in float64
costs a quarter of a step of the CLC. The weights and a gradient are held once more, in float64.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call

from trainables.guarantee.clipping import clip_factor
from trainables.guarantee.population import Ids
from trainables.guarantee.sampling import Draw
from trainables.layers.tape import plain

TOLERANCE = 1e-4  # of C: the rounding that the promise of a released norm allows
_FEWEST, _MOST = 2, 4  # records an epoch
_NUMBERS = 12_000_000  # of their gradients together
AT_FIRST = 4  # times as many


class Schedule:
    """When a process compares, and which records: by coins of their own, which no other random
    number depends on. `coins` are those of an epoch, `steps_in` the number of its steps, `size`
    the number of trained weights.
    """

    def __init__(
        self,
        coins: Callable[[int], np.random.Generator],
        steps_in: Callable[[int], int],
        *,
        size: int,
    ) -> None:
        self._coins, self._steps_in = coins, steps_in
        self._most = min(max(_NUMBERS // size, _FEWEST), _MOST)
        self._is_first = True
        self._epoch, self._due = -1, math.inf
        self._now = np.random.default_rng(0)

    def part_of(self, draw: Draw, epoch: int, step: int) -> Draw | None:
        """The records of a step to compare; None: none. An empty step leaves it to the next one."""
        if epoch != self._epoch:
            self._epoch, self._now = epoch, self._coins(epoch)
            self._due = int(self._now.integers(self._steps_in(epoch)))
        is_first = self._is_first and epoch == 0  # of the trial, whether it was resumed or not
        if not len(draw.records) or not (is_first or step >= self._due):
            return None
        if step >= self._due:
            self._due = math.inf
        self._is_first = False
        return some_of(draw, self._most * (AT_FIRST if is_first else 1), self._now)


def some_of(draw: Draw, most: int, coins: np.random.Generator) -> Draw:
    """At most `most` random records of `draw`, of as few units as hold them."""
    place = coins.permutation(draw.num_units)[draw.unit]
    chosen = np.sort(np.lexsort((coins.random(len(place)), place))[:most])
    units, unit, sizes = np.unique(draw.unit[chosen], return_inverse=True, return_counts=True)
    return replace(
        draw, records=draw.records[chosen], unit=unit, sizes=sizes, worker=draw.worker[units]
    )


def difference(
    model: nn.Module,
    batch_of: Callable[[Ids], Any],
    draw: Draw,
    *,
    clipped: Tensor,
    norms: Tensor,
    max_grad_norm: float,
    group_scale: Tensor,
) -> float:
    """How far `clipped` [D], a clipped sum of the units of `draw` with reported `norms` [U], is
    from its definition, in units of C and in scaled space; infinite where it is not finite.

    The larger of two: the distance from the sum of the units' gradients times the factors
    min(1, C / norm), and how much longer than C a unit's gradient times its factor is. A norm
    reported too large clips further, which costs no privacy and is no difference.

    A maximum of numbers that are equal but for rounding has a gradient for each, and foreign code
    may name float32. So where float64 differs or fails, plain autograd in float32 decides.
    """
    found = math.inf
    for dtype in (torch.float64, torch.float32):
        try:
            found = _difference(
                _Losses(model), batch_of, draw, clipped, norms, max_grad_norm, group_scale, dtype
            )
        except RuntimeError:
            if dtype == torch.float32:
                raise
        if found <= TOLERANCE:
            break
    return found


class _Losses(nn.Module):
    """A model whose call is its losses, as `functional_call` wants it."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, batch: Any) -> Tensor:
        losses: Tensor = self.model.losses(batch)  # type: ignore[operator]  # see LossModel
        return losses


def _difference(
    model: _Losses,
    batch_of: Callable[[Ids], Any],
    draw: Draw,
    clipped: Tensor,
    norms: Tensor,
    max_grad_norm: float,
    group_scale: Tensor,
    dtype: torch.dtype,
) -> float:
    """See `difference`; weights, buffers and features are of `dtype`."""
    values = {
        name: value.detach().to(dtype) if value.is_floating_point() else value
        for named in (model.named_buffers(), model.named_parameters())
        for name, value in named
    }
    trained = [
        values[name].requires_grad_() for name, p in model.named_parameters() if p.requires_grad
    ]
    left = clipped.to(torch.float64, copy=True)
    places = torch.split(left, [p.numel() for p in trained])
    scales = group_scale.tolist()
    longest = 0.0
    for unit, factor in enumerate(clip_factor(norms, max_grad_norm).tolist()):
        if factor == 0.0:  # a unit that is not finite adds nothing
            continue
        mine = draw.unit == unit
        batch = _of_type(batch_of(draw.records[mine]), dtype)
        with plain():
            losses = functional_call(model, values, (batch,))
        weighted = losses @ torch.from_numpy(draw.weights[mine]).to(losses)
        grads = torch.autograd.grad(weighted, trained, allow_unused=True)
        squares = 0.0
        for place, grad, scale in zip(places, grads, scales, strict=True):
            if grad is not None:
                dense = (grad.to_dense() if grad.is_sparse else grad).flatten()
                norm = torch.linalg.vector_norm(dense, dtype=torch.float64)
                squares += (float(norm) / scale) ** 2
                place.sub_(dense, alpha=factor)
        longest = max(longest, factor * math.sqrt(squares))
    squares = sum((float(x.norm()) / scale) ** 2 for x, scale in zip(places, scales, strict=True))
    found = max(math.sqrt(squares), longest - max_grad_norm) / max_grad_norm
    return found if math.isfinite(found) else math.inf


def _of_type(value: Any, dtype: torch.dtype) -> Any:
    """A batch with its features in `dtype`."""
    if isinstance(value, Tensor):
        return value.to(dtype) if value.is_floating_point() else value
    if isinstance(value, dict):
        return {name: _of_type(each, dtype) for name, each in value.items()}
    return replace(
        value, **{f.name: _of_type(getattr(value, f.name), dtype) for f in fields(value)}
    )
