"""The device of a process without Ray. The machine has no GPU: torch's count is a
stand-in.
"""

import pytest
import torch

from search_spaces import space as spaces
from search_spaces.parts import Resources
from sweep.planning import resources as machines
from sweep.planning.resources import Machine, share_of
from sweep.runtime.driver import run_trials
from sweep.store.plans import Plan
from tests.libraries import IGNORED
from tests.refusals import refused
from tests.sweep.runtime.test_ray_trials import (
    LOCAL,
    NUM_GPUS,
    Diary,
    make_jobs,
    trained,
)
from trainables.system.communication import Alone
from trainables.tasks._trial_result import on_device

pytestmark = IGNORED
_NOTHING = Plan(name="s", trials=())


@pytest.mark.parametrize("executor", ["gang", "local"])
def test_the_default_is_none_on_a_machine_without_gpus(executor):
    for gpus in (0, 1, 8):
        found = share_of(
            Resources(executor=executor), Machine(cpus=8, gpus=gpus), _NOTHING
        )
        assert found.gpus_per_worker == min(gpus, 1)


def test_torch_is_not_imported_to_count_no_gpus(monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 3)
    assert machines.machine_gpus() == 3
    monkeypatch.delitem(machines.sys.modules, "torch")
    monkeypatch.setattr(machines, "_DRIVERS", ())
    assert machines.machine_gpus() == 0


@pytest.mark.parametrize("share", [0.5, 1.5, 2])
def test_one_process_has_no_share_of_a_gpu(share):
    with refused(rf"gpus_per_worker 0 or 1 .* local, .*got {share:g}$"):
        spaces.parse(
            {"name": "s", "resources": {"executor": "local", "gpus_per_worker": share}}
        )


def test_a_gpu_that_the_machine_lacks_is_refused(monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    space = spaces.parse(
        {"name": "s", "resources": {"executor": "local", "gpus_per_worker": 1}}
    )
    with refused(r"gpus_per_worker to fit on 0 GPUs, .*per_worker=1$"):
        share_of(space.resources, machines.this_machine(space.resources), _NOTHING)
    with refused(r"gpus_per_worker=0 where torch finds no GPU.*cuda:1"):
        on_device(torch.nn.Linear(1, 1), Alone("cuda:1"))


@pytest.mark.parametrize(("share", "device"), [(0, "cpu"), (1, "cuda")])
def test_one_process_uses_the_gpu_that_was_asked_for(share, device, tmp_path):
    (job,) = make_jobs(tmp_path, count=1, epochs=1)
    settings = LOCAL.model_copy(update={"gpus_per_worker": share})
    run_trials([job], events=Diary(), settings=settings)
    assert trained(job)[0].split(" ")[3] == device


@pytest.mark.parametrize(("place", "index"), [("cuda:3", 3), ("cuda", 0)])
def test_a_model_is_moved_to_the_gpu_of_its_process(place, index, monkeypatch):
    """Which becomes that of "cuda" too, so that no library allocates on another."""
    calls = []
    monkeypatch.setattr(torch.cuda, "device_count", lambda: NUM_GPUS)
    monkeypatch.setattr(torch.cuda, "set_device", calls.append)
    model = torch.nn.Linear(1, 1)
    monkeypatch.setattr(model, "to", calls.append)
    on_device(model, Alone(place))
    assert calls == [index, torch.device(place)]
