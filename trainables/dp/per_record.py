"""Clipped sums of per-record gradients of any module, by `torch.func`: the definition
of a step, in float64 where the model, its inputs and `out` are.

It is also the step of models whose layers do not support book-keeping. Each record's
whole gradient is formed (functional_call, grad and vmap), so memory is a model's size
times the records of a pass, and a step is slower than with book-keeping. Gradients of
records are independent of each other.
"""

from collections.abc import Iterator
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad_and_value, vmap

from trainables.dp.clipping import clip_factor

_BYTES_AT_ONCE = 1 << 28  # of the gradients of a pass
Places = Tensor  # int64[n]: records of a batch


@runtime_checkable
class ByRecord(Protocol):
    """A model that can be split into records for `torch.func`: its `forward(*inputs)`
    is one loss a record, [n] in nats, for the inputs that `record_groups` gives, and
    record i's loss must read only the i-th part of each input. Used for models of own
    code, whose layers keep no books.
    """

    def record_groups(self, batch: Any) -> Iterator[tuple[Places, tuple[Tensor, ...]]]:
        """Every record of the batch once."""


def gradients(
    model: nn.Module, inputs: tuple[Tensor, ...]
) -> tuple[dict[str, Tensor], Tensor]:
    """The gradient of each record by parameter, [n, ...], and the losses [n], detached.

    Raises: RuntimeError for operations that `vmap` does not support.
    """
    trained = {
        name: p.detach() for name, p in model.named_parameters() if p.requires_grad
    }

    def loss_of(parameters: dict[str, Tensor], *one: Tensor) -> Tensor:
        losses: Tensor = functional_call(
            model, parameters, tuple(x.unsqueeze(0) for x in one)
        )
        return losses.squeeze(0)

    # Dropout is drawn independently for each record.
    by_record = vmap(
        grad_and_value(loss_of),
        in_dims=(None, *(0 for _ in inputs)),
        randomness="different",
    )
    found, losses = by_record(trained, *inputs)
    return found, losses.detach()


def clipped_sum(
    model: nn.Module,
    batch: Any,
    *,
    weight_of_record: Tensor,
    max_grad_norm: float,
    group_scale: Tensor,
    out: Tensor,
) -> tuple[Tensor, Tensor]:
    """Add the sum over records of their clipped gradients to `out`: (norms [B], losses
    [B]).

    As `bookkeeping.clipped_sum` with a unit for each record. Norms are summed in
    float64; a record whose norm is not finite adds nothing, and its norm is returned as
    it is.
    """
    assert isinstance(model, ByRecord)
    parameters = {name: p for name, p in model.named_parameters() if p.requires_grad}
    places = torch.split(out, [p.numel() for p in parameters.values()])
    views = dict(zip(parameters, places, strict=True))
    scales = dict(zip(parameters, group_scale.tolist(), strict=True))
    each = sum(p.numel() * p.element_size() for p in parameters.values())
    at_once = max(1, _BYTES_AT_ONCE // max(1, each))
    norms = torch.zeros(len(weight_of_record), dtype=out.dtype, device=out.device)
    losses = torch.zeros_like(norms)
    for records, inputs in model.record_groups(batch):
        for low in range(0, len(records), at_once):
            some = records[low : low + at_once]
            found, lost = gradients(
                model, tuple(x[low : low + at_once] for x in inputs)
            )
            weights = weight_of_record.index_select(0, some)
            # Passes may be rounded to bfloat16, but not what bounds a record's share of
            # the sum.
            with torch.autocast(out.device.type, enabled=False):
                squares = torch.zeros(len(some), dtype=torch.float64, device=out.device)
                for name, gradient in found.items():
                    rows = gradient.flatten(1)
                    own = torch.linalg.vector_norm(rows, dim=1, dtype=torch.float64)
                    squares += (own / scales[name]).square()
                whole = (squares.sqrt() * weights.double().abs()).to(out.dtype)
                factors = clip_factor(whole, max_grad_norm) * weights
                for name, gradient in found.items():
                    # 0 times inf would be NaN.
                    rows = gradient.flatten(1).where(whole.isfinite().unsqueeze(1), 0.0)
                    views[name].add_(factors @ rows)
            norms[some], losses[some] = whole, lost.to(losses.dtype)
    return norms, losses
