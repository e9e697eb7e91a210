"""The ledger takes several writers, survives kills, and recognises shared records."""

import hashlib
import math
import multiprocessing
import os
import signal
import stat
import time
from dataclasses import replace

import pytest

from sweep.spending.ledger import FILE, Ledger, entry_for
from tests.accountants._mechanisms import mechanism as made
from tests.accountants.outside import (
    algorithm_1,
    gaussian_epsilon,
    pld_epsilon,
    sampled,
)
from tests.refusals import refused
from trainables.dp.accounting.certification import certify, with_risk
from trainables.dp.accounting.releases import Gaussian, release
from trainables.errors import InvalidData, InvalidInput


def mechanism(engine="edp_sgd", **privacy):
    noise = {} if engine == "sgd" else {"noise_multiplier": 20.0}
    return made(engine, epochs=4, workers=2, **{**noise, "delta": 1e-5, **privacy})


def entry(trial="t1", *, dataset="aaa", epochs=4, sweep_name="grid", **other):
    what = other.pop("mechanism", mechanism())
    given = {
        "dataset": dataset,
        "sweep": sweep_name,
        "trial": trial,
        "epochs": epochs,
        **other,
    }
    return entry_for(what, dataset_name="atis", **given)


def cost(epochs, *, delta=1e-5):
    """Epsilon of so many epochs of `mechanism()`, whose noise is 20 on two workers."""
    return gaussian_epsilon(*algorithm_1(20.0, workers=2, epochs=epochs), delta=delta)


# Whose numbers JSON does not have.
ENDLESS = replace(release(mechanism()), beside=(Gaussian(sigma=math.inf),))


@pytest.fixture
def ledger(tmp_path):
    return Ledger(tmp_path / FILE)


def test_entries_come_back_as_they_were_written(ledger):
    entries = [
        entry("t1"),
        entry("t2", mechanism=mechanism("dp_sgd"), epochs=2),
        entry("t3", mechanism=mechanism("sgd"), baseline=True),
        replace(entry("t4", attempt=2, first_epoch=1), release=ENDLESS),
    ]
    for each in entries:
        ledger.charge(replace(each, at=1.5))
    name = ledger.key.name_of("aaa")
    assert ledger.entries() == [replace(each, at=1.5, dataset=name) for each in entries]
    assert (ledger.datasets(), ledger.spend("never-seen").total.epsilon) == (
        (name,),
        0.0,
    )
    before = time.time()
    ledger.charge(entry("t5"))
    assert before <= ledger.entries()[-1].at <= time.time()


def _charge_until_killed(path, pipe):
    book = Ledger(path)
    for number in range(100_000):
        book.charge(entry(str(number)))
        pipe.send(number)


def test_what_was_acknowledged_outlives_kill_9(tmp_path):
    path = tmp_path / FILE
    context = multiprocessing.get_context("fork")
    for _ in range(3):
        receiver, sender = context.Pipe(duplex=False)
        process = context.Process(target=_charge_until_killed, args=(path, sender))
        before = len(Ledger(path).entries())
        process.start()
        last = -1
        while last < 5:
            last = receiver.recv()
        assert process.pid is not None
        os.kill(process.pid, signal.SIGKILL)
        process.join(60)
        while receiver.poll():
            try:
                last = receiver.recv()
            except EOFError:
                break
        assert len(Ledger(path).entries()) - before >= last + 1
        Ledger(path).charge(entry("after"))


def test_an_attempt_is_charged_once_and_a_replay_again(ledger):
    """Entries of one attempt are running totals; a second attempt pays for what it
    replays.
    """
    for epochs in (1, 2, 3):
        ledger.charge(entry("t1", epochs=epochs))
    three = ledger.spend("aaa")
    assert (three.num_trials, three.dataset_name) == (1, "atis")
    assert three.total.epsilon == pytest.approx(cost(3), rel=1e-9)
    ledger.charge(entry("t1", attempt=2, first_epoch=2, epochs=4))
    both = ledger.spend("aaa").total
    assert both.epsilon == pytest.approx(cost(3 + 2), rel=1e-9)
    with refused("first_epoch < epochs"):
        entry("t1", first_epoch=2, epochs=2)


