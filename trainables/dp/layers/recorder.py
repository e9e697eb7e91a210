"""The recorder: what layers record during one backward pass instead of weight
gradients.

While a recorder is active, a layer's backward returns only the gradient of its input
and records a `LayerRecord`: the activations and output gradients from which any
weighted sum of per-record weight gradients, and its per-unit norms, can be computed
afterwards (book-keeping, Bu et al. 2023). Without one the layers are ordinary autograd.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Protocol, Self, cast

import torch
from torch import Tensor, nn

from trainables.dp.layers.packing import Rows
from trainables.dp.layers.rounding import Size
from trainables.dp.layers.units import Units

Views = Mapping[
    nn.Parameter, Tensor
]  # where the gradient of each trainable parameter is added


class LayerRecord(Protocol):
    """The record of one use of a layer."""

    @property
    def parameters(self) -> tuple[nn.Parameter, ...]:
        """The trainable parameters whose gradient this entry determines."""

    def squared_norms(
        self, units: Units, weights: Mapping[nn.Parameter, float]
    ) -> Tensor:
        """float64[U]: sum over the parameters of weights[p] * |gradient of p by
        unit|^2.

        An upper bound for the float32 result of `add_gradient` with factor 1 (see
        `rounding`).
        """

    def size(self, units: Units, weights: Mapping[nn.Parameter, float]) -> Size:
        """Sum over a unit's rows of the norm of each row's gradient, in the same
        scale.
        """

    def add_gradient(
        self, units: Units | None, factors: Tensor | None, views: Views
    ) -> None:
        """Add sum over units of factors[u] * gradient into `views`; None: factor 1 for
        all.
        """

    def without(self, units: Units, dropped: Tensor) -> LayerRecord:
        """The same with zero rows for the units that are True in `dropped` [U]."""


@dataclass(eq=False)
class Recorder:
    """What layers record in one backward pass in place of weight gradients: a
    `LayerRecord` for each use of a layer, in the order of the pass (book-keeping, Bu et
    al. 2023). With `views`, gradients are added there at once and no entry is kept, for
    passes whose weights are known before. Activate one with `recording`.
    """

    views: Views | None = None
    entries: list[LayerRecord] = field(default_factory=list)

    def receive(self, entry: LayerRecord) -> None:
        """Called by a layer's backward. Tensors of the entry must be detached: an
        attached activation would form a reference cycle with this recorder.
        """
        if not entry.parameters:
            return
        if self.views is None:
            self.entries.append(entry)
        else:
            entry.add_gradient(None, None, self.views)


_ACTIVE: ContextVar[Recorder | None] = ContextVar("tape", default=None)
_IS_PLAIN: ContextVar[bool] = ContextVar("is_plain", default=False)


def current() -> Recorder | None:
    """The recorder that is active in this context, or None. A layer reads it in
    `forward` and hands it to its backward pass, which runs when the context may have
    ended and must use the same one. Without a recorder layers are ordinary autograd.
    """
    return _ACTIVE.get()


@contextmanager
def recording(tape: Recorder) -> Iterator[Recorder]:
    """Make `tape` the active recorder for the forward passes inside."""
    token = _ACTIVE.set(tape)
    try:
        yield tape
    finally:
        _ACTIVE.reset(token)


def is_plain() -> bool:
    """Whether layers with a backward pass of their own must leave it to autograd,
    because the caller is inside `plain`. A layer asks in `forward` and then computes
    the same outputs by torch's own operations; such passes are the reference that
    recorded ones are compared with.
    """
    return _IS_PLAIN.get()


@contextmanager
def plain() -> Iterator[None]:
    """A context of passes without a recorder and without a hand-written backward pass:
    the same losses by torch's own operations and libraries, in the type of the weights,
    float64 included. The float64 check of a clipped sum runs inside it, and so do tests
    of the layers.
    """
    tape, was = _ACTIVE.set(None), _IS_PLAIN.set(True)
    try:
        yield
    finally:
        _ACTIVE.reset(tape)
        _IS_PLAIN.reset(was)


def apply(
    function: type[torch.autograd.Function], *arguments: object, widen: bool = True
) -> Tensor:
    """`function.apply(*arguments)` with autocast off, so that an autograd function
    computes in float32 whatever `layers.precision` makes of other layers: bfloat16
    tensors are widened first. With `widen=False` they are passed as they are, for a
    function that takes rounded operands itself. Outside autocast nothing is changed.
    """
    device = next((x.device.type for x in arguments if isinstance(x, Tensor)), "cpu")
    if not torch.is_autocast_enabled(device):
        return cast(Tensor, function.apply(*arguments))  # type: ignore[no-untyped-call]  # torch's
    if widen:
        arguments = tuple(
            x.float() if isinstance(x, Tensor) and x.dtype == torch.bfloat16 else x
            for x in arguments
        )
    with torch.autocast(device, enabled=False):
        return cast(Tensor, function.apply(*arguments))  # type: ignore[no-untyped-call]  # torch's


def row_factors(
    units: Units | None, factors: Tensor | None, rows: Rows
) -> Tensor | None:
    """The factor of each row's unit, [n], for the n `rows` of an activation: `factors`
    [U] by the clipping unit of the row's record. None where all factors are 1, because
    there are no `units` or no factors, so that callers can skip a product.
    """
    if units is None or factors is None:
        return None
    return factors.index_select(0, units.of(rows).unit)


def scaled_pair(g: Tensor, x: Tensor, scale: Tensor | None) -> tuple[Tensor, Tensor]:
    """`g` and `x` with the rows of one of them, the narrower, multiplied by `scale`."""
    if scale is None:
        return g, x
    if g.shape[1] <= x.shape[1]:
        return g * scale.unsqueeze(1), x
    return g, x * scale.unsqueeze(1)


def column_sums(values: Tensor, scale: Tensor | None) -> Tensor:
    """The sum of the rows of `values` [n, D], each times its number of `scale` [n]
    where that is given: [D], in the type of `values`. It is the gradient of a bias from
    output gradients and row factors.
    """
    return values.sum(0) if scale is None else scale @ values


def clear_units(values: Tensor, units: Units, dropped: Tensor, rows: Rows) -> Tensor:
    """`values` [n, ...] with the rows of the units that are True in `dropped` bool[U]
    set to 0, NaN and infinity included, which a factor 0 would keep. `rows` says which
    record each row is of. A unit whose gradient is not finite is dropped by this before
    sums are formed.
    """
    gone = dropped.index_select(0, units.of(rows).unit)
    return values.masked_fill(gone.view(-1, *[1] * (values.dim() - 1)), 0.0)


class OfRows:
    """An entry whose rows are `g` and, in some, `x`. `KNOWN` are fields with what it
    found of them, None at first.
    """

    rows: Rows
    KNOWN: ClassVar[tuple[str, ...]] = ()

    @property
    def parameters(self) -> tuple[nn.Parameter, ...]:
        """Those that are trained, of the fields and of a field's layer."""
        own = [
            p
            for value in vars(self).values()
            for p in (value.parameters() if isinstance(value, nn.Module) else [value])
        ]
        return tuple(p for p in own if isinstance(p, nn.Parameter) and p.requires_grad)

    def without(self, units: Units, dropped: Tensor) -> Self:
        """Rows of the dropped units set to 0."""
        values = {n: values for n, values in vars(self).items() if n in ("x", "g")}
        cleared = {
            n: clear_units(v, units, dropped, self.rows) for n, v in values.items()
        }
        found: Self = replace(cast(Any, self), **cleared, **dict.fromkeys(self.KNOWN))
        return found


def gradients(entry: LayerRecord, tape: Recorder | None) -> dict[nn.Parameter, Tensor]:
    """The gradients of a layer's use by its trained parameters, for a backward pass to
    return: zeros to which the `entry` has added itself. Where a recorder (`tape`) is
    active it receives the entry instead, and nothing is returned, because clipped sums
    are formed from all entries afterwards.
    """
    if tape is not None:
        tape.receive(entry)
        return {}
    views = {p: torch.zeros_like(p) for p in entry.parameters}
    entry.add_gradient(None, None, views)
    return views
