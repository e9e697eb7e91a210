"""Rendezvous by loopback for the processes of a trial on a cluster of this machine.

torch's rendezvous store listens on every interface, whatever its address. It accepts a socket that
listens already, and workers pass it one that listens on loopback.
"""

from __future__ import annotations

import importlib
import socket
from datetime import timedelta
from typing import Any

from ray.train.torch import TorchConfig
from ray.train.torch.config import _TorchBackend


class LoopbackTorchConfig(TorchConfig):  # type: ignore[misc]  # ray is untyped here
    """As `TorchConfig`, for workers that are all on this machine."""

    @property
    def backend_cls(self) -> type[_TorchBackend]:
        """The backend class that Ray uses to set up workers."""
        return _LoopbackBackend


class _LoopbackBackend(_TorchBackend):  # type: ignore[misc]
    def on_start(self, worker_group: Any, backend_config: TorchConfig) -> None:
        worker_group.execute(_listen_on_loopback)
        super().on_start(worker_group, backend_config)


def _listen_on_loopback() -> None:
    """Make the worker that serves the store listen on the given address."""
    # By its name, because the package has a function of the same name.
    module: Any = importlib.import_module("torch.distributed.rendezvous")
    module._create_c10d_store = _store


def _store(
    hostname: str,
    port: int,
    rank: int,
    world_size: int,
    timeout: timedelta,
    use_libuv: bool = True,
) -> Any:
    """Replacement of torch's `_create_c10d_store`."""
    import torch.distributed as dist

    leads = rank == 0
    store: Any = getattr(dist, "TCPStore")  # noqa: B009  not exported by its stubs
    return store(
        host_name=hostname,
        port=port,
        world_size=world_size,
        is_master=leads,
        timeout=timeout,
        multi_tenant=True,
        use_libuv=use_libuv,
        master_listen_fd=socket.create_server((hostname, port)).detach() if leads else None,
    )
