"""The price of the best of a random number of trials: published and independent values,
composition, and the noise that meets a target."""

import math
from dataclasses import replace

import numpy as np
import pytest
from dp_accounting.dp_event import (
    ComposedDpEvent,
    GaussianDpEvent,
    PoissonSampledDpEvent,
    RepeatAndSelectDpEvent,
    SelfComposedDpEvent,
)
from dp_accounting.rdp import RdpAccountant
from scipy import stats
from scipy.optimize import brentq

from tests.accountants._mechanisms import (
    histogram,
    poisson,
    shuffled,
    through_the_ledger,
)
from tests.refusals import refused
from trainables.dp.accounting import renyi
from trainables.dp.accounting.accountants import pld, selection
from trainables.dp.accounting.certification import certify
from trainables.dp.accounting.releases import Number, Unaccounted
from trainables.errors import CannotAnalyze

_DELTA = 1e-5
_ATIS = poisson(
    2.0, steps=2_100, rate=64 / 4_478
)  # 30 epochs of 4,478 records, batches of 64
_TWENTY = Number(law="geometric", mean=20)
_CHOSEN = selection.release_of([_ATIS], number=_TWENTY)


def test_a_selection_composes_with_trials_as_the_library_composes_the_events():
    trial = SelfComposedDpEvent(
        PoissonSampledDpEvent(64 / 4_478, GaussianDpEvent(2.0)), 2_100
    )
    accountant = RdpAccountant(renyi.ORDERS)
    accountant.compose(ComposedDpEvent([RepeatAndSelectDpEvent(trial, 20, 1), trial]))
    found = certify([_CHOSEN, _ATIS], delta=_DELTA, effort="total")
    assert found.epsilon == pytest.approx(accountant.get_epsilon(_DELTA), rel=1e-9)
    assert (found.accountant, found.tight, found.num_releases) == ("rdp", False, 2)
    assert found.neighboring_relation == "add_or_remove_one"


@pytest.mark.parametrize(
    ("law", "shape"), [("geometric", 1.0), ("logarithmic", 0.0), ("poisson", math.inf)]
)
@pytest.mark.parametrize("mean", [1.0, 1.5, 20.0, 1e6])
def test_the_theorem_is_the_librarys(law, shape, mean):
    """Of a trial that its events can express."""
    accountant = RdpAccountant(renyi.ORDERS)
    accountant.compose(RepeatAndSelectDpEvent(GaussianDpEvent(3.0), mean, shape))
    found = renyi.best_of(
        renyi.curve(shuffled(3.0, epochs=1)), Number(law=law, mean=mean)
    )
    np.testing.assert_allclose(found, accountant.rdp, rtol=1e-8, atol=1e-8)
    assert (found >= accountant.rdp * (1 - 1e-12)).all() or law == "logarithmic"


def test_shared_divergences_cannot_be_written_to():
    """One caller's change would be another one's figure."""
    for shared in (renyi.curve(_CHOSEN), renyi._one(_ATIS.steps[0], renyi.FEW_ORDERS)):
        with pytest.raises(ValueError, match="read-only"):
            shared += 1.0


@pytest.mark.parametrize("num_shown", [0, 1, 3, 60])
def test_trials_that_are_shown_cost_their_composition_where_that_is_more(num_shown):
    opened = renyi.curve(replace(_CHOSEN, shown=(_ATIS,) * num_shown))
    expected = np.maximum(renyi.curve(_CHOSEN), num_shown * renyi.curve(_ATIS))
    np.testing.assert_allclose(opened, expected, rtol=1e-12)


@pytest.mark.parametrize("number", [_TWENTY, Number(law="poisson", mean=5)])
def test_a_ledger_keeps_a_selection(number):
    chosen = selection.release_of([_ATIS, poisson(3.0)], number=number)
    again = through_the_ledger(chosen)
    assert again == chosen
    with refused("pld: expected no selection", CannotAnalyze):
        pld.of_release(again, delta=_DELTA)
    assert certify([again], delta=_DELTA, effort="total") == certify(
        [chosen], delta=_DELTA, effort="total"
    )


