"""The library has the last word: exact figures are those that `dp_accounting` gives
when it is called directly, and the fast forms that plan and search stay at or above
them.
"""

import ast
import itertools
import math
from dataclasses import replace

import pytest
from _mechanisms import histogram, mechanism, poisson, sampled, shuffled, training
from dp_accounting import NeighboringRelation, get_epsilon_gaussian
from dp_accounting.pld.privacy_loss_distribution import from_gaussian_mechanism

from tests.structure import ROOT
from trainables.cards.card import make
from trainables.cards.page import to_markdown
from trainables.dp.accounting import calibration, library, pld
from trainables.dp.accounting.calibration import noise_for
from trainables.dp.accounting.certification import certify, points_for, profile
from trainables.dp.accounting.choose import account
from trainables.dp.accounting.gaussian import gaussian_epsilon, without_amplification
from trainables.dp.accounting.releases import (
    Allocated,
    BestOf,
    Gaussian,
    Number,
    release,
)

_NOISE = 1e-10  # relative and absolute: what sums of a million floats differ by


def theirs(steps, grid, *, replace_one=False):
    """The distribution of steps, made here by the library's public functions."""
    whole = None
    for step in steps:
        replaced = replace_one and not isinstance(step, Gaussian)
        one = from_gaussian_mechanism(
            step.sigma,
            value_discretization_interval=grid,
            sampling_prob=step.rate,
            neighboring_relation=NeighboringRelation.REPLACE_ONE
            if replaced
            else NeighboringRelation.ADD_OR_REMOVE_ONE,
        )
        one = one.self_compose(step.count) if step.count > 1 else one
        whole = one if whole is None else whole.compose(one)
    return whole


def composed(*parts):
    """(sigma, rate, count) of each kind of step."""
    return tuple(sampled(sigma, rate=rate, steps=count) for sigma, rate, count in parts)


ONE_KIND = [
    composed(each)
    for each in itertools.product(
        (0.25, 0.5, 0.8, 1, 2, 8), (1e-4, 0.01, 0.25, 0.9), (1, 30, 3000)
    )
]
SEVERAL = [
    composed((1.0, 0.02, 300), (1.5, 0.02, 300), (0.7, 0.02, 10)),
    composed((0.5, 0.1, 5), (4.0, 0.001, 10_000)),
    composed((1.0, 0.02, 300), (3.0, 1, 1)),
    composed((20.0, 0.5, 7), (0.9, 0.3, 1), (5.0, 1, 1)),
    composed(*((1 + n / 10, 0.02, 41) for n in range(12))),
]
SLOW = [
    pytest.param(each, marks=[pytest.mark.slow] * (number % 6 != 0))
    for number, each in enumerate(ONE_KIND)
]


@pytest.mark.parametrize("steps", [*SLOW, *SEVERAL])
def test_the_fast_forms_are_at_or_above_the_library(steps):
    """On the grid of each effort, for both relations and several deltas."""
    for points, delta in itertools.product((pld.COARSE, pld.QUICK), (1e-7, 1e-5, 5e-4)):
        grid = pld.interval(steps, delta=delta, points=points)
        for replace_one in (False, True):
            if pld.unsupported_reason(steps, delta=delta, replace_one=replace_one):
                continue
            own = pld.epsilon_of(
                steps, delta=delta, points=points, replace_one=replace_one
            )
            distribution = theirs(steps, grid, replace_one=replace_one)
            if own > 600:  # near the end of its range its answer is coarser
                assert distribution.get_delta_for_epsilon(own) <= delta
            else:
                assert (
                    own
                    >= distribution.get_epsilon_for_delta(delta) * (1 - _NOISE) - _NOISE
                )
                assert own == pytest.approx(
                    distribution.get_epsilon_for_delta(delta), rel=1e-3
                )