def test_a_data_set_that_shares_a_record_carries_the_spend(ledger):
    """One record in ten thousand is enough; the spend of both adds up, in either
    direction.
    """
    first = [f"record {number}".encode() for number in range(10_000)]
    second = [f"other {number}".encode() for number in range(10_000)]
    ledger.key.register("aaa", first)
    ledger.charge(entry("t1", dataset="aaa"))
    ledger.key.register("bbb", [*second, first[77], first[77]])
    new = ledger.spend("bbb")
    assert new.shared == {ledger.key.name_of("aaa"): 1}
    assert new.total.epsilon == ledger.spend("aaa").total.epsilon
    assert new.total.epsilon == pytest.approx(cost(4), rel=1e-9)
    more = entry("t2", dataset="bbb", sweep_name="later")
    assert "exceeds --budget-total" in str(
        ledger.charge(more, budget_total=0.999 * cost(8))
    )
    with refused("to stay within"):
        ledger.require_within("bbb", [more.release], budget_total=0.999 * cost(8))
    assert ledger.charge(more, budget_total=1.001 * cost(8)) is None
    assert ledger.spend("aaa").num_trials == 2
    assert ledger.spend("aaa").sweeps == ("grid", "later")
    assert ledger.spend("aaa").total == ledger.spend("bbb").total
    assert ledger.spend("aaa").total.epsilon == pytest.approx(cost(8), rel=1e-9)
    assert [e.trial for e in ledger.beside(entry(dataset="bbb", sweep_name="new"))] == [
        "t1",
        "t2",
    ]
    ledger.key.register("ccc", [b"a third one"])
    ledger.charge(entry("t3", dataset="ccc"))
    assert (ledger.spend("ccc").num_trials, ledger.spend("ccc").shared) == (1, {})
    assert ledger.spend("ccc").recognised
    assert not ledger.spend("ddd").recognised


def test_what_is_written_is_keyed_and_private(tmp_path, ledger):
    """Whoever knows a fingerprint (all records but one, and a candidate) finds it
    nowhere, two ledgers hash a record differently, and every file is for its owner
    alone.
    """
    fingerprint = hashlib.sha256(b"all the records").hexdigest()
    other = Ledger(tmp_path / "elsewhere" / FILE)
    for each in (ledger, other):
        each.key.register(fingerprint, [b"a secret"])
    assert len({path.read_bytes()[-8:] for path in tmp_path.rglob("*.u64")}) == 2
    ledger.charge(entry("t1", dataset=fingerprint))
    ledger.charge(entry("t2", dataset=fingerprint), budget_total=1e9)
    for path in tmp_path.rglob("*"):
        assert fingerprint not in path.name
        if path.is_file():
            content = path.read_bytes()
            assert fingerprint.encode() not in content
            assert b"secret" not in content
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert ledger.spend(fingerprint).num_trials == 2
    for mode in (0o644, 0o640, 0o610, 0o604, 0o602, 0o601):
        (tmp_path / "ledger.key").chmod(mode)
        with refused(f"readable by its owner only, got mode {mode:o}$"):
            Ledger(tmp_path / FILE).spend("aaa")


def test_a_hash_of_a_record_has_64_bits(tmp_path, ledger):
    """Each of its bytes differs among forty records: fewer bits would meet by
    chance.
    """
    ledger.key.register("aaa", [b"record %d" % number for number in range(40)])
    [listed] = tmp_path.rglob("*.u64")
    hashes = listed.read_bytes()[-40 * 8 :]
    assert all(len(set(hashes[place::8])) > 20 for place in range(8))


def test_a_lost_key_loses_no_entry(tmp_path, ledger):
    """Without the key it is unknown which data set an entry is about: nothing may be
    spent.
    """
    ledger.charge(entry("t1"))
    (tmp_path / "ledger.key").unlink()
    again = Ledger(tmp_path / FILE)
    for ask in (
        lambda: again.spend("aaa"),
        lambda: again.require_within("aaa", [], budget_total=1e9),
        lambda: again.charge(entry("t2"), budget_total=1e9),
        again.datasets,
    ):
        with refused(r"expected the key .* restore it from a copy", InvalidData):
            ask()
    assert len(again.entries()) == 1


