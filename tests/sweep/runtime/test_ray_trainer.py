"""Which processes Ray Train starts for a sweep, beside its controller and its workers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from ray.train import ScalingConfig
from ray.train.torch import TorchTrainer
from ray.train.v2._internal.execution.scaling_policy import FixedScalingPolicy, ResizeDecision

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
    monkeypatch.setattr(
        TorchTrainer, "_initialize_and_run_controller", lambda self, **parts: found.append(parts)
    )
    scaling = ScalingConfig(num_workers=3, resources_per_worker={"CPU": 2})
    before = FixedScalingPolicy(scaling_config=scaling)
    trainer = OwnClusterTrainer(print, scaling_config=scaling)
    trainer._initialize_and_run_controller(scaling_policy=before, callbacks=[])
    (parts,) = found
    policy = parts["scaling_policy"]
    assert isinstance(policy, FixedScalingPolicy)
    policy.after_controller_start(trainer.train_run_context)
    asked = policy.make_decision_for_non_running_worker_group()
    assert asked == ResizeDecision(num_workers=3, resources_per_worker={"CPU": 2})
    policy.before_controller_abort()
    assert policy._coordinator_client is None