@pytest.mark.parametrize("delta", [1e-12, 1e-7, 1e-5, 5e-4, 0.3])
def test_one_gaussian_is_at_or_above_the_library(delta):
    """Of steps on all records and of shuffled epochs, of one sigma and of several."""
    for mu in (1e-3, 0.01, 0.1, 0.5, 1, 2, 5, 20, 100, 1e3, 9.9e3):
        known = get_epsilon_gaussian(1 / mu, delta)
        assert known <= gaussian_epsilon(mu, delta) <= known * (1 + _NOISE) + 1e-11
    steps = tuple(
        Gaussian(sigma=sigma, count=count) for sigma, count in ((1, 3), (2, 8), (9, 99))
    )
    mu = math.sqrt(3 + 8 / 4 + 99 / 81)
    assert without_amplification(steps, delta=delta) >= get_epsilon_gaussian(
        1 / mu, delta
    )


@pytest.mark.parametrize(
    ("mu", "delta"), [(1, 0.3), (3e-3, 1e-3), (2e-5, 1e-5), (0.7, 0.27)]
)
def test_next_to_delta_of_0_epsilon_is_0(mu, delta):
    """It was a ValueError of a search without a change of sign."""
    at_zero = math.erf(mu / math.sqrt(8))
    for share in (-1e-11, -1.1e-12, -1e-12, -9e-13, -1e-15, 0, 1e-15, 1e-9):
        assert 0 <= gaussian_epsilon(mu, at_zero * (1 + share)) < 1e-9
    assert gaussian_epsilon(mu, at_zero / 2) > 0
    assert gaussian_epsilon(mu, at_zero * (1 + 1e-9)) == 0


WHATS = {
    "sampled": poisson(1.0),
    "decay": training(*composed((2.0, 0.02, 300), (1.5, 0.02, 200), (1.0, 0.02, 100))),
    "beside": replace(poisson(1.2), beside=histogram(4.0)),
}


@pytest.mark.parametrize("name", WHATS)
@pytest.mark.parametrize("replace_one", [False, True])
def test_a_certified_figure_is_the_librarys(name, replace_one):
    """To the last bit, at a delta that is smaller by what its sums may lose."""
    what, delta = WHATS[name], 1e-5
    found = certify(what, delta=delta, replace_one=replace_one)
    steps = what.steps if not what.beside else (Gaussian(sigma=4.0), *what.steps)
    if (
        replace_one and what.beside
    ):  # two of its counts change: what is on all records moves twice
        steps = (Gaussian(sigma=2.0), *what.steps)
    grid = pld.interval(steps, delta=delta, points=points_for(steps))
    left = delta - 1e-15 * sum(step.count for step in steps)
    expected = theirs(steps, grid, replace_one=replace_one).get_epsilon_for_delta(left)
    assert (found.accountant, found.by_library, found.tight) == ("pld", True, True)
    assert found.epsilon == pytest.approx(expected, rel=1e-14)
    planned = certify(what, delta=delta, replace_one=replace_one, effort="running")
    assert not planned.by_library
    assert planned.epsilon >= found.epsilon
    if not replace_one:
        pairs = profile(what, "pld", delta=delta, epsilons=(0.0, 1.0), deltas=())
        distribution = theirs(steps, grid)
        assert pairs == [
            (at, pytest.approx(distribution.get_delta_for_epsilon(at), rel=1e-6))
            for at in (0.0, 1.0)
        ]


def test_a_certified_gaussian_is_the_librarys():
    what = shuffled(1.0, epochs=30)
    found = certify(what, delta=5e-4)
    assert (found.accountant, found.by_library) == ("gaussian", True)
    assert found.epsilon == get_epsilon_gaussian(1 / math.sqrt(30), 5e-4)
    assert not certify(what, delta=5e-4, effort="plan").by_library
    [(epsilon, delta)] = profile(
        what, "gaussian", delta=5e-4, epsilons=(20.0,), fprs=()
    )
    assert epsilon == 20.0
    assert get_epsilon_gaussian(1 / math.sqrt(30), delta) == pytest.approx(20.0)


@pytest.mark.parametrize("effort", ["plan", "running"])
def test_without_the_effort_the_library_is_not_asked(effort, monkeypatch):
    """Planning and searching keep the fast forms."""
    for name in ("gaussian_epsilon", "epsilon_of", "profile"):
        monkeypatch.setattr(library, name, None)
    assert certify(poisson(1.2345), delta=1e-5, effort=effort).epsilon > 0
    assert certify(shuffled(1.2345), delta=1e-5, effort=effort).epsilon > 0