def test_a_selection_with_one_open_configuration_has_no_finite_epsilon():
    open_trial = Unaccounted(
        reasons=("no noise",), neighboring_relation="add_or_remove_one"
    )
    chosen = selection.release_of([_ATIS, open_trial], number=_TWENTY)
    found = certify([chosen], delta=_DELTA, effort="total")
    assert math.isinf(found.epsilon)
    assert found.unaccounted == ("no noise",)
    with refused("selection costs inf .*parts without an accountant"):
        selection.noise_for(
            [_ATIS, open_trial], target_epsilon=8.0, delta=_DELTA, number=_TWENTY
        )


@pytest.mark.parametrize("law", ["geometric", "logarithmic", "poisson"])
@pytest.mark.parametrize("target", [1.0, 4.0])
def test_the_noise_of_a_target_makes_the_selection_cost_it(law, target):
    number = Number(law=law, mean=10)
    unit = [poisson(1.0, steps=500), poisson(1.5, steps=300)]
    z = selection.noise_for(unit, target_epsilon=target, delta=_DELTA, number=number)
    found = [what.scale_noise(z) for what in unit]
    assert (
        0.99 * target
        <= selection.of_releases(found, delta=_DELTA, number=number)
        <= target
    )


def test_a_target_below_what_the_choice_or_a_histogram_costs_is_refused():
    alone = selection.epsilon_of_choice_alone(_TWENTY, delta=_DELTA)
    assert 0 < alone < 0.1
    with refused("the choice among a number of trials with mean 20"):
        selection.noise_for(
            [poisson()], target_epsilon=alone / 2, delta=_DELTA, number=_TWENTY
        )
    unit = replace(poisson(1.0, steps=500), beside=histogram(1.0))
    with refused("without the training steps the selection costs"):
        selection.noise_for([unit], target_epsilon=2.0, delta=_DELTA, number=_TWENTY)


def _best_exceeds(tail, law, mean):
    """The chance that the best of a number with this law exceeds what one trial does
    with chance `tail`: 1 - G(1 - tail), with the law's generating function G.
    """
    if law == "geometric":
        return np.asarray(mean * tail / (1 + (mean - 1) * tail))
    if law == "poisson":
        return np.asarray(-np.expm1(-mean * tail))
    gamma = brentq(
        lambda each: (1 / each - 1) / -math.log(each) - mean, 1e-12, 1 - 1e-9
    )
    return np.asarray(np.log1p((1 - gamma) / gamma * tail) / -math.log(gamma))


@pytest.mark.parametrize("law", ["geometric", "logarithmic", "poisson"])
@pytest.mark.parametrize(("sigma", "mean"), [(1.0, 20.0), (2.0, 20.0), (0.5, 5.0)])
def test_the_price_covers_what_an_attacker_finds_exactly_and_one_trials_does_not(
    law, sigma, mean
):
    """Trials are Gaussians that one record moves by 1, and the best is the largest: the
    chance of every threshold is known. The price bounds the epsilon that they show, one
    trial's does not.
    """
    thresholds = np.linspace(-3 * sigma, 12 * sigma, 40_000)
    without, with_one = (
        _best_exceeds(stats.norm.sf(thresholds, shift, sigma), law, mean)
        for shift in (0.0, 1.0)
    )
    seen = with_one > 2 * _DELTA
    shown = float(np.log((with_one[seen] - _DELTA) / without[seen]).max())
    trial = shuffled(sigma, epochs=1)
    one = certify([trial], delta=_DELTA, effort="total").epsilon
    price = selection.of_releases(
        [trial], delta=_DELTA, number=Number(law=law, mean=mean)
    )
    assert one < shown <= price
