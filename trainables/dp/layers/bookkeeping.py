"""Clipped sums of per-unit gradients from one forward and one backward pass, exactly.

Book-keeping (Bu et al. 2023): the backward pass leaves activations and output gradients
in a recorder, per-unit norms follow from them without per-unit gradients (Goodfellow
2015; Li et al. 2021), and the clipped sum is one more matrix product a layer, written
straight into the flat gradient buffer. No model-sized tensor exists once per record.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from trainables.dp.clipping import clip_factor
from trainables.dp.layers.char_cnn import CharCnn
from trainables.dp.layers.crf.layer import LinearChainCrf
from trainables.dp.layers.embedding import Embedding
from trainables.dp.layers.factored import FactoredLinear
from trainables.dp.layers.layer_norm import LayerNorm
from trainables.dp.layers.linear import Linear
from trainables.dp.layers.lstm import BiLstm
from trainables.dp.layers.recorder import LayerRecord, Recorder, Views, recording
from trainables.dp.layers.tied_table import combine
from trainables.dp.layers.units import Units
from trainables.errors import InvalidInput

TAPED = (Linear, FactoredLinear, Embedding, LayerNorm, BiLstm, CharCnn, LinearChainCrf)


class LossModel(Protocol):
    """A module whose `losses(batch)` is one loss a record, [B]."""

    def losses(self, batch: Any) -> Tensor:
        """[B]."""

    def named_parameters(self) -> Iterator[tuple[str, nn.Parameter]]:
        """As any module's."""

    def named_modules(self) -> Iterator[tuple[str, nn.Module]]:
        """As any module's."""


def unsupported_modules(model: LossModel) -> tuple[str, ...]:
    """Names of the modules with direct trainable parameters that do not support
    book-keeping.

    >>> class Net(nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.conv, self.out = nn.Conv1d(2, 2, 1), Linear(2, 2)
    >>> unsupported_modules(Net())
    ('conv (Conv1d)',)
    """
    return tuple(
        f"{name or 'the model itself'} ({type(module).__name__})"
        for name, module in model.named_modules()
        if not isinstance(module, TAPED)
        and any(p.requires_grad for p in module.parameters(recurse=False))
    )


def clipped_sum(
    model: LossModel,
    batch: Any,
    *,
    unit_of_record: Tensor,
    num_units: int,
    weight_of_record: Tensor,
    max_grad_norm: float,
    group_scale: Tensor,
    out: Tensor,
) -> Tensor:
    """Add the sum over units of their clipped gradients to `out`; return the norms [U].

    Unit u's gradient is g_u = sum over its records i of weight_of_record[i] * grad
    loss_i. Its norm is that of g_u with each parameter tensor k divided by
    group_scale[k]; the factor min(1, C / norm) multiplies g_u itself. `group_scale` [K]
    and the flat `out` [P] follow the trainable `model.named_parameters()`. A unit
    without records has norm 0. A unit whose norm is not finite adds nothing, and its
    norm is returned as it is.

    Formal guarantee: the contribution of one unit to `out`, divided by `group_scale`,
    has norm at most `max_grad_norm` * (1 + 1e-4), also where its rows nearly cancel.
    The norms returned are upper bounds that include the rounding of float32 (see
    `rounding`), on records of text about 3e-5 of the norm.

    `unit_of_record` and `group_scale` are read here; tensors on the CPU avoid waiting
    for a device.

    Raises: InvalidInput naming a layer without book-keeping, a parameter that is used
    outside its layer, or a record whose unit does not exist.
    """
    if not max_grad_norm > 0:
        raise InvalidInput(f"expected max_grad_norm > 0, got {max_grad_norm}")
    views = flat_views(model, out)
    if group_scale.numel() != len(views) or not bool((group_scale > 0).all()):
        raise InvalidInput(
            f"expected group_scale to be {len(views)} positive numbers, got"
            f" {group_scale.numel()}"
        )
    if unit_of_record.numel() and not (
        int(unit_of_record.min()) >= 0 and int(unit_of_record.max()) < num_units
    ):
        raise InvalidInput(f"expected unit_of_record in 0..{num_units - 1}")
    tape = Recorder()
    _run(model, batch, weight_of_record, tape, views)
    units = Units(unit_of_record, num_units, device=out.device)
    inverse = (1 / group_scale.double().square()).tolist()
    weights = dict(zip(views, inverse, strict=True))
    return add_clipped(tape.entries, units, weights, views, max_grad_norm=max_grad_norm)


