"""A private selection is charged once as a whole, and by its trials once they are all
shown.
"""

import math
from dataclasses import replace
from types import SimpleNamespace

import pytest
from dp_accounting import GaussianDpEvent, SelfComposedDpEvent
from dp_accounting.dp_event import RepeatAndSelectDpEvent

from sweep.spending.ledger import (
    FILE,
    SELECTION,
    Entry,
    Ledger,
    charge_composed,
    selection_charge,
    selection_entry,
)
from tests.accountants.outside import composed, gaussian_epsilon, rdp_epsilon
from tests.refusals import refused
from trainables.dp.accounting.releases import (
    BestOf,
    Gaussian,
    Number,
    Training,
    Unaccounted,
)
from trainables.errors import InvalidData

DELTA = 1e-5
DATA = SimpleNamespace(fingerprint="fingerprint", name="mine")
ONE = Training(
    steps=(Gaussian(sigma=4.0, count=3),), neighboring_relation="replace_one"
)
CHOSEN = BestOf(number=Number(law="geometric", mean=3.0), configurations=(ONE,))
ENDLESS = Unaccounted(
    reasons=("no noise is added",), neighboring_relation="replace_one"
)


def draw(trial, *, epochs=3, attempt=1, sweep="draws@2", delta=DELTA):
    """An entry of the vault: epochs of one drawn trial."""
    return Entry(
        dataset="of the vault" if sweep == "draws@2" else "fingerprint",
        sweep=sweep,
        trial=trial,
        attempt=attempt,
        epochs=epochs,
        delta=delta,
        release=replace(ONE, steps=(Gaussian(sigma=4.0, count=epochs),)),
    )


@pytest.fixture
def ledger(tmp_path):
    return Ledger(tmp_path / FILE)


def choose(ledger, what=CHOSEN, *, sweep="s@1", delta=DELTA):
    ledger.charge(selection_entry(what, delta=delta, data=DATA, sweep=sweep))


def cost(entries):
    return composed([e.release for e in entries], delta=DELTA)


def spent(ledger):
    return ledger.spend("fingerprint").total.epsilon


def test_the_whole_selection_is_one_entry_of_its_sweep(ledger):
    assert selection_charge(ledger, "s@1") is None
    ledger.charge(draw("a trial", sweep="plain@2"))
    assert selection_charge(ledger, "plain@2") is None, "which chose nothing"
    choose(ledger)
    choose(ledger, ONE, sweep="other@1")
    found = selection_charge(Ledger(ledger._log.path), "s@1")
    assert (found.trial, found.release, found.delta) == (SELECTION, CHOSEN, DELTA)
    assert (found.dataset, found.dataset_name) == (
        ledger.key.name_of("fingerprint"),
        "mine",
    )
    assert replace(CHOSEN, shown=(ENDLESS,)).reasons == ENDLESS.reasons


@pytest.mark.parametrize("number", [1, 2, 3, 12])
@pytest.mark.parametrize("beside", [0, 2])
def test_unsealing_never_lowers_what_was_paid(ledger, number, beside):
    """The larger of both prices is paid: few trials cost less than the choice among
    them.
    """
    choose(ledger)
    for other in range(beside):
        ledger.charge(draw(f"o{other}", sweep="other@2"))
    selected = RepeatAndSelectDpEvent(
        SelfComposedDpEvent(GaussianDpEvent(4.0), 3), 3.0, 1.0
    )
    others = [draw(str(other)) for other in range(beside)]
    paid = SelfComposedDpEvent(GaussianDpEvent(4.0), 3 * beside)
    before = rdp_epsilon(*([selected, paid] if beside else [selected]), delta=DELTA)
    assert spent(ledger) == pytest.approx(before, rel=2e-3), (
        "orders of the library's list alone"
    )
    draws = [draw(f"d{each}") for each in range(number)]
    charge_composed(ledger, draws, sweep="s@1")
    composed = cost([*others, *draws])
    larger = max(before, composed)
    assert larger * (1 - 2e-3) <= spent(ledger) <= 1.01 * larger
    assert number in (2, 3) or (composed > before) == (number == 12)
    more = draw("more", sweep="later@3")
    ledger.charge(more)
    assert spent(ledger) >= cost([*others, *draws, more]) * (1 - 1e-9)
    mine = [entry for entry in ledger.entries() if entry.sweep == "s@1"]
    assert {entry.trial for entry in mine} == {
        SELECTION,
        *(each.trial for each in draws),
    }
    assert {entry.dataset for entry in mine} == {ledger.key.name_of("fingerprint")}


