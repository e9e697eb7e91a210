"""How many trials run at a time: as many as fit on CPUs, GPUs and memory, and never
more.
"""

import math
import os

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from search_spaces import space as spaces
from search_spaces.parts import Resources
from sweep.planning import resources
from sweep.planning.prepare import prepare_space
from sweep.planning.resources import (
    Machine,
    choose_slots,
    fit_into_memory,
    gpu_share,
    machine_cpus,
    sentence,
    workers_of,
)
from tests.sweep.sweeps import settings_in, space_in
from trainables.errors import InvalidInput


def slots(*, workers=2, cpus=8, gpus=0, **share):
    """The slots of trials, by default of two processes on eight CPUs."""
    return choose_slots(
        Resources(workers=workers, **share), Machine(cpus=cpus, gpus=gpus)
    )


@given(
    workers=st.integers(1, 9),
    cpus_per_worker=st.integers(1, 5),
    cpus=st.integers(1, 200),
)
def test_cpus_are_filled_and_never_overfilled(workers, cpus_per_worker, cpus):
    """One trial more would not fit."""
    a_trial = workers * cpus_per_worker
    assume(a_trial <= cpus)
    found = slots(workers=workers, cpus_per_worker=cpus_per_worker, cpus=cpus)
    assert found * a_trial <= cpus < (found + 1) * a_trial


@given(
    share=st.sampled_from([1 / 93, 1 / 7, 1 / 3, 0.3, 0.4, 0.5, 0.6, 1.0]),
    workers=st.integers(1, 4),
    gpus=st.integers(1, 8),
)
def test_workers_that_share_gpus_each_sit_on_one_gpu(share, workers, gpus):
    """Two shares of 0.6 do not fit on one GPU, though 1.2 of two GPUs is free; 93
    shares of a 93rd fit, whose quotient is rounded to less.
    """
    seats = (
        gpus
        * {1 / 93: 93, 1 / 7: 7, 1 / 3: 3, 0.3: 3, 0.4: 2, 0.5: 2, 0.6: 1, 1.0: 1}[
            share
        ]
    )
    assume(seats >= workers)
    found = slots(workers=workers, gpus_per_worker=share, cpus=1000, gpus=gpus)
    assert found == seats // workers


@pytest.mark.parametrize(("gpus", "expected"), [(2, 1), (3, 1), (4, 2), (8, 4)])
def test_a_worker_may_take_several_gpus(gpus, expected):
    assert slots(workers=1, gpus_per_worker=2.0, cpus=100, gpus=gpus) == expected


@given(
    slots=st.integers(1, 64),
    workers=st.integers(1, 4),
    peak=st.integers(1, 40),
    memory=st.integers(1, 400),
)
def test_memory_lowers_the_number_but_one_trial_is_always_tried(
    slots, workers, peak, memory
):
    """A tenth of the memory stays free."""
    found = fit_into_memory(slots, workers=workers, peak=peak, memory=memory)
    most = 0.9 * memory / (workers * peak)
    assert found == 1 or found <= min(slots, most)
    assert found == slots or found + 1 > most
    assert fit_into_memory(slots, workers=workers, peak=peak, memory=math.inf) == slots


def test_two_gib_are_assumed_of_a_process_before_any_has_run():
    memory = 8 * 2**30
    found = [
        fit_into_memory(9, workers=1, peak=peak, memory=memory) for peak in (0, 2**31)
    ]
    assert found == [3, 3]


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        (
            {"slots": 5},
            "expected slots * workers * cpus_per_worker <= 8 CPUs,"
            " got slots=5 * workers=2 * cpus_per_worker=1",
        ),
        (
            {"workers": 9},
            "expected slots * workers * cpus_per_worker <= 8 CPUs,"
            " got slots=1 * workers=9 * cpus_per_worker=1",
        ),
        (
            {"gpus_per_worker": 0.5, "slots": 2, "gpus": 1},
            "expected slots * workers * gpus_per_worker to fit on 1 GPUs,"
            " got slots=2 * workers=2 * gpus_per_worker=0.5",
        ),
        (
            {"gpus_per_worker": 1.0, "gpus": 0},
            "expected slots * workers * gpus_per_worker to fit on 0 GPUs,"
            " got slots=1 * workers=2 * gpus_per_worker=1",
        ),
    ],
)
def test_what_does_not_fit_is_refused_with_the_numbers(changes, line):
    with pytest.raises(InvalidInput) as problem:
        slots(**changes)
    assert str(problem.value) == line


