"""The clipped sum of a step recomputed by its definition, while a trial runs.

Books of layers, C code and `torch.func` are accelerators. Their sum over some records
of a batch is compared with that of plain autograd in float64: the gradient of a unit
alone, in a pass of its own, so that an error of a book, of a norm or of the records'
separation is seen before anything of the step is released. Some of these units also
pass alone through the fast code, and must have the same part of the sum there as beside
others: a bound that read the other units of a batch would clip each by itself
correctly, and still let one record move all of them.

Compared are the first physical batch (16 random records of it in bfloat16, 128 of a
larger one, whose float32 sum alone may round by more than the tolerance), of which the
units of 16 random records are formed alone and the others as one sum, with the factors
of their norms; and 4 records, each alone, of a random step in each epoch. Of more than
3 million trained weights fewer are formed alone, at least 8 and 2: the gradient of one
record in float64 costs a quarter of a step of the CLC. The weights and two gradients
are held once more, in float64.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call

from trainables.dp.clipping import clip_factor
from trainables.dp.layers.recorder import plain
from trainables.dp.population import Ids
from trainables.dp.sampling import SampledBatch

TOLERANCE = 1e-4  # of C: the rounding that the promise of a released norm allows
_FEWEST, _MOST = 2, 4  # records an epoch
_NUMBERS = 12_000_000  # of their gradients together
AT_FIRST = 4  # times as many
MOST_AT_FIRST = 128  # records of the first physical batch
_AT_ONCE = 16  # records of a pass in float64
_EVERY = 4  # one in so many of the units that are formed alone also passes alone
_NONE: Ids = np.zeros(0, dtype=np.int64)


class Schedule:
    """When a process compares, and which records: by random numbers of their own, which
    no other one depends on. `coins` is the generator of an epoch, `steps_in` the number
    of its steps, `size` the number of trained weights, `whole` the most records that
    are compared at first.
    """

    def __init__(
        self,
        coins: Callable[[int], np.random.Generator],
        steps_in: Callable[[int], int],
        *,
        size: int,
        whole: int,
    ) -> None:
        self._coins, self._steps_in, self._whole = coins, steps_in, whole
        self._most = min(max(_NUMBERS // size, _FEWEST), _MOST)
        self._is_first = True
        self._epoch, self._due = -1, math.inf
        self._now = np.random.default_rng(0)

    def part_of(
        self, draw: SampledBatch, epoch: int, step: int, *, also: Ids = _NONE
    ) -> tuple[SampledBatch, Ids] | None:
        """The records of a step to compare, and which of their units are formed alone;
        None: none. An empty step leaves it to the next one. `also` are places in `draw`
        to compare beside them.
        """
        if epoch != self._epoch:
            self._epoch, self._now = epoch, self._coins(epoch)
            self._due = int(self._now.integers(self._steps_in(epoch)))
        is_first = (
            self._is_first and epoch == 0
        )  # of the trial, whether it was resumed or not
        if not len(draw.records) or not (is_first or step >= self._due):
            return None
        if step >= self._due:
            self._due = math.inf
        self._is_first = False
        most = self._most * (AT_FIRST if is_first else 1)
        part = some_of(
            draw, max(most, self._whole) if is_first else most, self._now, also=also
        )
        order = self._now.permutation(part.num_units)
        sizes = part.sizes[order]
        return part, order[np.cumsum(sizes) - sizes < most]


def some_of(
    draw: SampledBatch, most: int, coins: np.random.Generator, *, also: Ids = _NONE
) -> SampledBatch:
    """At most `most` random records of `draw`, of as few units as hold them, and those
    `also`.
    """
    place = coins.permutation(draw.num_units)[draw.unit]
    return taken(
        draw, np.union1d(np.lexsort((coins.random(len(place)), place))[:most], also)
    )


def taken(draw: SampledBatch, chosen: Ids) -> SampledBatch:
    """The records at the places `chosen` of `draw`, which rise, as a draw of their
    units.
    """
    units, unit, sizes = np.unique(
        draw.unit[chosen], return_inverse=True, return_counts=True
    )
    return replace(
        draw,
        records=draw.records[chosen],
        unit=unit,
        sizes=sizes,
        worker=draw.worker[units],
    )


def difference(
    model: nn.Module,
    batch_of: Callable[[Ids], Any],
    draw: SampledBatch,
    alone: Ids,
    *,
    clipped: Tensor,
    norms: Tensor,
    max_grad_norm: float,
    group_scale: Tensor,
    by_itself: Callable[[int], Tensor] | None = None,
) -> float:
    """How far `clipped` [D], a clipped sum of the units of `draw` with reported `norms`
    [U], is from its definition, in units of C and in scaled space; infinite where it is
    not finite.

    The largest of three: the distance from the sum of the units' gradients times the
    factors min(1, C / norm); how much longer than C the gradient of a unit of `alone`
    times its factor is; and how far that product is from `by_itself(unit)` [D], the
    clipped gradient of the same unit without the others. A norm reported too large
    clips further, which costs no privacy and is no difference, where it is as large
    without the others.

    A maximum of numbers that are equal but for rounding has a gradient for each, and
    foreign code may name float32. So where float64 differs or fails, plain autograd in
    float32 decides.
    """
    found = math.inf
    factors = clip_factor(norms, max_grad_norm).to("cpu", torch.float64)
    for dtype in (torch.float64, torch.float32):
        try:
            gradient_of = _Gradients(model, batch_of, dtype)
            found = _difference(
                gradient_of,
                draw,
                alone,
                clipped,
                factors,
                max_grad_norm,
                group_scale,
                by_itself,
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


class _Gradients:
    """Gradients of weighted sums of losses by plain autograd: weights, buffers and
    features are of `dtype`.
    """

    def __init__(
        self, model: nn.Module, batch_of: Callable[[Ids], Any], dtype: torch.dtype
    ) -> None:
        self._model, self._batch_of, self._dtype = _Losses(model), batch_of, dtype
        self._values = {
            name: value.detach().to(dtype) if value.is_floating_point() else value
            for named in (self._model.named_buffers(), self._model.named_parameters())
            for name, value in named
        }
        self.trained = [
            self._values[name].requires_grad_()
            for name, p in self._model.named_parameters()
            if p.requires_grad
        ]

    def __call__(self, records: Ids, weights: Tensor) -> list[Tensor]:
        """float64, flat, by parameter."""
        sums = [
            torch.zeros(p.numel(), dtype=torch.float64, device=p.device)
            for p in self.trained
        ]
        for start in range(0, len(records), _AT_ONCE):
            some = slice(start, start + _AT_ONCE)
            batch = _of_type(self._batch_of(records[some]), self._dtype)
            with plain():
                losses = functional_call(self._model, self._values, (batch,))
            weighted = losses @ weights[some].to(losses)
            grads = torch.autograd.grad(weighted, self.trained, allow_unused=True)
            for total, grad in zip(sums, grads, strict=True):
                if grad is not None:
                    total += grad.to_dense().flatten()
        return sums


def _difference(
    gradient_of: _Gradients,
    draw: SampledBatch,
    alone: Ids,
    clipped: Tensor,
    factors: Tensor,
    max_grad_norm: float,
    group_scale: Tensor,
    by_itself: Callable[[int], Tensor] | None,
) -> float:
    """See `difference`."""
    left = clipped.to(torch.float64, copy=True)
    sizes = [p.numel() for p in gradient_of.trained]
    places = torch.split(left, sizes)
    scales = group_scale.tolist()

    def norm_of(gradient: Sequence[Tensor]) -> float:
        each = zip(gradient, scales, strict=True)
        return math.sqrt(sum((float(part.norm()) / scale) ** 2 for part, scale in each))

    longest, moved, weights = 0.0, 0.0, torch.from_numpy(draw.weights)
    # A unit that is not finite adds nothing.
    rest = factors[draw.unit].numpy() > 0
    for number, unit in enumerate(alone):
        mine = draw.unit == unit
        if factors[unit] > 0:
            gradient = gradient_of(draw.records[mine], weights[mine])
            longest = max(longest, float(factors[unit]) * norm_of(gradient))
            for place, part in zip(places, gradient, strict=True):
                place.sub_(part, alpha=float(factors[unit]))
            if by_itself is not None and number % _EVERY == 0:
                own = torch.split(by_itself(int(unit)).double(), sizes)
                for one, part in zip(own, gradient, strict=True):
                    one.sub_(part, alpha=float(factors[unit]))
                apart = norm_of(own)
                moved = max(moved, apart) if math.isfinite(apart) else math.inf
        rest &= ~mine
    others = gradient_of(draw.records[rest], (weights * factors[draw.unit])[rest])
    for place, part in zip(places, others, strict=True):
        place.sub_(part)
    found = max(norm_of(places), longest - max_grad_norm, moved) / max_grad_norm
    return found if math.isfinite(found) else math.inf


def _of_type(value: Any, dtype: torch.dtype) -> Any:
    """A batch with its features in `dtype`."""
    if isinstance(value, Tensor):
        return value.to(dtype) if value.is_floating_point() else value
    if isinstance(value, dict):
        return {name: _of_type(each, dtype) for name, each in value.items()}
    return replace(
        value,
        **{f.name: _of_type(getattr(value, f.name), dtype) for f in fields(value)},
    )
