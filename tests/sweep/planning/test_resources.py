"""How many trials run at a time: as many as fit on CPUs, GPUs and memory, and never more."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from sweep.planning.resources import (
    Machine,
    Share,
    _container_bytes,
    choose_slots,
    machine_cpus,
    this_machine,
)
from trainables.errors import InvalidInput


def slots(
    *, workers: int = 2, cpus: int = 8, gpus: int = 0, memory: float = math.inf, **share: Any
) -> int:
    """The slots of trials, by default of two processes on eight CPUs."""
    machine = Machine(cpus=cpus, gpus=gpus, memory_bytes=memory)
    return choose_slots(workers, Share(**share), machine)


@given(workers=st.integers(1, 9), cpus_per_worker=st.integers(1, 5), cpus=st.integers(1, 200))
def test_cpus_are_filled_and_never_overfilled(
    workers: int, cpus_per_worker: int, cpus: int
) -> None:
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
def test_workers_that_share_gpus_each_sit_on_one_gpu(share: float, workers: int, gpus: int) -> None:
    """Two shares of 0.6 do not fit on one GPU, though 1.2 of two GPUs is free; 93 shares of a
    93rd fit, whose quotient is rounded to less."""
    seats = gpus * {1 / 93: 93, 1 / 7: 7, 1 / 3: 3, 0.3: 3, 0.4: 2, 0.5: 2, 0.6: 1, 1.0: 1}[share]
    assume(seats >= workers)
    found = slots(workers=workers, gpus_per_worker=share, cpus=1000, gpus=gpus)
    assert found == seats // workers


@pytest.mark.parametrize(("gpus", "expected"), [(2, 1), (3, 1), (4, 2), (8, 4)])
def test_a_worker_may_take_several_gpus(gpus: int, expected: int) -> None:
    assert slots(workers=1, gpus_per_worker=2.0, cpus=100, gpus=gpus) == expected


@given(cpus=st.integers(2, 64), memory=st.integers(1, 400), each=st.integers(1, 40))
def test_memory_lowers_the_number_but_one_trial_is_always_tried(
    cpus: int, memory: int, each: int
) -> None:
    found = slots(cpus=cpus, memory_per_worker=each, memory=memory)
    assert found == max(1, min(cpus // 2, memory // (2 * each)))


def test_memory_that_was_never_measured_limits_nothing() -> None:
    assert slots(memory_per_worker=0, memory=1) == slots(memory_per_worker=9, memory=math.inf) == 4


@given(given_slots=st.integers(1, 4))
def test_a_number_that_fits_is_kept(given_slots: int) -> None:
    assert slots(slots=given_slots) == given_slots


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
def test_what_does_not_fit_is_refused_with_the_numbers(changes: dict[str, Any], line: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        slots(**changes)
    assert str(refused.value) == line


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
def test_a_containers_quota_lowers_the_cpus(
    tmp_path: Path, quota: str | None, expected: int | None
) -> None:
    file = tmp_path / "cpu.max"
    if quota is not None:
        file.write_text(f"{quota}\n")
    assert machine_cpus(file) == (expected or len(os.sched_getaffinity(0)))


@pytest.mark.parametrize(
    ("limit", "used", "expected"),
    [
        ("1000", "400", 600),
        ("1000", "1400", 0),  # the kernel may count more than the limit for a moment
        ("max", "400", math.inf),
        ("1000", "some", math.inf),
        (None, None, math.inf),
    ],
)
def test_free_memory_of_a_container_is_its_limit_without_what_is_used(
    tmp_path: Path, limit: str | None, used: str | None, expected: float
) -> None:
    for name, text in (("memory.max", limit), ("memory.current", used)):
        if text is not None:
            (tmp_path / name).write_text(f"{text}\n")
    assert _container_bytes(tmp_path) == expected


def test_this_machine_has_a_cpu_and_leaves_a_tenth_of_its_free_memory() -> None:
    import psutil

    machine = this_machine(with_gpus=False)
    assert machine.cpus == machine_cpus() >= 1
    assert machine.gpus == 0
    assert 0 < machine.memory_bytes <= 0.9 * psutil.virtual_memory().total
