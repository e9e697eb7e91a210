"""Communication between the workers of one trial: the interface, and that of a single
process.

The implementation with `torch.distributed` is `sweep.runtime.torch_group`.
"""

from typing import Any, Protocol

import torch


class Communicator(Protocol):
    """Collective calls of `world_size` processes; every process makes the same calls in
    order.
    """

    rank: int
    world_size: int
    device: torch.device  # that this process computes on

    def all_reduce_sum(self, tensor: torch.Tensor) -> None:
        """Replace `tensor`, in place, by its sum over all processes."""

    def broadcast(self, value: Any) -> Any:
        """Rank 0's plain-data `value`, on every process."""

    def gather(self, value: Any) -> list[Any]:
        """The plain-data values of all processes in rank order, on every process."""


class Alone:
    """The communicator of a single process, on a CPU unless a `device` is given."""

    rank = 0
    world_size = 1

    def __init__(self, device: torch.device | str = "cpu") -> None:
        self.device = torch.device(device)

    def all_reduce_sum(self, tensor: torch.Tensor) -> None:
        """Nothing to add."""

    def broadcast(self, value: Any) -> Any:
        """The value itself."""
        return value

    def gather(self, value: Any) -> list[Any]:
        """The value itself, alone in a list."""
        return [value]