@torch.no_grad()
def add_clipped(
    recorded: Sequence[LayerRecord],
    units: Units,
    weights: Mapping[nn.Parameter, float],
    views: Views,
    *,
    max_grad_norm: float,
) -> Tensor:
    """`clipped_sum` from the entries of the backward pass: the norms [U].

    `weights` holds 1 / alpha^2 of each parameter.
    """
    entries = combine(recorded)
    squares = torch.zeros(units.num_units, dtype=torch.float64, device=units.device)
    for entry in entries:
        squares += entry.squared_norms(units, weights)
    # Values beyond float32 count as not finite.
    norms = squares.sqrt().to(next(iter(views.values())).dtype)
    factors = clip_factor(norms, max_grad_norm)
    finite = norms.isfinite()
    # The only value of a step that is read from the device. Always clearing every entry
    # would launch more kernels than this wait costs.
    if not bool(finite.all()):
        entries = [entry.without(units, ~finite) for entry in entries]
    while entries:  # an entry's tensors are freed once they are used
        entries.pop().add_gradient(units, factors, views)
    return norms


def gradient(
    model: LossModel, batch: Any, weight_of_record: Tensor, out: Tensor
) -> None:
    """Add sum over records i of weight_of_record[i] * grad loss_i to the flat `out`
    [P].

    The plain gradient by the same layers, each weight's product written once, into
    `out`.

    Raises: InvalidInput as `clipped_sum` does.
    """
    views = flat_views(model, out)
    _run(model, batch, weight_of_record, Recorder(views), views)


def flat_views(model: LossModel, out: Tensor) -> Views:
    """Each trained parameter's place in the flat `out`, in order.

    Raises: InvalidInput where `out` is not a contiguous vector of their total size.
    """
    parameters = [p for _, p in model.named_parameters() if p.requires_grad]
    total = sum(p.numel() for p in parameters)
    if out.shape != (total,) or not out.is_contiguous():
        raise InvalidInput(
            f"expected out to be a flat vector of {total}, got {tuple(out.shape)}"
        )
    pieces = torch.split(out, [p.numel() for p in parameters])
    return {p: piece.view_as(p) for p, piece in zip(parameters, pieces, strict=True)}


def _run(
    model: LossModel, batch: Any, weights: Tensor, tape: Recorder, parameters: Views
) -> None:
    """One forward and backward pass under the recorder `tape`."""
    unknown = unsupported_modules(model)
    if unknown:
        raise InvalidInput(f"no book-keeping for {', '.join(unknown)}")
    with _no_gradients_of_their_own(model, parameters), recording(tape):
        losses = model.losses(batch)
        if losses.shape != weights.shape:
            raise InvalidInput(
                f"expected one loss a record, {tuple(weights.shape)}, got"
                f" {tuple(losses.shape)}"
            )
        torch.autograd.backward(losses, weights)


@contextmanager
def _no_gradients_of_their_own(model: LossModel, parameters: Views) -> Iterator[None]:
    """Refuse a parameter that also reached the loss past its layer: autograd would fill
    `.grad`.
    """
    before = [p.grad for p in parameters]
    for parameter in parameters:
        parameter.grad = None
    try:
        yield
        leaked = [
            name
            for name, p in model.named_parameters()
            if p.requires_grad and p.grad is not None
        ]
    finally:
        for parameter, own in zip(parameters, before, strict=True):
            parameter.grad = own
    if leaked:
        raise InvalidInput(
            f"no book-keeping for {', '.join(leaked)}: used outside its layer"
        )