@pytest.mark.parametrize(
    ("what", "name"),
    [
        (poisson(0.1), "pld"),  # epsilon 2,554, beyond the range of the library
        (poisson(0.02), "gaussian"),  # no distribution: the adversary knows the coins
        (training(Allocated(sigma=1.0, count=3, steps=40)), "rdp"),
        (
            BestOf(number=Number(law="geometric", mean=5), configurations=(poisson(),)),
            "rdp",
        ),
        (shuffled(1e-4), "gaussian"),  # mu above 10^4
    ],
)
def test_what_the_library_does_not_have_keeps_our_own_bound(what, name):
    found = certify(what, delta=1e-5)
    assert (found.accountant, found.by_library) == (name, False)
    assert found.epsilon < math.inf


def test_our_own_figure_beyond_its_range_is_within_delta_by_the_library():
    """Where it gives no epsilon any more, it still gives the delta of ours."""
    steps = composed((0.1, 64 / 2_600, 1_200))
    grid = pld.interval(steps, delta=1e-5, points=pld.FINE)
    assert library.epsilon_of(steps, delta=1e-5, grid=grid, replace_one=False) is None
    own = certify(training(*steps), delta=1e-5).epsilon
    assert own > library.LARGEST_EPSILON
    assert 0.999e-5 < theirs(steps, grid).get_delta_for_epsilon(own) <= 1e-5


def test_a_card_says_which_figures_are_our_own_bounds():
    def of(built):
        summary = account(built)
        card = make(built, summary, trial_id="t", corpus="atis")
        return summary.own_bounds, to_markdown(card).count("by our own upper bound")

    assert of(mechanism("dp_sgd", epochs=1)) == ((), 0)
    assert of(mechanism(epochs=1)) == ((), 0)
    small = mechanism("dp_sgd", epochs=1, noise_multiplier=0.05)
    assert of(small) == (("epsilon", "epsilon_replace_one"), 2)
    once = mechanism("dp_sgd", sampling="random_allocation", epochs=1)
    assert of(once) == (("epsilon", "epsilon_replace_one"), 2)
    assert account(small, exact=False).own_bounds == ()
    assert of(mechanism("sgd")) == ((), 0)


@pytest.mark.parametrize("sampling", ["poisson", "full", "shuffle"])
@pytest.mark.parametrize("target", [1.0, 8.0])
def test_the_answer_of_a_calibration_meets_the_target_by_the_library(sampling, target):
    engine = "edp_sgd" if sampling == "shuffle" else "dp_sgd"
    built = mechanism(engine, sampling=sampling, epochs=4, delta=1e-5)
    z = noise_for(built, target_epsilon=target)
    found = certify(release(replace(built, noise_multiplier=z)), delta=1e-5)
    assert found.by_library
    assert 0.995 * target < found.epsilon <= target
    assert noise_for(built, target_epsilon=target, certified=False) == z


def test_a_search_that_ends_below_the_library_is_rounded_up(monkeypatch):
    """As if a fast form had been lower than the library by a thousandth."""
    built = mechanism(epochs=4, delta=1e-5)
    z = noise_for(built, target_epsilon=8.0)
    monkeypatch.setattr(calibration, "_calibrate", lambda *given: round(z * 0.999, 4))
    found = noise_for(built, target_epsilon=8.0)
    assert z <= found < z * 1.0001
    assert noise_for(built, target_epsilon=8.0, certified=False) < z


def test_no_private_field_of_a_library_is_read():
    """Public functions may change, too, but not without notice."""
    found = {
        f"{path.name}: {node.attr}"
        for folder in ("", "accounting", "accounting/accountants")
        for path in sorted((ROOT / "trainables/dp" / folder).glob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute)
        and node.attr.startswith("_")
        and not node.attr.startswith("__")
        and not (isinstance(node.value, ast.Name) and node.value.id in ("self", "cls"))
    }
    # torch's common bases of its batch and instance norms, to refuse all of them; they
    # have no public name, and without them `clipping.py` could not be imported.
    assert found == {"clipping.py: _BatchNorm", "clipping.py: _InstanceNorm"}
