"""What trials cost which data set: the driver charges it, the ledger's total bounds
it.
"""

import math
from dataclasses import replace

import pytest

from sweep.planning.accounting import Accounting
from sweep.planning.prepare import prepare_space
from sweep.planning.pricing import price, require_total
from sweep.spending.ledger import FILE, Ledger, entry_for
from tests.accountants.outside import algorithm_1, gaussian_epsilon
from tests.refusals import refused
from tests.sweep.sweeps import space_in, write_corpus
from trainables.errors import InvalidInput

_PRIVATE = {"privacy": {"delta": 1e-3}}


def cost(*noises, delta):
    """Epsilon of trials of three epochs on two workers, by their noise."""
    sigmas = (sigma for z in noises for sigma in algorithm_1(z, workers=2, epochs=3))
    return gaussian_epsilon(*sigmas, delta=delta)


@pytest.fixture
def ledger(settings):
    settings.home.mkdir()
    return Ledger(settings.home / FILE)


def plan_in(settings, **fields):
    """An SGD baseline and eDP-SGD with noise 0.5 and 1."""
    space = space_in(settings.data_dir, **{"base": _PRIVATE, **fields})
    return prepare_space(space, settings=settings).plan


def settings_beside(settings, name, *, change):
    """Another data directory of the same home, with a changed corpus."""
    folder = settings.data_dir / name
    folder.mkdir()
    write_corpus(folder)
    lines = (folder / "mine.jsonl").read_text().splitlines(keepends=True)
    (folder / "mine.jsonl").write_text("".join(change(lines)))
    return replace(settings, data_dir=folder)


def price_plan(settings, **fields):
    return price(plan_in(settings, **fields).trials, Accounting(settings))


def test_every_trial_that_runs_has_the_price_of_its_plan(settings):
    """In the order of the plan, all on one data set; a refused one has no price."""
    plan = plan_in(settings)
    refused = replace(plan.trials[1], reason="no")
    trials = (plan.trials[0], refused, plan.trials[2])
    found = price(trials, Accounting(settings))
    assert [each.trial for each in found] == [plan.trials[0], plan.trials[2]]
    assert {each.dataset_name for each in found} == {"json_lines"}
    assert len({each.dataset for each in found}) == 1
    for each in found:
        assert each.mechanism.steps == each.trial.steps == 9, "three epochs of 90 / 30"
    found_epsilons = [each.trial.epsilon for each in found]
    assert found_epsilons == [math.inf, pytest.approx(cost(1.0, delta=1e-3), rel=1e-9)]
    assert found[1].mechanism.noise_multiplier == 1.0


def test_its_records_are_registered_so_that_a_copy_is_recognised(settings, ledger):
    _, first, _ = price_plan(settings)
    elsewhere = settings_beside(settings, "copy", change=lambda lines: lines[10:])
    _, second, _ = price_plan(elsewhere)
    assert first.dataset != second.dataset
    assert ledger.spend(second.dataset).shared == {
        ledger.key.name_of(first.dataset): 190
    }


@pytest.mark.parametrize("delta", [1e-3, 1e-8])
def test_a_total_counts_what_was_spent_and_what_is_planned_but_no_baseline(
    settings, ledger, delta
):
    """At the delta of the trials, whatever that is, as the driver charges them."""
    baseline, half, one = price_plan(settings, base={"privacy": {"delta": delta}})
    together = cost(0.5, 1.0, delta=delta)
    require_total([baseline, half, one], ledger, budget_total=1.0001 * together)
    with refused(r"the 2 planned\s+trials would raise it to"):
        require_total([half, one], ledger, budget_total=0.9999 * together)
    require_total([baseline], ledger, budget_total=1e-6)
    ledger.charge(
        entry_for(
            one.mechanism, dataset=one.dataset, sweep="other", trial="t", epochs=3
        )
    )
    require_total([half], ledger, budget_total=1.0001 * together)
    with refused("1 planned"):
        require_total([half], ledger, budget_total=0.9999 * together)


@pytest.mark.parametrize("order", [1, -1])
def test_a_total_of_several_deltas_is_at_the_smallest(settings, ledger, order):
    _, half, one = price_plan(settings)
    strict = replace(one, mechanism=replace(one.mechanism, delta=1e-9))
    together = cost(0.5, 1.0, delta=1e-9)
    require_total([half, strict][::order], ledger, budget_total=1.0001 * together)
    with refused("the 2 planned"):
        require_total([half, strict][::order], ledger, budget_total=0.9999 * together)


def test_each_data_set_has_a_total_of_its_own(settings, ledger):
    """Two corpora without a common record: each within the total, both together beyond
    it.
    """
    _, mine, _ = price_plan(settings)
    elsewhere = settings_beside(
        settings,
        "other",
        change=lambda lines: [s.replace("person", "one") for s in lines],
    )
    _, theirs, _ = price_plan(elsewhere)
    assert mine.dataset != theirs.dataset
    alone = cost(0.5, delta=1e-3)
    require_total([mine, theirs], ledger, budget_total=1.001 * alone)
    with pytest.raises(InvalidInput):
        require_total([mine, mine], ledger, budget_total=1.001 * alone)
