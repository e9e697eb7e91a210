"""Gangs of Ray Train workers that stay for the whole sweep and train one trial after
another.

Building a `TorchTrainer` costs tens of seconds, a trial of a small model less than one.
So each slot has one, whose workers take their trials from the pool. Its controller
imports this module as well, so torch, which takes seconds, is imported where it is
used.
"""

from __future__ import annotations

import os
import socket
import threading
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ray
from ray.train import FailureConfig, RunConfig, ScalingConfig
from ray.train.backend import Backend, BackendConfig

from sweep.runtime.events import MAX_FAILURES, RunSettings
from sweep.runtime.ray_session import LOOPBACK, NAMESPACE

if TYPE_CHECKING:
    from ray.train.torch import TorchTrainer


def worker_group(
    pool: str, *, slot: int, settings: RunSettings, folder: Path
) -> TorchTrainer:
    """The trainer of a slot, whose processes serve the pool of that name until it
    closes. `folder`, on storage that all nodes share, takes the files of Ray Train.
    """
    from ray.train.torch import TorchTrainer

    gpus, workers = settings.gpus_per_worker or 0.0, settings.workers or 1
    return TorchTrainer(
        serve,
        train_loop_config={"pool": pool, "slot": slot, "settings": settings},
        scaling_config=ScalingConfig(
            num_workers=workers,
            use_gpu=gpus > 0,
            resources_per_worker={"CPU": settings.cpus_per_worker, "GPU": gpus},
        ),
        # NCCL refuses two workers on one GPU, and one by itself needs none.
        torch_config=GangConfig(
            backend="nccl" if gpus >= 1 and workers > 1 else "gloo"
        ),
        run_config=RunConfig(
            name=f"{pool}-slot-{slot}-{uuid.uuid4().hex[:8]}",
            storage_path=str(folder),
            failure_config=FailureConfig(
                max_failures=MAX_FAILURES, controller_failure_limit=MAX_FAILURES
            ),
        ),
    )


@dataclass
class GangConfig(BackendConfig):  # type: ignore[misc]  # ray is untyped here
    """In place of `TorchConfig`, whose workers listen on every interface: these listen
    on loopback where all are on one node, otherwise on the addresses of their nodes.
    """

    backend: str

    @property
    def backend_cls(self) -> type[Backend]:
        """What sets up the process group of the workers."""
        return _Meeting


class _Meeting(Backend):  # type: ignore[misc]
    share_cuda_visible_devices = True

    def on_start(self, worker_group: Any, backend_config: GangConfig) -> None:
        """Join the workers in a process group; a single one needs none."""
        size = len(worker_group)
        if size == 1:
            return
        nodes = worker_group.execute(lambda: ray.get_runtime_context().get_node_id())
        place = worker_group.execute_single(0, _listen, len(set(nodes)) == 1)
        joining = [
            worker_group.execute_single_async(
                rank, _join, backend_config.backend, rank, size, place
            )
            for rank in range(size)
        ]
        ray.get(joining)


# The socket of the first worker, until it has joined.
_listening: list[socket.socket] = []


def _listen(on_one_node: bool) -> tuple[str, int]:
    """The address at which the first worker listens for the others."""
    host = LOOPBACK if on_one_node else ray.util.get_node_ip_address()
    _listening.append(socket.create_server((host, 0)))
    return host, _listening[-1].getsockname()[1]


def _join(backend: str, rank: int, size: int, place: tuple[str, int]) -> None:
    import torch.distributed as dist

    if place[0] == LOOPBACK:  # all are on one node
        os.environ["GLOO_SOCKET_IFNAME"] = os.environ["NCCL_SOCKET_IFNAME"] = "lo"
    store = dist.TCPStore(  # type: ignore[attr-defined]  # its stubs lack it
        *place,
        world_size=size,
        is_master=rank == 0,
        master_listen_fd=_listening.pop().detach() if rank == 0 else None,
    )
    dist.init_process_group(backend, store=store, rank=rank, world_size=size)


def serve(config: dict[str, Any]) -> None:
    """What each worker of a worker group runs."""
    import torch
    from ray.train.torch import get_device

    from sweep.runtime.torch_group import TorchTeam
    from sweep.runtime.worker_loop import LoneTeam, work

    settings: RunSettings = config["settings"]
    torch.set_num_threads(settings.cpus_per_worker)
    device = get_device()
    if device.type == "cuda" and torch.cuda.is_available():
        torch.cuda.set_device(device)
    try:
        pool = ray.get_actor(config["pool"], namespace=NAMESPACE)
    except ValueError:  # the sweep was interrupted while this group was built
        return
    threading.Thread(target=_end_with, args=[pool], daemon=True).start()
    generation = uuid.uuid4().hex  # of the present group of workers
    work(
        lambda: ray.get(pool.take.remote(config["slot"], generation)),
        lambda event: ray.get(pool.send.remote(event)),
        TorchTeam(device) if (settings.workers or 1) > 1 else LoneTeam(device),
        settings,
    )


def _end_with(pool: Any) -> None:
    """End this process when the pool has died: another one may continue its trial."""
    try:
        ray.get(pool.check_liveness.remote())
    except ray.exceptions.RayActorError:
        os._exit(1)
