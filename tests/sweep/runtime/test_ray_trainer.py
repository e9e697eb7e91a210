"""Which processes Ray Train starts for a sweep, beside its controller and its workers."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest
from ray.train import ScalingConfig
from ray.train.torch import TorchTrainer
from ray.train.v2._internal.execution.controller import TrainController
from ray.train.v2._internal.execution.scaling_policy import FixedScalingPolicy, ResizeDecision
from ray.train.v2._internal.execution.worker_group import WorkerGroup
from ray.train.v2._internal.execution.worker_group.worker import RayTrainWorker

from sweep.runtime.on_ray import trainer as ours
from sweep.runtime.on_ray.trainer import OwnClusterTrainer, SharedClusterTrainer


def callbacks(trainer: Callable[..., Any]) -> set[str]:
    created = trainer(print, scaling_config=ScalingConfig(num_workers=1))
    return {type(each).__name__ for each in created._create_default_callbacks()}


@pytest.mark.filterwarnings("ignore::DeprecationWarning:ray.data.context")  # Ray's own
def test_what_starts_an_actor_for_others_is_left_out() -> None:
    """Also fails where a later Ray has other names for them."""
    of_ray = callbacks(TorchTrainer)
    assert of_ray - callbacks(SharedClusterTrainer) == {"DatasetsCallback"}
    of_shared_clusters = callbacks(SharedClusterTrainer) - callbacks(OwnClusterTrainer)
    assert of_shared_clusters == {"PlacementGroupCleanerCallback"}
    assert "BackendSetupCallback" in callbacks(OwnClusterTrainer) <= of_ray


def test_a_cluster_of_one_machine_asks_no_autoscaler_for_its_workers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The policy has the places of its workers, and starts no actor at any of Ray's calls."""
    found: list[Any] = []

    class Controller:
        def __init__(self, **parts: Any) -> None:
            found.append(parts)

        async def run(self) -> None:
            found.append("ran")

        def get_result(self) -> str:
            return "its result"

    monkeypatch.setattr(ours, "_OwnController", Controller)
    scaling = ScalingConfig(num_workers=3, resources_per_worker={"CPU": 2})
    before = FixedScalingPolicy(scaling_config=scaling)
    trainer = OwnClusterTrainer(print, scaling_config=scaling)
    result = trainer._initialize_and_run_controller(scaling_policy=before, callbacks=[])
    assert result == "its result"
    parts, ran = found
    assert ran == "ran"
    policy = parts["scaling_policy"]
    assert isinstance(policy, FixedScalingPolicy)
    policy.after_controller_start(trainer.train_run_context)
    asked = policy.make_decision_for_non_running_worker_group()
    assert asked == ResizeDecision(num_workers=3, resources_per_worker={"CPU": 2})
    policy.before_controller_abort()
    assert policy._coordinator_client is None


def test_ray_has_what_the_controller_of_the_driver_replaces() -> None:
    """A later Ray that starts its workers in another way is noticed here."""
    replaced = ours._OwnWorkerGroup._init_train_context_on_workers
    theirs = WorkerGroup._init_train_context_on_workers
    assert list(inspect.signature(replaced).parameters) == list(
        inspect.signature(theirs).parameters
    )
    passed = set(inspect.signature(RayTrainWorker.init_train_context).parameters)
    assert passed >= {
        "train_run_context",
        "distributed_context",
        "synchronization_actor",
        "storage_context",
        "worker_callbacks",
        "controller_actor",
    }
    assert inspect.iscoroutinefunction(TrainController.run)
    assert TrainController.worker_group_cls is WorkerGroup
