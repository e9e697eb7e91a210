"""A few of the harness's rounds with fixed seeds; `python -m tests.torture` runs
many.
"""

import os

import pytest

from sweep.store.sweeps import SweepFolder
from tests.sweep.logs import rewrite_sweep
from tests.sweep.untracked import run_untracked
from tests.torture import bad_input
from tests.torture.bad_input import FAMILIES, Bench
from tests.torture.damage import DAMAGES, Home
from tests.torture.outcome import (
    BYTES,
    SECONDS,
    Ended,
    Tally,
    classify,
    run,
    run_process,
)


@pytest.fixture(scope="module")
def bench(tmp_path_factory):
    work = tmp_path_factory.mktemp("torture")
    return Bench(Home(run_untracked(work / "made"), work), work)


@pytest.mark.parametrize("seed", range(1, 3))
@pytest.mark.parametrize("family", FAMILIES)
def test_bad_input_is_an_answer_or_one_line(family, seed, bench):
    tally = Tally()
    bad_input.one(bench, family, seed, tally)
    assert tally.findings == []
    assert set(tally.counts) <= {"answered", "refused"}


def test_the_harness_sees_a_traceback(monkeypatch):
    monkeypatch.setattr("sweep.store.sweeps.sweeps", lambda home: 1 / 0)
    tally = Tally()
    run(["list"], tally, how="broken on purpose")
    assert tally.counts == {"tracebacks": 1}
    assert "ZeroDivisionError" in tally.findings[0]


@pytest.mark.slow  # more memory than any answer may take
def test_the_harness_sees_what_an_answer_costs(monkeypatch):
    monkeypatch.setattr(
        "sweep.store.sweeps.sweeps",
        lambda home: [bytes(BYTES + BYTES // 4) + b"1"][1:],
    )
    assert run_process(["list"], environment={}).growth > BYTES
    ended = Ended(code=0, out="", err="", seconds=SECONDS + 1, waited=SECONDS, growth=0)
    assert classify(ended)[0] == "over 10 s"


@pytest.mark.parametrize(
    ("code", "err", "outcome"),
    [
        (0, "", "answered"),
        (2, "error: no\n", "refused"),
        (2, "error: no\nand more\n", "refusals that are not one line"),
        (2, "", "refusals that are not one line"),
        (-11, "", "other exit codes"),
    ],
)
def test_a_refusal_is_one_line(code, err, outcome):
    ended = Ended(code=code, out="", err=err, seconds=0.1, waited=0.1, growth=0)
    assert classify(ended)[0] == outcome


def test_the_installed_command_says_the_same(bench):
    environment = bench.home.environment
    forked = run_process(["list", "--json"], environment=environment)
    installed = run_process(["list", "--json"], environment=environment, installed=True)
    assert (installed.code, installed.out) == (forked.code, forked.out)


@pytest.mark.parametrize(
    "path", [("time",), ("privacy", "epsilon"), ("metrics", "ser")]
)
def test_a_result_with_a_word_for_a_number_is_one_line(path, bench):
    def change(entry):
        place = entry["result"]
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = "bert"
        return entry

    rewrite_sweep(SweepFolder(bench.home.home / "toy"), "ended", change)
    ended = run_process(["show", "toy", "--json"], environment=bench.home.environment)
    bench.home.restore()
    assert classify(ended) == ("refused", "")
    assert f"without a valid ended.result.{'.'.join(path)}" in ended.err


@pytest.mark.parametrize("answer", [b"", b"n\n"])
def test_an_unconfirmed_deletion_is_refused(answer, bench):
    ended = run_process(
        ["delete", "toy"], stdin=answer, environment=bench.home.environment
    )
    assert (ended.code, ended.err) == (1, "error: not confirmed: nothing was changed\n")
    assert (bench.home.home / "toy" / "sweep.jsonl").exists()


@pytest.mark.slow
@pytest.mark.parametrize("name", DAMAGES)
def test_a_damaged_file_is_noticed_or_harmless(name, bench):
    tally = Tally()
    for place in bench.home.files():
        if place.suffix in (".json", ".jsonl", ".yaml"):
            bench.home.damage(name, place, 1, tally)
    assert tally.findings == []
    if name != "not readable" or os.geteuid() != 0:  # root reads every file
        assert tally.counts["damages noticed"] > 0
