"""Worker processes that communicate by `torch.distributed` (gloo on CPU, NCCL between
GPUs).
"""

from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from trainables.system.communication import Communicator

# Rank 0 may wait for a verdict, or measure alone, for longer than any default time-out.
# A dead peer is noticed by its closed connection and by Ray's health check, not by
# this.
_PATIENCE = timedelta(days=7)
# After it a missing rank is stuck in a collective call for ever.
_MEETING = timedelta(seconds=20)


class TorchComm:
    """A Communicator over process groups: `objects` (gloo) carries plain data,
    `tensors` sums.
    """

    def __init__(
        self,
        objects: dist.ProcessGroup,
        tensors: dist.ProcessGroup,
        device: torch.device,
    ) -> None:
        self.device = device
        self.rank = dist.get_rank(objects)
        self.world_size = dist.get_world_size(objects)
        self._objects = objects
        self._tensors = tensors

    def all_reduce_sum(self, tensor: torch.Tensor) -> None:
        """Replace `tensor`, in place, by its sum over all processes."""
        dist.all_reduce(
            tensor, group=self._tensors if tensor.is_cuda else self._objects
        )

    def broadcast(self, value: Any) -> Any:
        """Rank 0's plain-data `value`, on every process."""
        box = [value]
        dist.broadcast_object_list(box, src=0, group=self._objects)
        return box[0]

    def gather(self, value: Any) -> list[Any]:
        """The plain-data values of all processes in rank order, on every process."""
        values: list[Any] = [None] * self.world_size
        dist.all_gather_object(values, value, group=self._objects)
        return values


class TorchTeam:
    """The team of all processes of the default process group. The channels of `trial`
    are not those of `control`, so that messages of a failed trial are never read by the
    next.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._meeting = _group("gloo")
        self.control: Communicator = _comm(self._meeting, device)
        self.trial: Communicator = _comm(_group("gloo"), device)

    def regroup(self) -> None:
        """Meet after every rank left a trial by an exception, and open new channels for
        trials.

        Raises: any error when a rank is missing for 20 seconds; the group must then be
        rebuilt.
        """
        dist.monitored_barrier(group=self._meeting, timeout=_MEETING)
        self.trial = _comm(_group("gloo"), self._device)


def _group(backend: str) -> dist.ProcessGroup:
    group = dist.new_group(backend=backend, timeout=_PATIENCE)
    assert isinstance(group, dist.ProcessGroup)
    return group


def _comm(objects: dist.ProcessGroup, device: torch.device) -> TorchComm:
    tensors = _group("nccl") if dist.get_backend() == "nccl" else objects
    return TorchComm(objects, tensors, device)
