"""Replacements of parts of Ray Train: the processes beside its workers, and their rendezvous.

Beside its workers, Ray Train starts an actor for its controller, one for Ray Data, one that
requests nodes from an autoscaler and one that frees the places of a dead controller. Each is a
Python process that imports Ray and pandas, and the workers wait for it. A sweep has no Ray Data. A
cluster of one machine that ends with the sweep needs no autoscaler, and its places end with it. Its
controllers run in the threads of the driver that wait for them.
"""

from __future__ import annotations

import asyncio
import importlib
import socket
from datetime import timedelta
from typing import Any

import ray
from ray.train.torch import TorchConfig, TorchTrainer
from ray.train.torch.config import _TorchBackend
from ray.train.v2._internal.execution.controller import TrainController
from ray.train.v2._internal.execution.scaling_policy import FixedScalingPolicy
from ray.train.v2._internal.execution.worker_group import WorkerGroup

# By name: where a later Ray has others, their actors start, and nothing else changes.
_OF_RAY_DATA = {"DatasetsCallback"}
_OF_SHARED_CLUSTERS = {"PlacementGroupCleanerCallback"}


class SharedClusterTrainer(TorchTrainer):  # type: ignore[misc]  # ray is untyped here
    """Without Ray Data, which would have no data set."""

    _without = _OF_RAY_DATA

    def _create_default_callbacks(self) -> list[Any]:
        created = super()._create_default_callbacks()
        return [each for each in created if type(each).__name__ not in self._without]


class OwnClusterTrainer(SharedClusterTrainer):
    """For a cluster of this machine that ends with the sweep."""

    _without = _OF_RAY_DATA | _OF_SHARED_CLUSTERS

    def _initialize_and_run_controller(self, **parts: Any) -> Any:
        parts["scaling_policy"] = _WithoutAutoscaler(self.scaling_config)
        controller = _OwnController(**parts)
        asyncio.run(controller.run())
        return controller.get_result()


class _OwnWorkerGroup(WorkerGroup):  # type: ignore[misc]
    """Workers without a handle of their controller, which is no actor. Ray Train needs one for the
    checkpoints that `ray.train.report` was given; trials report to the broker.
    """

    def _init_train_context_on_workers(
        self, workers: list[Any], sync_actor: Any, train_context_args: dict[str, list[Any]]
    ) -> None:
        started = [
            worker.actor.init_train_context.remote(
                train_run_context=self._train_run_context,
                distributed_context=worker.distributed_context,
                synchronization_actor=sync_actor,
                storage_context=self._storage_context,
                worker_callbacks=self._worker_callbacks_to_propagate,
                controller_actor=None,
                **{name: values[rank] for name, values in train_context_args.items()},
            )
            for rank, worker in enumerate(workers)
        ]
        ray.get(started)
        self._decorate_worker_log_file_paths(workers)


class _OwnController(TrainController):  # type: ignore[misc]
    worker_group_cls = _OwnWorkerGroup


class _WithoutAutoscaler(FixedScalingPolicy):  # type: ignore[misc]
    def after_controller_start(self, train_run_context: Any) -> None:
        """Request no nodes."""

    def _maybe_send_resource_request(self) -> None:
        """Request no nodes later."""


class LoopbackTorchConfig(TorchConfig):  # type: ignore[misc]
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
    """Make the worker that serves torch's rendezvous store listen on the given address alone; the
    store itself listens on every interface, but accepts a socket that listens already.
    """
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
