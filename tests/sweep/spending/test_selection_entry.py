"""A private selection is charged once as a whole, and by its trials once they are all shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from sweep.spending.entries import Entry, furthest
from sweep.spending.ledger import FILE, Ledger
from sweep.spending.selection_entry import (
    TRIAL,
    charge_composed,
    composed_entries,
    entry_of,
    selection_charge,
)
from sweep.spending.training_data import TrainingData
from trainables.accountants import Release, epsilon_sweep
from trainables.accountants._release import BestOf
from trainables.errors import InvalidData

DELTA = 1e-5
DATA = TrainingData("fingerprint", "mine", lambda: iter(()))
ONE = Release(
    phases=((4.0, 3),),
    sampling="shuffle",
    sample_rate=1.0,
    neighboring_relation="replace_one",
)
SELECTION = Release(
    phases=(),
    sampling="shuffle",
    sample_rate=1.0,
    neighboring_relation="replace_one",
    best_of=BestOf(mean=3.0, shape=1.0, configurations=(ONE,)),
)


def draw(trial: str, *, epochs: int = 3, attempt: int = 1, sweep: str = "draws@2") -> Entry:
    """An entry of the vault: epochs of one drawn trial."""
    return Entry(
        dataset="fingerprint",
        sweep=sweep,
        trial=trial,
        attempt=attempt,
        first_epoch=0,
        epochs=epochs,
        delta=DELTA,
        release=Release(
            phases=((4.0, epochs),),
            sampling="shuffle",
            sample_rate=1.0,
            neighboring_relation="replace_one",
        ),
    )


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / FILE)


@pytest.fixture
def vault(tmp_path: Path, ledger: Ledger) -> Ledger:
    """The vault's ledger has three draws, one of which was resumed after its first epoch."""
    vault = Ledger(tmp_path / "vault" / FILE)
    for entry in (draw("a"), draw("b", epochs=1), draw("b", attempt=2), draw("c")):
        vault.charge(entry)
    return vault


def spent(ledger: Ledger) -> float:
    releases = [entry.release for entry in furthest(ledger.entries())]
    return epsilon_sweep(releases, delta=DELTA).epsilon


def test_the_whole_selection_is_one_entry_of_its_sweep(ledger: Ledger) -> None:
    assert selection_charge(ledger, "s@1") is None
    made = entry_of(SELECTION, delta=DELTA, data=DATA, sweep="s@1")
    ledger.charge(made)
    ledger.charge(entry_of(ONE, delta=DELTA, data=DATA, sweep="other@1"))
    found = selection_charge(Ledger(ledger._log.path), "s@1")
    assert found is not None
    assert (found.trial, found.release, found.delta) == (TRIAL, SELECTION, DELTA)
    assert found.dataset == ledger.name_of("fingerprint")
    assert found.dataset_name == "mine"


def test_what_is_shown_costs_its_composition_and_no_longer_the_selection(
    ledger: Ledger, vault: Ledger
) -> None:
    ledger.charge(entry_of(SELECTION, delta=DELTA, data=DATA, sweep="s@1"))
    charge_composed(ledger, vault, sweep="s@1")
    draws = [entry.release for entry in furthest(vault.entries())]
    assert len(draws) == 4, "a repeated epoch was released twice"
    assert spent(ledger) == epsilon_sweep(draws, delta=DELTA).epsilon
    mine = [entry for entry in ledger.entries() if entry.sweep == "s@1"]
    assert {entry.trial for entry in mine} == {TRIAL, "a", "b", "c"}
    assert {entry.dataset for entry in mine} == {ledger.name_of("fingerprint")}


def test_at_no_moment_of_the_charges_less_is_charged_than_has_been_shown(
    ledger: Ledger, vault: Ledger
) -> None:
    """A crash comes between any two of them; the selection is the last that goes."""
    selection = entry_of(SELECTION, delta=DELTA, data=DATA, sweep="s@1")
    entries = composed_entries(vault.entries(), selection)
    assert [entry.trial for entry in entries][-1] == TRIAL
    assert entries[-1].release.is_nothing
    assert not any(entry.release.is_nothing for entry in entries[:-1])
    ledger.charge(selection)
    before = spent(ledger)
    for entry in entries[:-1]:
        ledger.charge(entry)
        assert spent(ledger) > before
        before = spent(ledger)


def test_charging_again_after_a_crash_adds_what_is_missing_alone(
    ledger: Ledger, vault: Ledger
) -> None:
    selection = entry_of(SELECTION, delta=DELTA, data=DATA, sweep="s@1")
    ledger.charge(selection)
    for entry in composed_entries(vault.entries(), selection)[:2]:
        ledger.charge(entry)
    charge_composed(ledger, vault, sweep="s@1")
    once = len(ledger.entries())
    assert once == 1 + 4 + 1
    charge_composed(ledger, vault, sweep="s@1")
    assert len(ledger.entries()) == once


def test_without_the_selection_nothing_is_unsealed(ledger: Ledger, vault: Ledger) -> None:
    with pytest.raises(InvalidData, match=r"expected the ledger's entry of s@1, got none"):
        charge_composed(ledger, vault, sweep="s@1")
    assert ledger.entries() == []
