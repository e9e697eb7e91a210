"""Starting and ending Ray for one sweep: quiet, without telemetry, with our own packages."""

from __future__ import annotations

import logging
import math
import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sweep.events import RunSettings
from sweep.resources import machine_cpus
from trainables.errors import InvalidInput, SweepError

# A Tune trial holds one of these and nothing else: it only speaks for its workers, so it can never
# keep the CPUs that those workers wait for.
TRIAL_SLOT = "trial_slot"
NAMESPACE = "dp-nlu-sweep"
_TRIAL_SLOTS = 10_000  # places are limited by workers; a stack has several trials in one
_STARTS = 3
_OBJECT_STORE_BYTES = 100_000_000  # configs and metrics pass through it, no data

_ENVIRONMENT = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_TRAIN_V2_ENABLED": "1",
    # A call that comes after the end must not start another cluster.
    "RAY_ENABLE_AUTO_CONNECT": "0",
    # How soon the death of a worker is noticed.
    "RAY_TRAIN_HEALTH_CHECK_INTERVAL_S": "0.5",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",
    "TUNE_DISABLE_STRICT_METRIC_CHECKING": "1",
    # Tune saves its own state for `Tuner.restore`, which is not used: the sweep's folder has more.
    "TUNE_GLOBAL_CHECKPOINT_S": "3600",
    "TUNE_WARN_EXCESSIVE_EXPERIMENT_CHECKPOINT_SYNC_THRESHOLD_S": "0",
    "RAY_AIR_NEW_OUTPUT": "0",
}


@contextmanager
def session(settings: RunSettings) -> Iterator[None]:
    """Ray for the time of the block: the cluster at `settings.address`, one that runs in this
    process already (it is left as it is), or a local one that ends with the block.

    Raises: InvalidInput where the address does not answer.
    """
    for name, value in _ENVIRONMENT.items():
        os.environ.setdefault(name, value)

    import ray  # after the environment: Ray reads it when imported

    if ray.is_initialized():
        yield
        return
    logging.getLogger("ray").setLevel(logging.ERROR)
    packages = _packages()
    if settings.address is not None:
        try:
            ray.init(
                address=settings.address,
                namespace=NAMESPACE,
                log_to_driver=False,
                logging_level=logging.ERROR,
                runtime_env={"py_modules": [str(package) for package in packages]},
            )
        except (ConnectionError, ValueError, RuntimeError) as error:
            raise InvalidInput(
                "expected address to be that of a running Ray cluster, whose token is in"
                " RAY_AUTH_TOKEN or RAY_AUTH_TOKEN_PATH where it wants one,"
                f" got {settings.address!r} ({type(error).__name__})"
            ) from None
    else:
        before = os.environ.get("PYTHONPATH")
        ours = str(packages[0].parent)
        # Workers inherit it: they must import this `sweep`, not a stranger's of the same name.
        os.environ["PYTHONPATH"] = ours if not before else f"{ours}{os.pathsep}{before}"
        os.environ.setdefault("RAY_TRAIN_ENABLE_PREEMPTION_WATCHER", "0")  # it would go with us
        cpus = settings.cpus or machine_cpus()
        try:
            _start_local(
                num_cpus=cpus,
                resources={TRIAL_SLOT: _TRIAL_SLOTS},
                namespace=NAMESPACE,
                include_dashboard=settings.dashboard,
                object_store_memory=_OBJECT_STORE_BYTES,
                log_to_driver=False,
                logging_level=logging.ERROR,
            )
        finally:
            if before is None:
                del os.environ["PYTHONPATH"]
            else:
                os.environ["PYTHONPATH"] = before
    try:
        yield
    finally:
        ray.shutdown()


def _start_local(**options: Any) -> None:
    """`ray.init` of a local cluster, once more where a node was not up within Ray's 30 seconds.

    That limit is fixed in Ray, and a busy machine or a cold disk passes it at the first start; the
    next one finds the files in memory.

    Raises: SweepError where it does not come up at all.
    """
    import ray

    for left in reversed(range(_STARTS)):
        try:
            ray.init(**options)
        except Exception as error:
            ray.shutdown()
            if "timed out during startup" not in str(error):
                raise
            if not left:
                raise SweepError(
                    f"Ray did not come up in {_STARTS} tries of 30 seconds: the machine is too busy"
                ) from None
        else:
            return


def require_shared(*folders: Path) -> None:
    """Check that every node of the cluster sees the same folders as this process.

    Raises: InvalidInput naming the first folder and node where it does not.
    """
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    nodes = [node for node in ray.nodes() if node["Alive"]]
    for folder in folders:
        mark = folder / f".shared-{uuid.uuid4().hex}"
        try:
            mark.write_text("seen\n", encoding="utf-8")
            asked = {
                node["NodeManagerAddress"]: ray.remote(_sees)
                .options(
                    num_cpus=0,
                    scheduling_strategy=NodeAffinitySchedulingStrategy(node["NodeID"], soft=False),
                )
                .remote(str(mark))
                for node in nodes
            }
            for address, answer in asked.items():
                if not ray.get(answer):
                    raise InvalidInput(
                        f"expected {folder} to be on storage that every node shares:"
                        f" node {address} does not see it"
                    )
        finally:
            mark.unlink(missing_ok=True)


def _sees(path: str) -> bool:
    """Whether a file is there; runs on a node of the cluster."""
    return os.path.exists(path)


@dataclass(frozen=True, kw_only=True)
class ClusterSize:
    """CPUs, GPUs and bytes of memory."""

    cpus: float
    gpus: float
    memory: float


def cluster_size() -> ClusterSize:
    """Of the cluster that this process is connected to."""
    import ray

    resources = ray.cluster_resources()
    cpus, gpus, memory = (float(resources.get(name, 0)) for name in ("CPU", "GPU", "memory"))
    return ClusterSize(cpus=cpus, gpus=gpus, memory=memory or math.inf)


def trial_resources() -> dict[str, float]:
    """What a Tune trial asks for: a token of our own, or one byte where a cluster has none."""
    import ray

    if TRIAL_SLOT in ray.cluster_resources():
        return {TRIAL_SLOT: 1}
    return {"memory": 1}


def _packages() -> list[Path]:
    import search_spaces
    import sweep
    import trainables

    found = []
    for package in (sweep, trainables, search_spaces):
        assert package.__file__ is not None
        found.append(Path(package.__file__).parent)
    return found