@pytest.mark.parametrize(
    ("quota", "expected"),
    [
        ("100000 100000", 1),  # one CPU
        ("50000 100000", 1),  # half of one: still one process
        ("max 100000", None),
        ("900000000 100000", None),  # more than the machine has
        ("nonsense", None),
        (None, None),
    ],
)
def test_a_containers_quota_lowers_the_cpus(tmp_path, quota, expected):
    file = tmp_path / "cpu.max"
    if quota is not None:
        file.write_text(f"{quota}\n")
    assert machine_cpus(file) == (expected or len(os.sched_getaffinity(0)))


@pytest.mark.parametrize(
    ("asked", "line"),
    [
        ({}, "4 at a time, 2 workers each (training.num_workers=2); 8 CPUs."),
        (
            {"workers": 1, "slots": 2},
            "2 at a time, 1 worker each (the largest divisor of training.num_workers=2"
            " that resources.workers=1 allows); 8 CPUs.",
        ),
        ({"executor": "local"}, "One after another in this process."),
    ],
)
def test_a_plan_says_how_many_trials_run_at_a_time(asked, line, tmp_path, monkeypatch):
    monkeypatch.setattr(resources, "machine_cpus", lambda: 8)
    space = space_in(tmp_path, resources={"gpus_per_worker": 0, **asked})
    plan = prepare_space(space, settings=settings_in(tmp_path)).plan
    assert sentence(plan, space.resources) == line


@given(
    logical=st.integers(1, 64),
    cpus=st.integers(1, 40),
    gpus=st.integers(0, 8),
    slots=st.integers(1, 4) | st.none(),
)
def test_a_trial_has_the_largest_divisor_of_its_workers_that_fits(
    logical, cpus, gpus, slots
):
    machine = Machine(cpus=cpus, gpus=gpus)
    assume((slots or 1) <= min(cpus, gpus or cpus))
    asked = Resources(gpus_per_worker=float(gpus > 0), slots=slots)
    found = workers_of(logical, asked, machine)
    assert logical % found == 0
    choose_slots(asked.model_copy(update={"workers": found}), machine)
    for more in range(found + 1, logical + 1):
        if logical % more == 0:
            with pytest.raises(InvalidInput):
                choose_slots(asked.model_copy(update={"workers": more}), machine)


def test_a_number_that_was_asked_for_is_a_limit_and_not_cut_to_the_machine():
    machine = Machine(cpus=2)
    found = [workers_of(n, Resources(workers=6), machine) for n in (1, 4, 8, 9, 12)]
    assert found == [1, 4, 4, 3, 6]


def test_each_trial_has_workers_of_its_own(tmp_path, monkeypatch):
    """One that has a single logical worker leaves the others theirs."""
    monkeypatch.setattr(resources, "machine_cpus", lambda: 4)
    variants = [
        {"name": str(n), "baseline": True, "set": {"training.num_workers": n}}
        for n in (8, 1)
    ]
    base = {"training": {"expected_batch_size": 8}}
    space = space_in(
        tmp_path, base=base, variants=variants, resources={"executor": "gang"}
    )
    plan = prepare_space(space, settings=settings_in(tmp_path)).plan
    assert sentence(plan, space.resources) == (
        "1 trial 1 at a time, 4 workers each (the largest divisor of"
        " training.num_workers=8 that fits), then 1 trial 4 at a time, 1 worker each"
        " (training.num_workers=1); 4 CPUs."
    )


@pytest.mark.parametrize(
    "name", ["paper_none", "paper_linear", "paper_exponential", "atis_grid"]
)
@pytest.mark.parametrize(
    ("machine", "most"),
    [
        (Machine(cpus=2), 2),
        (Machine(cpus=16, gpus=1), 1),
        (Machine(cpus=16, gpus=4), 4),
    ],
)
def test_the_grids_start_on_two_cpus_and_on_gpus(name, machine, most):
    space = spaces.read(name)
    logical = space.base["training"]["num_workers"]
    gpus = gpu_share(space.resources.gpus_per_worker, machine)
    asked = space.resources.model_copy(update={"gpus_per_worker": gpus})
    workers = workers_of(logical, asked, machine)
    assert workers == min(logical, most)
    assert choose_slots(asked.model_copy(update={"workers": workers}), machine) >= 1
