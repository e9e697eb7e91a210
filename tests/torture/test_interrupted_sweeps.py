"""`sweep run` is interrupted through the installed command:
`tests/torture/interrupts.py`.
"""

import pytest

from tests.torture.interrupts import (
    EXECUTORS,
    Case,
    cases_of_phases,
    interrupt,
    problems,
    resumed,
)

FEW = [
    Case(executor="local", way="SIGINT", delay=0.0),
    Case(executor="local", way="SIGTERM", delay=4.0, terminal=True),
]
PHASES = [
    Case(executor="local", way="stop", delay=0.3, phase="1 of 3 done", second=0.1),
    *(case for executor in EXECUTORS for case in cases_of_phases(executor)),
]


@pytest.mark.parametrize("case", FEW, ids=str)
def test_an_interrupt_is_reported_and_leaves_nothing_behind(case, tmp_path):
    assert problems(case, interrupt(case, tmp_path), tmp_path) == []


@pytest.mark.slow
@pytest.mark.parametrize("case", PHASES, ids=str)
def test_so_is_one_in_each_phase_and_the_sweep_resumes(case, tmp_path):
    ending = interrupt(case, tmp_path)
    assert problems(case, ending, tmp_path) == []
    if ending.begun:
        assert resumed(tmp_path) == 0
