"""Sums of gradients into a flat buffer: by book-keeping where supported, else by
`torch.func` for models that can be split into records, else by autograd with a pass for
each unit.
"""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from trainables.dp import per_record
from trainables.dp.flat import FlatGradient
from trainables.dp.layers import bookkeeping
from trainables.dp.layers.precision import Precision, passes_in


class GradientSource:
    """Adds weighted sums of a model's per-record gradients to flat buffers.

    `per_unit` says whether many units can be clipped in one backward pass, `per_record`
    whether many can where each is one record; otherwise each unit takes a pass of its
    own, which is slower and gives the same sum. `precision` is that of the products in
    forward and backward passes; norms and sums are float32 in any case.
    """

    precision: Precision = "fp32"

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        self.per_unit = not bookkeeping.unsupported_modules(
            _LossRecorder(model, "fp32")
        )
        self.per_record = not self.per_unit and isinstance(model, per_record.ByRecord)

    def add_mean(self, batch: Any, out: FlatGradient) -> None:
        """Add the mean gradient of a batch to `out`."""
        with torch.no_grad():
            losses = _LossRecorder(self.model, self.precision).losses(batch)
        self.add(batch, torch.full_like(losses, 1.0 / len(losses)), out)

    def add(self, batch: Any, weights: Tensor, out: FlatGradient) -> Tensor:
        """Add sum_i weights_i grad loss_i to `out`; the losses [B], detached."""
        recorder = _LossRecorder(self.model, self.precision)
        if self.per_unit:
            bookkeeping.gradient(recorder, batch, weights, out.data)
        else:
            losses = recorder.losses(batch)
            out.attach()
            torch.autograd.backward(losses, weights)
            out.collect()
            out.detach()
        return recorder.seen

    def add_clipped(
        self,
        batch: Any,
        weights: Tensor,
        out: FlatGradient,
        *,
        unit_of_record: Tensor,
        num_units: int,
        max_grad_norm: float,
        group_scale: Tensor,
    ) -> tuple[Tensor, Tensor]:
        """Add the clipped gradient of every unit to `out`: (norms [U], losses [B],
        detached).

        Without books every unit must be one record, in the order of the units.
        """
        if not self.per_unit:
            with passes_in(self.precision, out.data.device):
                return per_record.clipped_sum(
                    self.model,
                    batch,
                    weight_of_record=weights,
                    max_grad_norm=max_grad_norm,
                    group_scale=group_scale,
                    out=out.data,
                )
        recorder = _LossRecorder(self.model, self.precision)
        norms = bookkeeping.clipped_sum(
            recorder,
            batch,
            unit_of_record=unit_of_record,
            num_units=num_units,
            weight_of_record=weights,
            max_grad_norm=max_grad_norm,
            group_scale=group_scale,
            out=out.data,
        )
        return norms, recorder.seen


class _LossRecorder:
    """A model that keeps the losses of its last pass, so that reporting needs no second
    one.
    """

    def __init__(self, model: nn.Module, precision: Precision) -> None:
        self._model = model
        self._precision = precision
        self.seen = torch.empty(0)

    def losses(self, batch: Any) -> Tensor:
        device = next(self._model.parameters()).device
        with passes_in(self._precision, device):
            losses: Tensor = self._model.losses(batch)  # type: ignore[operator]  # see LossModel
        losses = losses.float() if losses.dtype == torch.bfloat16 else losses
        self.seen = losses.detach()
        return losses

    def named_parameters(self) -> Iterator[tuple[str, nn.Parameter]]:
        return self._model.named_parameters()

    def named_modules(self) -> Iterator[tuple[str, nn.Module]]:
        yield from self._model.named_modules()
