"""The device of a worker: a GPU where Ray gave it one, the CPU otherwise.

The machine has no GPU: Ray is told of eight, and torch's count of them is a stand-in.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import ray
import torch

from search_spaces import space as spaces
from search_spaces.parts import Resources
from sweep.planning import resources as machines
from sweep.planning.resources import Machine, share_of
from sweep.runtime import preflight, ray_session
from sweep.runtime.driver import run_trials
from sweep.runtime.events import GO_ON, RunSettings, TrialEvent, TrialJob, Verdict
from tests.sweep.runtime.test_ray_trials import make_jobs
from tests.sweep.sweeps import settings_in
from trainables.errors import InvalidInput
from trainables.system.communication import Alone, Communicator
from trainables.tasks._frame import on_device

pytestmark = [
    pytest.mark.filterwarnings("ignore:`use_:DeprecationWarning:ray"),
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
NUM = 8
SETTINGS = RunSettings(
    function="tests.sweep.runtime.test_gpus:say_where", dashboard=False, cpus=NUM
)


def say_where(config: Any, *, folder: Path, comm: Communicator, **_: Any) -> None:
    """A trial function: write this worker's device and the GPUs that it sees, then fail.

    It waits for all trials, so that each has a slot of its own.
    """
    seen = os.environ.get("CUDA_VISIBLE_DEVICES")
    (folder / "where").write_text(f"{comm.device} {seen} {ray.get_gpu_ids()}")
    deadline = time.monotonic() + 600
    together = int((folder.parent / "together").read_text())
    while len(list(folder.parent.glob("*/where"))) < together and time.monotonic() < deadline:
        time.sleep(0.1)
    raise InvalidInput("said")


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.cuda, "device_count", lambda: NUM)
        patch.setenv("PYTHONPATH", str(Path(__file__).parents[3]))
        with ray_session.session(SETTINGS):
            yield


def places(folder: Path, settings: RunSettings, *, count: int) -> list[str]:
    """Of `count` trials at the same time."""
    reasons: list[str] = []

    def events(event: TrialEvent) -> Verdict:
        if event.kind == "failed":
            reasons.append(event.reason)
        return GO_ON

    jobs: list[TrialJob] = make_jobs(folder, count=count, workers=1)
    (folder / "trials" / "together").write_text(str(count))
    run_trials(jobs, events=events, settings=replace(settings, slots=count))
    assert reasons == ["InvalidInput: said"] * count
    return [(job.folder / "where").read_text() for job in jobs]


def test_each_slot_has_its_own_gpu(cluster: None, tmp_path: Path) -> None:
    found = places(tmp_path, replace(SETTINGS, gpus_per_worker=1), count=NUM)
    assert sorted(found) == [f"cuda:0 {number} [{number}]" for number in range(NUM)]


def test_a_worker_without_a_gpu_computes_on_the_cpu_and_sees_none(
    cluster: None, tmp_path: Path
) -> None:
    assert set(places(tmp_path, SETTINGS, count=2)) == {"cpu  []"}


@pytest.mark.parametrize(("asked", "share"), [(None, 1), (0, 0), (0.5, 0.5), (2, 2)])
def test_the_default_is_one_where_the_cluster_has_gpus(
    cluster: None, tmp_path: Path, asked: float | None, share: float
) -> None:
    """Planned before Ray runs, settled by what it has: the same."""
    space = spaces.parse({"name": "s", "resources": {"gpus_per_worker": asked, "workers": 1}})
    settings = settings_in(tmp_path)
    planned = preflight.prepare(space, (), settings, address=None, function="none")
    settled = preflight.require_room(space, (), settings, planned)
    shares = [share_of(space.resources), planned, settled]
    assert [each.gpus_per_worker for each in shares] == [share] * 3


@pytest.mark.parametrize("executor", ["gang", "local"])
def test_the_default_is_none_on_a_machine_without_gpus(executor: Any) -> None:
    for gpus in (0, 1, 8):
        found = share_of(Resources(executor=executor), Machine(cpus=8, gpus=gpus))
        assert found.gpus_per_worker == min(gpus, 1)


def test_torch_is_not_imported_to_count_no_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 3)
    assert machines.machine_gpus() == 3
    monkeypatch.delitem(machines.sys.modules, "torch")  # type: ignore[attr-defined]
    monkeypatch.setattr(machines, "_DRIVERS", ())
    assert machines.machine_gpus() == 0


@pytest.mark.parametrize("share", [0.5, 1.5, 2])
def test_one_process_has_no_share_of_a_gpu(share: float) -> None:
    with pytest.raises(InvalidInput, match=rf"gpus_per_worker 0 or 1 .* local, .*got {share:g}$"):
        spaces.parse({"name": "s", "resources": {"executor": "local", "gpus_per_worker": share}})


def test_a_gpu_that_the_machine_lacks_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    space = spaces.parse({"name": "s", "resources": {"executor": "local", "gpus_per_worker": 1}})
    with pytest.raises(InvalidInput, match=r"gpus_per_worker to fit on 0 GPUs, .*per_worker=1$"):
        share_of(space.resources)
    with pytest.raises(InvalidInput, match=r"gpus_per_worker=0 where torch finds no GPU.*cuda:1"):
        on_device(torch.nn.Linear(1, 1), Alone("cuda:1"))


@pytest.mark.parametrize(("share", "device"), [(0, "cpu"), (1, "cuda")])
def test_one_process_uses_the_gpu_that_was_asked_for(
    share: float, device: str, tmp_path: Path
) -> None:
    settings = replace(SETTINGS, executor="local", gpus_per_worker=share)
    (found,) = places(tmp_path, settings, count=1)
    assert found.split()[0] == device


def test_a_model_is_moved_to_the_gpu_of_its_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which becomes that of "cuda" too, so that no library allocates on another."""
    calls: list[Any] = []
    monkeypatch.setattr(torch.cuda, "device_count", lambda: NUM)
    monkeypatch.setattr(torch.cuda, "set_device", calls.append)
    model = torch.nn.Linear(1, 1)
    monkeypatch.setattr(model, "to", calls.append)
    on_device(model, Alone("cuda:3"))
    assert calls == [torch.device("cuda:3")] * 2
