"""Rows of an activation, member after member, and products of each block with its own weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor, nn

from trainables.errors import InvalidInput
from trainables.layers.packing import Rows
from trainables.layers.tape import Views, column_sums


def in_batches(device: torch.device) -> bool:
    """Whether a product of K blocks is one batched product of padded blocks, or K plain ones.

    A CPU would only copy and pad; an accelerator would mostly wait for K starts.
    """
    return device.type != "cpu"


@dataclass(frozen=True, eq=False)
class Blocks:
    """`counts` [K]: rows of each member, which lie together."""

    counts: tuple[int, ...]
    device: torch.device

    @classmethod
    def of(cls, rows: Rows, device: torch.device) -> Blocks:
        """The blocks of an activation in a stack's batch.

        Raises: InvalidInput where the batch is no stack's.
        """
        if rows.members is None:
            raise InvalidInput("expected a batch of a stack in a stacked layer, got a plain one")
        member = np.repeat(np.arange(len(rows.members)), rows.members)[rows.record]
        counts = np.bincount(member, minlength=len(rows.members))
        return cls(tuple(counts.tolist()), device)

    @cached_property
    def slices(self) -> tuple[slice, ...]:
        """The rows of each member."""
        ends = np.cumsum(self.counts).tolist()
        return tuple(slice(end - n, end) for end, n in zip(ends, self.counts, strict=True))

    @cached_property
    def member(self) -> Tensor:
        """int64[n], of each row."""
        member = np.repeat(np.arange(len(self.counts)), self.counts)
        return torch.from_numpy(member).to(self.device)

    @cached_property
    def _place(self) -> Tensor:
        """int64[n]: where each row stands once every block is as long as the longest."""
        ends = np.cumsum(self.counts)
        moved = np.arange(len(self.counts)) * max(self.counts) - (ends - self.counts)
        place = np.arange(int(ends[-1])) + np.repeat(moved, self.counts)
        return torch.from_numpy(place).to(self.device)

    def padded(self, x: Tensor) -> Tensor:
        """Rows [n, D] -> [K, rows of the longest block, D], zeros behind the others' ends."""
        longest = max(self.counts)
        if min(self.counts) < longest:
            x = x.new_zeros(len(self.counts) * longest, x.shape[1]).index_copy_(0, self._place, x)
        return x.view(len(self.counts), longest, -1)

    def packed(self, x: Tensor) -> Tensor:
        """The way back."""
        flat = x.flatten(0, 1)
        return flat if min(self.counts) == max(self.counts) else flat.index_select(0, self._place)

    def product(
        self, x: Tensor, weights: Sequence[Tensor], biases: Sequence[Tensor] | None = None
    ) -> Tensor:
        """Rows [n, I] times their member's weight [O, I], transposed, plus its bias: [n, O]."""
        if in_batches(self.device):
            return self.packed(lanes_product(self.padded(x), weights, biases))
        out = x.new_empty(x.shape[0], weights[0].shape[0])
        for k, own in enumerate(self.slices):
            if biases is None:
                torch.mm(x[own], weights[k].t(), out=out[own])
            else:
                torch.addmm(biases[k], x[own], weights[k].t(), out=out[own])
        return out

    def add_outer(self, views: Sequence[Tensor], g: Tensor, x: Tensor) -> None:
        """Add each member's sum of g_t x_t^T, [O, I], to its view."""
        if in_batches(self.device):
            sums = torch.bmm(self.padded(g).transpose(1, 2), self.padded(x))
            torch._foreach_add_(list(views), list(sums.unbind()))
            return
        for view, own in zip(views, self.slices, strict=True):
            view.addmm_(g[own].t(), x[own])

    def add_columns(self, views: Sequence[Tensor], values: Tensor, scale: Tensor | None) -> None:
        """Add each member's sum of rows, times their number of `scale`, [D], to its view."""
        if in_batches(self.device):
            if scale is not None:
                values = values * scale.unsqueeze(1)
            sums = values.new_zeros(len(self.counts), values.shape[1])
            sums.index_add_(0, self.member, values)
            torch._foreach_add_(list(views), list(sums.unbind()))
            return
        for view, own in zip(views, self.slices, strict=True):
            view.add_(column_sums(values[own], None if scale is None else scale[own]))


def lanes_product(
    x: Tensor, weights: Sequence[Tensor], biases: Sequence[Tensor] | None = None
) -> Tensor:
    """`x` [M, R, I] times weight m [O, I], transposed, plus bias m [O]: [M, R, O]."""
    if in_batches(x.device):
        stacked = torch.stack(list(weights)).transpose(1, 2)
        if biases is None:
            return torch.bmm(x, stacked)
        return torch.baddbmm(torch.stack(list(biases)).unsqueeze(1), x, stacked)
    out = x.new_empty(*x.shape[:2], weights[0].shape[0])
    for m, weight in enumerate(weights):
        if biases is None:
            torch.mm(x[m], weight.t(), out=out[m])
        else:
            torch.addmm(biases[m], x[m], weight.t(), out=out[m])
    return out


def weights_of(layers: Sequence[nn.Module], name: str) -> list[Tensor]:
    """The parameter called `name` of each layer, as plain tensors."""
    return [layer.get_parameter(name).detach() for layer in layers]


def views_of(layers: Sequence[nn.Module], name: str, views: Views) -> list[Tensor]:
    """Where the gradient of the parameter called `name` of each layer is added."""
    return [views[layer.get_parameter(name)] for layer in layers]


def anchor(layers: Sequence[nn.Module]) -> nn.Parameter | None:
    """A trained parameter of a layer: given to an autograd node, it makes the node record."""
    return next((p for p in layers[0].parameters() if p.requires_grad), None)
