"""The ledger's bound over all sweeps in the gate."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sweep.spending.entries import Entry, PricedTrial, entry_for
from sweep.spending.gate import SpendGate, open_gate
from sweep.spending.ledger import FILE, Ledger
from sweep.store.data_sets import TrainingData
from sweep.store.status import TrialStatus
from tests.sweep.sweeps import space_in
from trainables.accountants import RdpFilter, epsilon_sweep, release
from trainables.config import PrivacyConfig, TrainingConfig
from trainables.privacy.from_config import build_from
from trainables.privacy.mechanism import Mechanism

DATA = TrainingData("aaa", "atis", lambda: iter(()))


def mechanism(**privacy: Any) -> Mechanism:
    return build_from(
        "dp_sgd",
        PrivacyConfig(**{"noise_multiplier": 4.0, "delta": 1e-5, **privacy}),
        training=TrainingConfig(epochs=4),
        num_records=2_560,
    )


def entry(trial: str, **other: Any) -> Entry:
    given = {"dataset": "aaa", "sweep": "s", "epochs": 4, **other}
    return entry_for(given.pop("of", mechanism()), trial=trial, **given)


def cost(number: int) -> float:
    return epsilon_sweep([release(mechanism())] * number, delta=1e-5, exact=True).epsilon


def test_a_bound_over_all_sweeps_has_room_until_it_is_full(tmp_path: Path) -> None:
    """Refused before and at the charge; a baseline without noise is exempt and uses no room, one of
    a private engine pays like any trial. Without a bound everything is charged.
    """
    ledger = Ledger(tmp_path / FILE)
    charge = partial(ledger.charge, budget_total=(cost(2) + cost(3)) / 2)
    plain = replace(mechanism(), engine="sgd", noise_multiplier=0.0)
    sgd = entry("b", of=plain, baseline=True)
    for name in ("t1", "t2"):
        assert charge(entry(name), write=False) is None
        assert len(ledger.entries()) == ("t1", "t2").index(name), "asking writes nothing"
        assert charge(entry(name)) is None
    assert charge(sgd) is None
    assert charge(replace(sgd, trial="b2"), write=False) is None
    for more in (entry("t3"), entry("t3", baseline=True)):
        for write in (True, False):
            assert "exceeds --budget-total" in str(charge(more, write=write))
    assert [each.trial for each in ledger.entries()] == ["t1", "t2", "b"]
    assert ledger.charge(entry("t3")) is None
    assert len(ledger.entries()) == 4


def test_a_longer_entry_of_an_attempt_takes_the_place_of_the_shorter_one(tmp_path: Path) -> None:
    """So that a bound with room for the whole trial lets each of its epochs be charged."""
    charge = partial(Ledger(tmp_path / FILE).charge, budget_total=cost(1) * (1 + 1e-9))
    for epochs in (1, 3, 4):
        assert charge(entry("t1", epochs=epochs)) is None
    assert charge(entry("t1", epochs=1, attempt=2)) is not None


def test_a_gate_has_the_limits_of_its_space_and_what_its_sweep_spent(tmp_path: Path) -> None:
    """Its time, its total by the filter, and the entries of the sweep's name."""
    ledger, now = Ledger(tmp_path / FILE), [50.0]
    limits = {"seconds": 100.0, "total": 3.0}
    space = space_in(tmp_path, base={"engine": "dp_sgd"}, budget=limits)
    folder: Any = SimpleNamespace(
        space=lambda: space, ledger_name="s", records=lambda *, running: [],
        seconds_run=lambda: now[0],
    )  # fmt: skip
    room = RdpFilter.of(3.0, delta=1e-5)
    priced = [
        PricedTrial(
            trial=SimpleNamespace(id=name, is_exempt=False, epochs=4),  # type: ignore[arg-type]
            mechanism=mechanism(), dataset="aaa", dataset_name="",
        )
        for name in ("t1", "t2")
    ]  # fmt: skip
    ledger.charge(entry("t1"))

    def gate(filter_: RdpFilter) -> SpendGate:
        return open_gate(folder, priced, ledger=ledger, total_filter=filter_)

    cost_of_one = room.cost(entry("t1").release)
    assert gate(room).refusal() is None
    assert gate(room).begin("t2", attempt=1, epochs_done=0) is None
    just_one = replace(room, budget=cost_of_one * (1 + 1e-9))
    refused = gate(just_one).begin("t2", attempt=1, epochs_done=0)
    assert refused == "budget.total=3 has no room for it with the 2 attempts before it (filter)"
    assert gate(room).begin("t1", attempt=1, epochs_done=2) is None
    assert [each.attempt for each in ledger.entries() if each.trial == "t1"] == [1, 2]
    now[0] = 100.0
    assert gate(room).time_is_up() == "budget.seconds=100 reached"


@pytest.mark.parametrize("ended", [["t1"], ["t2"], ["t2", "t1"]])
def test_trials_that_ended_early_leave_the_room_that_they_did_not_use(
    tmp_path: Path, ended: list[str]
) -> None:
    ledger = Ledger(tmp_path / FILE)
    for name in ended:
        ledger.charge(entry(name, epochs=1))
    parts = [release(mechanism(), last=1 if name in ended else None) for name in ("t1", "t2")]
    total = epsilon_sweep([*parts, release(mechanism())], delta=1e-5, exact=True).epsilon * 1.001
    space = space_in(tmp_path, base={"engine": "dp_sgd"}, budget={"total": total})
    records = [
        SimpleNamespace(plan=SimpleNamespace(id=name), seconds=0.0, status=TrialStatus.STOPPED)
        for name in ended
    ]
    folder: Any = SimpleNamespace(
        space=lambda: space, ledger_name="s", seconds_run=lambda: 0.0,
        records=lambda *, running: records,
    )  # fmt: skip
    more, *priced = (
        PricedTrial(
            trial=SimpleNamespace(id=name, is_exempt=False, epochs=4),  # type: ignore[arg-type]
            mechanism=mechanism(), dataset="aaa", dataset_name="",
        )
        for name in ("t3", "t1", "t2")
    )  # fmt: skip
    assert open_gate(folder, priced, ledger=ledger).refusal(more) is None
    records.pop()
    assert "exceeds budget.total" in str(open_gate(folder, priced, ledger=ledger).refusal(more))