def test_a_budget_counts_everything_that_went_before(ledger):
    ledger.charge(entry("t1"))
    planned = [release(mechanism())] * 3
    total = cost(4 * 4)
    ledger.require_within("aaa", planned, budget_total=total * 1.0001)
    with refused("3 planned trials would raise it to") as problem:
        ledger.require_within("aaa", planned, budget_total=total * 0.9999)
    spent = float(str(problem.value).partition("): ")[2].split()[0])
    assert cost(4) <= spent <= 1.001 * cost(4), "rounded up"
    assert len(ledger.entries()) == 1, "nothing is charged by asking"
    with pytest.raises(InvalidInput, match="no noise is added"):
        ledger.require_within("aaa", [release(mechanism("sgd"))], budget_total=1e9)


def test_releases_without_a_guarantee_are_counted_apart(ledger):
    ledger.charge(entry("t1"))
    ledger.charge(entry("t2", mechanism=mechanism("sgd")))
    spend = ledger.spend("aaa")
    assert (spend.total.epsilon, spend.num_unaccounted) == (math.inf, 1)
    assert spend.accounted.epsilon == pytest.approx(cost(4), rel=1e-9)
    ledger.charge(entry("t3", mechanism=mechanism(unit="group")))
    mixed = ledger.spend("aaa")
    assert math.isinf(mixed.accounted.epsilon)
    assert any(
        "no theorem covers a record that is replaced" in r
        for r in mixed.total.unaccounted
    )
    assert mixed.by_unit["record"].epsilon == pytest.approx(cost(4), rel=1e-9)
    assert math.isfinite(mixed.by_unit["group"].epsilon)
    for unit in "fedcba":
        more = entry(unit)
        ledger.charge(replace(more, release=replace(more.release, unit=unit)))
    assert list(ledger.spend("aaa").by_unit) == [*"abcdef", "group", "record"]
    reason = ledger.charge(entry("t4"), budget_total=1e9)
    assert reason is not None
    assert "no theorem covers" in reason


def test_the_command_shows_the_spend(tmp_path, monkeypatch, line):
    monkeypatch.setenv("SWEEP_HOME", str(tmp_path))
    assert "Nothing has been charged" in line.says("ledger")
    book = Ledger(tmp_path / FILE)
    book.key.register("aaa", [b"one"])
    book.charge(entry("t1"))
    book.charge(entry("t2", mechanism=mechanism("sgd")))
    (row,) = line.facts("ledger")["datasets"]
    said = (
        row["dataset"],
        row["dataset_name"],
        row["num_trials"],
        row["total"]["epsilon"],
    )
    assert said == (book.key.name_of("aaa"), "atis", 2, "inf")
    monkeypatch.setenv("COLUMNS", "200")
    assert "for the rest" in line.says("ledger", "atis").replace("\n", " ")
    line.refused("ledger", "missing")
    assert "expected 0 < delta < 1" in line.refused("ledger", "--delta", 2)


def test_by_sweep_each_is_composed_alone(tmp_path, monkeypatch, line):
    monkeypatch.setenv("SWEEP_HOME", str(tmp_path))
    book = Ledger(tmp_path / FILE)
    book.key.register("aaa", [b"one"])
    for name, trials in (("one", ("a", "b")), ("two", ("c",))):
        for trial in trials:
            book.charge(entry(trial, sweep_name=f"{name}@{name}"))
    (whole,) = line.facts("ledger")["datasets"]
    rows = line.facts("ledger", "--by", "sweep")["datasets"]
    assert [(r["sweeps"], r["num_trials"]) for r in rows] == [
        (["one@one"], 2),
        (["two@two"], 1),
    ]
    one, two = (row["total"]["epsilon"] for row in rows)
    assert two < one < whole["total"]["epsilon"] < one + two
    alone = certify(entry("c").release, delta=1e-5)
    assert two == alone.epsilon
    out = line.says("ledger", "--by", "sweep")
    assert out.index(" one ") < out.index(" two ")


def _charge_within(path, writer, count, limit):
    own = Ledger(path)
    for index in range(count):
        own.charge(entry(f"t{index}", sweep_name=f"s{writer}"), budget_total=limit)