@pytest.mark.parametrize(
    ("selection", "draws", "other"),
    [(1e-3, 1e-5, None), (1e-5, 1e-3, None), (1e-3, 1e-3, 1e-5), (1e-3, 1e-3, None)],
)
def test_the_dearer_of_both_is_found_at_the_smallest_delta_of_any(
    ledger, selection, draws, other
):
    """Three draws cost more than the choice among them at 1e-5, and less at 1e-3."""
    choose(ledger, delta=selection)
    if other:
        tiny = replace(
            draw("o", sweep="other@2", delta=other),
            release=replace(ONE, steps=(Gaussian(sigma=1e6),)),
        )
        ledger.charge(tiny)
    charge_composed(
        ledger, [draw(f"d{each}", delta=draws) for each in range(3)], sweep="s@1"
    )
    least = min(filter(None, (selection, draws, other)))
    assert selection_charge(ledger, "s@1").release.is_nothing == (least == 1e-5)
    if least == 1e-5:
        assert spent(ledger) == pytest.approx(
            gaussian_epsilon(*[4.0] * 9, delta=1e-5), rel=1e-6
        )


@pytest.mark.parametrize("which", ["other", "draw", "configuration"])
def test_what_has_no_finite_cost_does_not_lower_what_was_paid(ledger, which):
    """Where both totals are infinite neither is the larger one: the finite part never
    falls.
    """
    endless = (ONE, ENDLESS) if which == "configuration" else (ONE,)
    choose(ledger, replace(CHOSEN, configurations=endless))
    ledger.charge(replace(draw("sgd", sweep="other@2"), release=ENDLESS))
    draws = [draw("a"), draw("b")]
    if which == "draw":
        draws[1] = replace(draws[1], release=ENDLESS)
    before = ledger.spend("fingerprint")
    charge_composed(ledger, draws[: 1 if which == "other" else 2], sweep="s@1")
    after = ledger.spend("fingerprint")
    assert before.total.epsilon == after.total.epsilon == math.inf
    assert after.accounted.epsilon >= before.accounted.epsilon
    assert not selection_charge(ledger, "s@1").release.is_nothing


def test_couples_are_charged_beside_a_dearer_selection(ledger):
    """Their relation depends on their number, which the selection's price does not
    know.
    """
    choose(ledger, replace(CHOSEN, configurations=(replace(ONE, unit="couple"),)))
    before = spent(ledger)
    draws = [
        replace(e, release=replace(e.release, unit="couple"))
        for e in (draw("a"), draw("b"))
    ]
    charge_composed(ledger, draws, sweep="s@1")
    assert spent(ledger) > before
    assert not any(entry.release.is_nothing for entry in ledger.entries())


def test_at_no_moment_of_the_charges_less_is_charged_than_has_been_shown(
    ledger, monkeypatch
):
    """A crash comes between any two of them; the selection is the last that goes."""
    choose(ledger)
    before, charge, totals = spent(ledger), Ledger.charge, []

    def note(self, entry):
        charge(self, entry)
        totals.append(spent(self))

    monkeypatch.setattr(Ledger, "charge", note)
    charge_composed(ledger, [draw(str(number)) for number in range(12)], sweep="s@1")
    assert totals[:-1] == sorted({before, *totals[:-1]})[1:]
    assert before < totals[-1] < totals[-2]
    last = ledger.entries()[-1]
    assert (last.trial, last.release.is_nothing) == (SELECTION, True)


@pytest.mark.parametrize("number", [2, 12])
def test_charging_again_after_a_crash_adds_what_is_missing_alone(
    ledger, monkeypatch, number
):
    draws = [*(draw(f"d{each}") for each in range(number)), draw("d0", attempt=2)]
    choose(ledger)
    whole = Ledger(ledger._log.path.with_name("whole.jsonl"))
    choose(whole)
    charge_composed(whole, draws, sweep="s@1")
    charge, calls = Ledger.charge, iter(range(2))

    def crash(self, entry):
        next(calls)
        charge(self, entry)

    with monkeypatch.context() as patch:
        patch.setattr(Ledger, "charge", crash)
        with pytest.raises(StopIteration):
            charge_composed(ledger, draws, sweep="s@1")
    for _ in range(2):  # under another name: the folder was renamed
        charge_composed(ledger, draws, sweep="renamed@1")
        keys = [(e.trial, e.attempt, e.epochs, e.release) for e in ledger.entries()]
        assert keys == [
            (e.trial, e.attempt, e.epochs, e.release) for e in whole.entries()
        ]


@pytest.mark.parametrize("number", [1, 12])
def test_trials_of_one_epoch_are_written_down_too(ledger, number):
    choose(ledger)
    charge_composed(
        ledger, [draw(f"d{each}", epochs=1) for each in range(number)], sweep="s@1"
    )
    written = {entry.trial for entry in ledger.entries()}
    assert written == {SELECTION, *(f"d{each}" for each in range(number))}


def test_without_the_selection_nothing_is_unsealed(ledger):
    with refused(r"expected the ledger's entry of s@1, got none", InvalidData):
        charge_composed(ledger, [draw("a")], sweep="s@1")
    assert ledger.entries() == []
