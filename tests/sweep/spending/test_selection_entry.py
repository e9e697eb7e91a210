"""A private selection is charged once as a whole."""

from dataclasses import replace

import pytest

from sweep.spending.entries import Entry
from sweep.spending.ledger import (
    FILE,
    SELECTION,
    Ledger,
    selection_charge,
    selection_entry,
)
from sweep.store.data_sets import TrainingData
from trainables.guarantee.releases import BestOf, Gaussian, Number, Training, Unaccounted

DELTA = 1e-5
DATA = TrainingData("fingerprint", "mine", lambda: iter(()))
ONE = Training(steps=(Gaussian(sigma=4.0, count=3),), neighboring_relation="replace_one")
CHOSEN = BestOf(number=Number(law="geometric", mean=3.0), configurations=(ONE,))
ENDLESS = Unaccounted(reasons=("no noise is added",), neighboring_relation="replace_one")


def draw(trial, *, epochs=3, attempt=1, sweep="draws@2"):
    """An entry of the vault: epochs of one drawn trial."""
    return Entry(
        dataset="of the vault" if sweep == "draws@2" else "fingerprint",
        sweep=sweep,
        trial=trial,
        attempt=attempt,
        first_epoch=0,
        epochs=epochs,
        delta=DELTA,
        release=replace(ONE, steps=(Gaussian(sigma=4.0, count=epochs),)),
    )


@pytest.fixture
def ledger(tmp_path):
    return Ledger(tmp_path / FILE)


def spent(ledger):
    return ledger.spend("fingerprint").total.epsilon


def test_the_whole_selection_is_one_entry_of_its_sweep(ledger):
    assert selection_charge(ledger, "s@1") is None
    made = selection_entry(CHOSEN, delta=DELTA, data=DATA, sweep="s@1")
    ledger.charge(made)
    ledger.charge(selection_entry(ONE, delta=DELTA, data=DATA, sweep="other@1"))
    found = selection_charge(Ledger(ledger._log.path), "s@1")
    assert (found.trial, found.release, found.delta) == (SELECTION, CHOSEN, DELTA)
    assert found.dataset == ledger.name_of("fingerprint")
    assert found.dataset_name == "mine"