def test_sweeps_side_by_side_never_pass_the_total_together(tmp_path):
    """Each of three writers alone stays within the total; without the lock across check
    and charge all three would see room for the last entry.
    """
    path = tmp_path / FILE
    limit = cost(7 * 4) * 1.0001
    writers = [
        multiprocessing.get_context("fork").Process(
            target=_charge_within, args=(path, w, 5, limit)
        )
        for w in range(3)
    ]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(timeout=60)
        assert writer.exitcode == 0
    ledger = Ledger(path)
    assert len(ledger.entries()) == 7
    assert ledger.spend("aaa").total.epsilon <= limit


def test_a_baseline_of_an_earlier_sweep_leaves_room_and_stays_in_what_is_spent(
    tmp_path,
):
    ledger = Ledger(tmp_path / FILE)
    ledger.charge(
        entry("sgd", sweep_name="earlier", mechanism=mechanism("sgd"), baseline=True)
    )
    one = cost(4) * 1.0001
    assert ledger.charge(entry("first"), budget_total=one) is None
    assert "exceeds --budget-total" in str(
        ledger.charge(entry("second"), budget_total=one)
    )
    with refused("to stay within"):
        ledger.require_within("aaa", [release(mechanism())], budget_total=one)
    ledger.charge(entry("beside", sweep_name="another"))
    assert {e.trial for e in ledger.beside(entry())} == {"beside"}
    spend = ledger.spend("aaa")
    assert (spend.total.epsilon, spend.num_unaccounted) == (math.inf, 1)
    assert next(e for e in ledger.entries() if e.trial == "sgd").baseline


def test_the_delta_of_a_total_is_the_smallest_that_was_charged_at(ledger):
    """At a larger delta the same releases look cheaper than their trials claimed."""
    loose, strict = mechanism(), mechanism(delta=1e-8)
    ledger.charge(entry("t1", mechanism=loose))
    ledger.charge(entry("t2", mechanism=strict))
    ledger.charge(entry("t3", mechanism=loose))
    dear, cheap = (cost(3 * 4, delta=at) for at in (1e-8, 1e-5))
    assert cheap < 0.9 * dear
    spent = ledger.spend("aaa")
    assert (spent.total.delta, spent.total.epsilon) == (
        1e-8,
        pytest.approx(dear, rel=1e-9),
    )
    between = (cheap + dear) / 2
    with refused("to stay within"):
        ledger.require_within("aaa", [], budget_total=between)
    assert ledger.charge(entry("t3", mechanism=loose), budget_total=between) is not None
    # An entry of the same attempt replaces what is there, so nothing is added to the
    # total.
    assert ledger.charge(entry("t3", mechanism=loose), budget_total=dear + 1e-6) is None


def test_a_list_of_records_is_on_disk_before_its_rename(ledger, tmp_path, monkeypatch):
    """All of it: after a loss of power a list is whole or not there."""
    sizes = {}

    def fsync(descriptor):
        found = os.fstat(descriptor)
        sizes[found.st_ino] = found.st_size

    monkeypatch.setattr(os, "fsync", fsync)
    ledger.key.register("aaa", [b"one", b"two"])
    [path] = tmp_path.rglob("*.u64")
    assert sizes[path.stat().st_ino] == path.stat().st_size > 16


def test_a_spend_is_the_exact_composition(ledger):
    what = mechanism("dp_sgd", noise_multiplier=1.0)
    ledger.charge(entry(mechanism=what))
    steps = sampled(1.0, rate=64 / 2_560, steps=4 * 40)
    exact = pld_epsilon(steps, delta=1e-5)
    found = ledger.spend("aaa")
    assert found.accounted == found.by_unit["record"]
    assert found.total == with_risk(found.accounted, [release(what)])
    assert 0.01 < found.total.max_tpr_1pct < 0.05
    assert found.total.epsilon == pytest.approx(exact, rel=1e-3)
    assert found.total.tight


@pytest.mark.parametrize("baseline", [False, True])
@pytest.mark.parametrize("engine", ["sgd", "edp_sgd"])
def test_only_a_baseline_without_noise_is_exempt_from_totals(engine, baseline):
    """What has no noise and is not declared one must not pass a budget."""
    charged = entry(mechanism=mechanism(engine), baseline=baseline)
    assert charged.is_exempt == (engine == "sgd" and baseline)
