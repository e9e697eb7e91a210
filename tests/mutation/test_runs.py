"""What counts as a kill, which mutants are drawn, and which of them are reviewed."""

import time
from collections import Counter

import pytest

from . import runs
from .forks import in_child
from .operators import mutants_of
from .reach import Reach
from .reviewed import covers, entries
from .runs import Runner, all_mutants, sample

PASSES, FAILS = (None, ""), ("a test", "what it said")


@pytest.mark.parametrize(
    ("with_fault", "without", "outcome"),
    [
        (FAILS, PASSES, "killed"),
        (PASSES, PASSES, "survived"),
        ("timeout", PASSES, "killed"),
        ("crashed", PASSES, "killed"),
        ("timeout", "timeout", "undecided"),
        ("crashed", "crashed", "undecided"),
        ("timeout", FAILS, "undecided"),
        ("waited", PASSES, "killed"),
        ("waited", "waited", "undecided"),
    ],
)
def test_a_limit_that_the_sources_exceed_too_is_no_kill(
    with_fault, without, outcome, monkeypatch
):
    """A busy machine must not count as a test that notices."""
    ends = iter([with_fault, without])
    monkeypatch.setattr(runs, "in_child", lambda work, **limits: next(ends))
    monkeypatch.setattr(runs, "_near", lambda mutant: ("",))
    mutant = mutants_of("a = 1 + 2", "a.py")[0]
    runner = Runner(Reach({}, []), [].append, budget=1.0, until=0.0)
    assert runner._outcome(mutant, ["a test"], {}, {})["outcome"] == outcome


def test_a_fork_that_waits_has_not_used_its_time():
    assert in_child(lambda: time.sleep(60), cpu_seconds=5, seconds=0.2) == "waited"


def test_a_fork_that_computes_for_too_long_has():
    def compute():
        while True:
            pass

    assert in_child(compute, cpu_seconds=0, seconds=120) == "timeout"


def test_a_sample_by_share_has_of_each_folder_its_share():
    mutants = [
        mutant
        for file, lines in (("a/one.py", 90), ("b/one.py", 10))
        for mutant in mutants_of(
            "\n".join(f"a{n} = {n} + 2" for n in range(lines)), file
        )
    ]
    for count in (20, 100):
        drawn = sample(mutants, count=count, seed=1, by_share=True)
        found = Counter(mutant.file for mutant in drawn)
        assert found["b/one.py"] == pytest.approx(count / 10, abs=1)
    assert sample(mutants, count=20, seed=2, by_share=True) != drawn[:20]


def test_every_reviewed_entry_names_a_mutant_that_there_is():
    """An entry whose code is gone would excuse whatever has its name later."""
    mutants = [vars(mutant) for mutant in all_mutants()]
    gone = [
        fields
        for _, fields in entries()
        if not any(covers(fields, mutant) for mutant in mutants)
    ]
    assert not gone
