"""One contiguous gradient buffer over all trainable parameters of a model.

Clipping, noise and the all-reduce use one vector, so none of them can miss a parameter.
A parameter whose gradient is None or sparse has its place, and a tied parameter has
one.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from trainables.errors import InvalidInput


@dataclass(frozen=True, eq=False)
class Layout:
    """The place of each trainable parameter of a model in one flat vector of `size`
    numbers, of one `dtype` on one `device`. A parameter tensor is a group k of alpha_k.
    `names`, `parameters` and `starts` (the first place of each) go together, in the
    order of `named_parameters()`; a tied parameter stands once, under its first name.
    """

    names: tuple[str, ...]
    parameters: tuple[nn.Parameter, ...]
    starts: tuple[int, ...]
    size: int
    dtype: torch.dtype
    device: torch.device

    @classmethod
    def of(cls, model: nn.Module) -> Layout:
        """The layout of a model's trainable parameters.

        Raises: InvalidInput where there is none, or they differ in dtype or device.
        """
        # named_parameters() yields a tied parameter once, under its first name.
        named = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
        if not named:
            raise InvalidInput("expected a model with trainable parameters, got none")
        first = named[0][1]
        starts, size = [], 0
        for name, parameter in named:
            if parameter.dtype != first.dtype or parameter.device != first.device:
                raise InvalidInput(
                    f"expected every parameter as {first.dtype} on {first.device}, got"
                    f" {name} as {parameter.dtype} on {parameter.device}"
                )
            starts.append(size)
            size += parameter.numel()
        return cls(
            names=tuple(name for name, _ in named),
            parameters=tuple(parameter for _, parameter in named),
            starts=tuple(starts),
            size=size,
            dtype=first.dtype,
            device=first.device,
        )

    def segment(self, group: int) -> slice:
        """The place of parameter `group`."""
        start = self.starts[group]
        return slice(start, start + self.parameters[group].numel())


class FlatGradient:
    """A flat vector `data` [D] and its views, one for each parameter, keyed by the
    parameter.

    `message` [D + 1] is the same memory and one more number, the count of shares in the
    sum; it is what a process sends.
    """

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.message = torch.zeros(
            layout.size + 1, dtype=layout.dtype, device=layout.device
        )
        self.data = self.message[:-1]
        self.views: dict[nn.Parameter, Tensor] = {
            p: self.data[layout.segment(k)].view(p.shape)
            for k, p in enumerate(layout.parameters)
        }

    def zero_(self) -> None:
        """Set every number to 0, the count included."""
        self.message.zero_()

    def attach(self) -> None:
        """Make the views the parameters' `.grad`, so that a backward pass adds into
        `data`.
        """
        for parameter, view in self.views.items():
            parameter.grad = view

    def collect(self) -> None:
        """Add gradients that a backward pass stored elsewhere than in the views."""
        for parameter, view in self.views.items():
            grad = parameter.grad
            if grad is not None and grad.data_ptr() != view.data_ptr():
                view.add_(grad.to_dense() if grad.is_sparse else grad)
                parameter.grad = view

    def detach(self) -> None:
        """Take the views away from the parameters."""
        for parameter in self.views:
            parameter.grad = None

    def group_norms(self) -> Tensor:
        """float64[K]: L2 norm of each group's part. Added up in float32 that of
        millions of numbers comes out up to 2 parts in 10^3 too small on a CPU, and a
        clip would let through as much more than C.
        """
        views = self.views.values()
        return torch.stack(
            [torch.linalg.vector_norm(v, dtype=torch.float64) for v in views]
        )
