"""Bounds are as near as they were: golden values, so that none becomes looser unseen.
They were checked against `dp_accounting` and closed forms by the tests beside this one.
"""

import math
from dataclasses import replace

import numpy as np
import pytest
from _mechanisms import sampled, training
from dp_accounting import get_epsilon_gaussian
from scipy.stats import norm

from tests.refusals import refused
from trainables.dp.accounting import allocation, library, pld, renyi
from trainables.dp.accounting.certification import (
    Certificate,
    _is_affordable,
    _within_reach,
    certify,
    is_long,
    points_for,
    profile,
)
from trainables.dp.accounting.composition import Account, RdpFilter, _costs
from trainables.dp.accounting.gaussian import (
    gaussian_epsilon,
    merge_gaussians,
    mu_of,
    without_amplification,
)
from trainables.dp.accounting.releases import (
    Allocated,
    BestOf,
    Gaussian,
    Number,
    Sampled,
    Unaccounted,
)


def steps(*each):
    """(sigma, count, rate) of each step."""
    return tuple(sampled(sigma, steps=count, rate=rate) for sigma, count, rate in each)


SMALL = ((0.1, 1_200, 0.025), (0.2, 300, 0.1), (1.0, 3, 1))


@pytest.mark.parametrize(
    ("what", "delta", "epsilon"),
    [
        (SMALL, 1e-5, 3788.8497809893406),
        (SMALL[::-1], 1e-5, 3788.8497809893406),
        (((0.3, 1, 1e-6),), 1e-5, 18.425388846765983),  # the largest lambda
        (((0.3, 1, 1e-12),), 1e-5, 16.492863775082917),  # a larger one would be better
        (((2.0, 10**8, 0.5),), 1e-5, 6268708.181023572),  # the smallest
        (((2.0, 10**9, 0.5),), 1e-5, 62566213.31118578),
    ],
)
def test_known_coins(what, delta, epsilon):
    assert without_amplification(steps(*what), delta=delta) == pytest.approx(
        epsilon, rel=1e-10
    )
    least = 5e-324  # it has no half
    assert without_amplification(steps(*what), delta=least) == gaussian_epsilon(
        mu_of(steps(*what)), least
    )


def test_one_gaussian_mechanism():
    """The library's figure up to a mu of 10^4, and the bound above it."""
    for mu in (0.01, 1.0, 7e3, 9.99e3):
        assert gaussian_epsilon(mu, 1e-5) == pytest.approx(
            get_epsilon_gaussian(1 / mu, 1e-5), rel=1e-10
        )
    for mu in (1.001e4, 1.9e4):
        assert gaussian_epsilon(mu, 1e-5) == pytest.approx(
            mu**2 / 2 + 4.264890793922825 * mu
        )
    mixed = (Gaussian(sigma=2.0, count=3), *steps((1.0, 5, 0.1)), Gaussian(sigma=0.5))
    assert mu_of(mixed) == pytest.approx(math.sqrt(0.75 + 5 + 4), rel=1e-14)
    (whole, other) = merge_gaussians(mixed)
    assert (whole.sigma, whole.count, other) == (pytest.approx(4.75**-0.5), 1, mixed[1])
    assert merge_gaussians(mixed[:2])[0].sigma == pytest.approx(2 / math.sqrt(3))
    assert merge_gaussians(mixed[1:]) == mixed[1:]


def test_the_step_of_a_grid_is_a_round_number_below():
    for place in (-7, -3, 0, 2):
        one = 10.0**place
        for wanted, found in (
            *((1.0, 1), (1.999, 1), (2.0, 2), (4.99, 2), (5.0, 5), (9.99, 5)),
            *(
                (2 - 1e-6, 2),
                (2 - 1.4e-6, 2),
                (2 - 3e-6, 1),
                (1 - 1.7e-9, 1),
                (1 - 3e-9, 0.5),
            ),
        ):
            assert pld._round_down(wanted * one) == pytest.approx(
                found * one, rel=1e-12
            )
    assert pld._round_down(1e-12) == pytest.approx(1e-8)


@pytest.mark.parametrize(
    ("what", "grids"),
    [
        (((1.0, 1_200, 0.025),), (2e-4, 1e-3, 2e-3, 1e-2)),
        (((20.0, 1, 1),), (1e-5, 5e-5, 1e-4, 5e-4)),
        (((1.7, 10**6, 1e-4),), (2e-5, 2e-5, 2e-5, 5e-5)),
        (((1.0, 600, 0.02), (1.01, 600, 0.02)), (2e-4, 5e-4, 2e-3, 1e-2)),
        (((0.6, 5 * 10**5, 1e-5),), (1e-4, 1e-4, 1e-4, 1e-4)),
        (((0.8, 2, 0.01), (4.0, 2, 0.5)), (2e-4, 5e-4, 2e-3, 1e-2)),
        (((4.0, 2, 0.5), (0.8, 2, 0.01)), (2e-4, 5e-4, 2e-3, 1e-2)),
    ],
)
def test_the_grid_of_a_distribution(what, grids):
    found = (
        pld.interval(steps(*what), delta=1e-5, points=points)
        for points in (pld.FINE, pld.MEDIUM, pld.QUICK, pld.COARSE)
    )
    assert tuple(found) == pytest.approx(grids, rel=1e-9)


@pytest.mark.parametrize("mu", [33.7, 34.5, 40, 100])
def test_epsilons_above_the_largest_exponent(mu):
    """Of e^-709 and less the library divides by zero."""
    exact = gaussian_epsilon(mu, 1e-5)
    found = pld.epsilon_of((Gaussian(sigma=1 / mu),), delta=1e-5, points=pld.COARSE)
    assert exact <= found < exact * 1.001


def test_an_epsilon_holds_both_ways_is_not_below_0_and_covers_no_infinite_loss():
    what = steps((1.0, 600, 0.02))
    whole = pld.distribution(
        what, pld.interval(what, delta=1e-5, points=pld.COARSE), False
    )
    assert pld.epsilon_at(whole, delta=1.0) == 0 < pld.epsilon_at(whole, delta=0.1)
    assert len(whole) == 2
    assert pld.epsilon_at(whole[::-1], delta=0.1) == pld.epsilon_at(whole, delta=0.1)
    assert pld.epsilon_at(whole, delta=1e-20) == math.inf


def test_which_steps_have_no_distribution():
    whole, rare, once = (
        (Gaussian(sigma=1.0),),
        steps((1.0, 10, 0.1)),
        (Allocated(sigma=1, steps=9),),
    )
    half = [replace(step, sigma=step.sigma / 2) for step in rare + once]
    assert pld.for_replace_one(whole + rare + once) == (*whole, *half)
    shuffled, chosen, small = "got shuffle", "got random_allocation", "noise so small"
    for what, replace_one, why in (
        *(
            (whole, True, shuffled),
            (whole, False, ""),
            (whole + rare, True, ""),
            (rare, True, ""),
        ),
        *(
            (once + rare, True, chosen),
            (rare + once + rare, False, chosen),
            (rare, False, ""),
        ),
        (
            steps((0.008, 1, 0.9)),
            False,
            "",
        ),  # epsilon 8,344, and 32,315 of twice the sum
        (steps((0.008, 1, 0.9)), True, small),
        (steps((0.004, 1, 1)), False, small),
    ):
        found = pld.unsupported_reason(what, delta=1e-5, replace_one=replace_one)
        assert why in found
        assert bool(why) == bool(found)


def test_further_pairs_of_a_distribution():
    what, pairs = (
        steps((1.0, 600, 0.02), (2.0, 3, 1)),
        ((0.0, 0.4073811977), (1.0, 0.15469505953)),
    )
    pairs += ((4.0, 2.4249602807e-4), (800.0, 6.054904e-13))
    grid = pld.interval(what, delta=1e-5, points=pld.COARSE)
    found = library.profile(what, grid=grid, epsilons=tuple(at for at, _ in pairs))
    assert [at for at, _ in found] == [at for at, _ in pairs]
    assert [delta for _, delta in found] == pytest.approx(
        [delta for _, delta in pairs], rel=1e-6
    )


@pytest.mark.parametrize(
    ("epsilon", "order", "budget"),
    [
        (0.0055, 1024.0, 0.0019985903229284936),
        (0.02, 512.0, 0.01163291968916789),
        (1.0, 18.0, 0.5499493722473566),
        (8.0, 3.9, 4.795593777579508),
        (1e5, 1.1, 99888.22174242113),
    ],
)
def test_the_order_of_a_filter_leaves_most_room(epsilon, order, budget):
    kept = RdpFilter.of(epsilon, delta=1e-5)
    met = renyi.to_epsilon(np.array([budget]), delta=1e-5, orders=(order,))
    assert met == pytest.approx(epsilon, rel=1e-8)
    assert (kept.order, kept.budget) == (order, pytest.approx(budget, rel=1e-9))
    assert kept.is_sound


@pytest.mark.parametrize(
    ("sigma", "num_steps", "orders", "removed", "added"),
    [
        (
            *(0.7, 10, (1.1, 1.5, 1.9, 2.0, 2.5, 16.0)),
            (
                0.24365710324,
                0.35165892442,
                0.4774712436,
                0.51263737019,
                0.83614004781,
                14.023945519,
            ),
            (
                0.2158354906,
                0.2856555032,
                0.35240477272,
                0.36868383908,
                0.44799352478,
                2.146357405,
            ),
        ),
        (
            *(3.0, 300, (1.1, 1.99, 2.0, 4.5, 64.0)),
            (
                2.1550651766e-4,
                3.8970534145e-4,
                3.9165352688e-4,
                8.9524398061e-4,
                0.012545055955,
            ),
            (
                2.1540257390e-4,
                3.8967748201e-4,
                3.9163560057e-4,
                8.8114654844e-4,
                0.012520755595,
            ),
        ),
        (
            *(0.3, 7, (1.1, 1.9, 2.0, 4.5, 64.0)),
            (4.2409946938, 8.6098798949, 9.1652906301, 23.450915248, 353.60964541),
            (2.8154084754, 4.0224355817, 4.1540413932, 6.8946538179, 355.55555556),
        ),
        (
            *(
                0.7,
                10,
                (255.5, 256.0, 257.0),
                (258.41270299, 258.9219047, 262.24489796),
            ),
            (260.71428571, 261.2244898, 262.24489796),
        ),
        (0.14, 5, (1.1, 2.0), (1.1 / 0.0392, 2 / 0.0392), (1.1 / 0.0392, 2 / 0.0392)),
        (0.15, 5, (2.0,), (1 / 0.0225 - math.log(5),), (23.088211598,)),
        (
            0.16,
            5,
            (1.1, 2.0),
            (19.874945275, 37.453062088),
            (14.515547944, 20.046854037),
        ),
        # Little but the allowance for rounding: 1e-12 + 1e-14 for each step.
        (
            1e4,
            2,
            (2.0, 3.0),
            (5.001019970e-9, 7.500510176e-9),
            (5.001041730e-9, 7.500520613e-9),
        ),
        (
            1e4,
            100,
            (2.0, 3.0),
            (1.02000e-10, 1.509991e-10),
            (1.020227e-10, 1.510111e-10),
        ),
        (100.0, 10**9, (2.0,), (1e-5,), (1e-5,)),
    ],
)
def test_random_allocation(sigma, num_steps, orders, removed, added):
    grid = allocation._log_grid(
        sigma, start=-30.0
    )  # to where the transform has vanished
    assert (grid[0], grid[-1]) == (
        -30.0,
        pytest.approx(12 + 12 / sigma + 0.5 / sigma**2, abs=0.04),
    )
    found = allocation.divergences(sigma, num_steps=num_steps, orders=orders)
    for one, expected in zip(found, (removed, added), strict=True):
        assert one.tolist() == pytest.approx(
            expected, rel=3e-10 if sigma < 10 else 1e-5
        )


def many(count, apart=0.01):
    return training(*steps(*((1 + apart * n, 10, 0.02) for n in range(count))))


CHOSEN = BestOf(
    number=Number(law="geometric", mean=5.0),
    configurations=(training(*steps((2.0, 300, 0.02))),),
)
ALLOCATED = Allocated(sigma=1.0, steps=40, count=5)
SHUFFLED = training(*steps((5.0, 3, 1)), relation="replace_one")
MU = math.sqrt(3) / 5
# At two epsilons, and at that of the best test with 1 % false positives.
GAUSSIAN_PAIRS = tuple(
    (at, norm.cdf(MU / 2 - at / MU) - math.exp(at) * norm.cdf(-MU / 2 - at / MU))
    for at in (0.5, 1.0, -MU * norm.ppf(0.01) - MU**2 / 2)
)


# The first letters of the bounds, and epsilon: of a plan, of a total, by orders for a
# plan and exactly; and for one record replaced, without the total.
CASES = [
    (training(*steps((1.0, 600, 0.02), (1.1, 600, 0.02))), 1e-5,
     "pprrprr 3.9995848 3.94854862 4.36350393 4.36075098 6.54033996 10.3579763"
     " 10.3579763"),
    (training(*steps((1.0, 600, 0.02), (3.0, 2, 1))), 1e-5,
     "pprrprr 3.6613409 3.63406569 4.05131394 4.02175624 6.56588652 9.45382552"
     " 9.45382552"),
    (many(4), 1e-5,
     "rprrrrr 1.5921899 1.03226716 1.5921899 1.50401601 3.70280568 3.70280568"
     " 3.62610046"),
    (many(17), 1e-5,
     "rrrrrrr 1.90315677 1.88738511 1.90315677 1.85367935 4.50762148 4.50762148"
     " 4.40011357"),
    (training(*steps((0.8, 150_000, 0.001))), 1e-5,
     "rprrrrr 3.52311353 3.24067229 3.52311353 3.50544008 8.02959346 8.02959346"
     " 8.02959346"),
    (training(replace(ALLOCATED, sigma=0.4), *steps((2.0, 100, 0.02))), 1e-5,
     "rrrrrrr 23.1483117 23.1483117 23.1483117 23.1483117 91.1939403 91.1939403"
     " 91.1939403"),
    (training(ALLOCATED, *steps((4.0, 2, 1))), 1e-5,
     "rrrrrrr 2.87087427 2.87087427 2.87087427 2.87087427 6.60011547 6.60011547"
     " 6.60011547"),
    ([CHOSEN, training(*steps((10.0, 1, 1), (1.0, 100, 0.02)))], 1e-5,
     "rrrrrrr 2.87934879 2.87934879 2.87934879 2.87934879 6.67077822 6.67077822"
     " 6.67077822"),
    ([training(*steps((2.0, 300, 0.02))), SHUFFLED], 1e-5,
     "pprrprr 1.95763476 1.95197612 2.30961674 2.30961674 1.95763476 2.30961674"
     " 2.30961674"),
    ([CHOSEN, SHUFFLED, replace(CHOSEN, configurations=(SHUFFLED,)), CHOSEN], 1e-5,
     "rrrrrrr 7.84541638 7.84541638 7.84541638 7.84541638 7.84541638 7.84541638"
     " 7.84541638"),
    (training(*steps((0.05, 100, 0.02))), 1e-5,
     "pprrgrr 2022.85108 2022.22681 28847.5094 17808.553 10306.5319 158065.105"
     " 158065.105"),
    ([training(*steps((2.77, 238, 0.00104)))], 1e-14,
     "rrrrrrr 0.43108078 0.43108078 0.43108078 0.43108078 0.898664335 0.898664335"
     " 0.898664335"),
]  # fmt: skip


@pytest.mark.parametrize(("what", "delta", "expected"), CASES)
def test_certificates(what, delta, expected):
    found = [
        certify(what, delta=delta, effort=effort, only=only, replace_one=one)
        for one in (False, True)
        for effort, only in (
            ("plan", None),
            ("total", None),
            ("plan", "rdp"),
            ("exact", "rdp"),
        )
        if (effort, one) != ("total", True)
    ]
    names, *figures = expected.split()
    assert [each.epsilon for each in found] == pytest.approx(
        [*map(float, figures)], rel=1e-8
    )
    assert "".join(each.accountant[0] for each in found) == names
    assert not any(each.tight for each in found)


@pytest.mark.parametrize(
    ("what", "name", "pairs"),
    [
        (many(4), "pld", ((0.5, 0.00083370700924), (1.0, 1.2767750428e-5))),
        (many(4), "rdp", ((1.847685429, 1e-6), (0.80012997033, 1e-3))),
        (CHOSEN, "rdp", ((1.6093475668, 1e-6), (1.2569980516, 1e-3))),
        (CHOSEN, "pld", ((1.6093475668, 1e-6), (1.2569980516, 1e-3))),
        (SHUFFLED, "gaussian", GAUSSIAN_PAIRS),
        (many(101), "rdp", ((2.9927309037, 1e-6), (1.7931463114, 1e-3))),
        (training(), "pld", ()),
        (training(Gaussian(sigma=0.0)), "rdp", ()),
        (training(Gaussian(sigma=math.inf)), "rdp", ()),
    ],
)
def test_profiles(what, name, pairs):
    found = profile(
        what, name, delta=1e-5, epsilons=(0.5, 1.0), deltas=(1e-6, 1e-3), fprs=(0.01,)
    )
    assert found == [pytest.approx(pair, rel=1e-8) for pair in pairs]


def test_how_much_is_composed_on_how_fine_a_grid():
    sizes = (3, 4, 16, 17, 100, 101)
    points = {
        "plan": pld.COARSE,
        "total": pld.MEDIUM,
        "running": pld.MEDIUM,
        "exact": pld.FINE,
    }
    for (effort, finest), most in zip(points.items(), (3, 16, 100, 100), strict=True):
        for size in sizes:
            some = many(size).steps
            assert points_for(some, effort) == (finest if size <= 3 else pld.QUICK)
            assert _is_affordable(some, effort) == (size <= most)
    for counts, is_long_ in (
        ((100_000,), False),
        ((100_001,), True),
        ((60_000, 60_000), True),
    ):
        first, *more = ((1.0 + n, count, 0.1) for n, count in enumerate(counts))
        some = steps(first, (1.0, 10**6, 1), *more)
        assert is_long(some) == is_long_
        assert _is_affordable(some, "plan") != is_long_
        assert _is_affordable(some, "total")


def test_more_than_a_hundred_sizes_of_noise_are_rounded_as_finely_as_a_hundred_allow(
    monkeypatch,
):
    """The figure is then not the smallest one."""
    assert certify(many(2), delta=1e-5, effort="running").tight
    with monkeypatch.context() as few:
        few.setattr("trainables.dp.accounting.certification._MANY", 2)
        _within_reach.cache_clear()
        found = certify(many(3, 1e-3), delta=1e-5, effort="running")
        assert (found.accountant, found.tight) == ("pld", False)
    _within_reach.cache_clear()
    assert _within_reach(many(100)) == many(100)
    whole = training(*(Gaussian(sigma=1 + n) for n in range(120)))
    assert _within_reach(whole) == whole
    for what, sizes, total in (
        (many(101), 65, 93.83338515),
        (many(230, 1e-4), 67, 67.75396048647),
    ):
        found = _within_reach(what).steps
        assert len(found) == sizes
        assert sum(step.count for step in found) == sum(
            step.count for step in what.steps
        )
        assert sum(step.sigma for step in found) == pytest.approx(total, rel=1e-9)


def test_an_account_counts_in_parts_that_are_rounded_up():
    """2^-40 each; what has no finite cost is above all of them."""
    per_order = 2.0**40 / (2 * 1e12)
    parts = [*(math.ceil(order * per_order) for order in renyi.FEW_ORDERS), 2]
    assert list(_costs(training(Gaussian(sigma=1e6)), None)) == [*parts, 0]
    kept = RdpFilter(epsilon=1.0, delta=1e-5, order=10.0, budget=1.0)
    assert list(_costs(training(Gaussian(sigma=1e6)), kept)) == [
        *parts,
        math.ceil(10 * per_order),
    ]
    endless = [2**2_000] * len(renyi.FEW_ORDERS)
    assert list(_costs(training(Gaussian(sigma=0.0)), None)) == [*endless, 2**2_000, 0]
    assert list(_costs(replace(CHOSEN, shown=(SHUFFLED,)), kept))[-2:] == [
        2**2_000,
        math.ceil(kept.cost(CHOSEN) * 2.0**40),
    ]
    assert _costs(training(Gaussian(sigma=1e-90)), None)[-2] == pytest.approx(
        1e180 * 2.0**40
    )


def test_a_filter_takes_as_much_as_its_budget():
    one = training(Gaussian(sigma=1.0))  # costs order / 2
    kept = RdpFilter(epsilon=9.0, delta=1e-5, order=2.0, budget=3.0)
    made, empty = Account(kept), Account(kept).total()
    assert empty == Certificate(
        epsilon=9.0, delta=1e-5, accountant="rdp filter, order 2", tight=False,
        neighboring_relation=None, num_releases=0,
    )  # fmt: skip
    for number in range(3):
        made.put(number, one, delta=1e-7)
    full = replace(empty, neighboring_relation="add_or_remove_one", num_releases=3)
    assert made.total() == full
    assert made.over(9.0, {}, delta=1e-5) is None
    assert made.over(9.0, {3: training(Gaussian(sigma=1e5))}, delta=1e-5) == replace(
        full, epsilon=math.inf, num_releases=4
    )
    mixed = made.over(
        9.0, {0: training(Gaussian(sigma=9.0), relation="replace_one")}, delta=1e-5
    )
    assert mixed.unaccounted == (
        "filter: expected trials of one neighboring_relation and one unit, got"
        " [('add_or_remove_one', 'record'), ('replace_one', 'record')]",
    )
    assert made.total() == full
    assert (made.num_beside({}), made.num_beside({1: 0, 7: 0})) == (3, 2)


@pytest.mark.parametrize("share", [1 + 5e-10, 1 + 0.9e-9, 1 + 1.1e-9, 1 + 3e-9])
def test_a_filter_is_sound_up_to_rounding(share):
    kept = RdpFilter.of(8.0, delta=1e-5)
    assert replace(kept, budget=kept.budget * share).is_sound == (share < 1 + 1e-9)
    for change in ({"order": 1.0}, {"order": 0.5}, {"delta": 0.0}, {"delta": 1.0}):
        assert not replace(kept, **change, budget=-1e9).is_sound
    assert replace(kept, order=1.5, budget=-1e9).is_sound


def test_the_cost_in_a_filter_is_the_least_of_larger_orders():
    """Of a couple that of one record replaced: by way of two divergences."""
    what = training(*steps((0.4, 20, 0.1)))
    couple = replace(what, unit="couple")
    found = [
        RdpFilter(epsilon=1.0, delta=1e-5, order=order, budget=1.0).cost(each)
        for order in (1.1, 2.25, 8.0)
        for each in (what, couple, CHOSEN)
    ]
    expected = [
        18.67593619,
        245.7557441,
        1.002682534,
        58.21509987,
        465.1345955,
        1.002682534,
    ]
    assert found == pytest.approx(
        [*expected, 447.3694836, 1906.956946, 1.002682534], rel=1e-8
    )


def test_more_effort_is_made_before_a_refusal():
    """The total is 3.94855, exactly 3.94844."""
    made = Account()
    for number, sigma in enumerate((1.0, 1.1)):
        made.put(number, training(*steps((sigma, 600, 0.02))), delta=1e-5)
    assert made.bound(delta=1e-5) == pytest.approx(4.3635039312, rel=2e-9)
    assert made.over(3.9485, {}, delta=1e-5, exact=True) is None
    assert made.over(3.9485, {}, delta=1e-5).epsilon == pytest.approx(
        3.9485486214, rel=1e-8
    )
    assert made.over(3.9, {}, delta=1e-5, exact=True).epsilon == pytest.approx(
        3.94844462, rel=1e-8
    )
    assert made.over(made.total().epsilon, {}, delta=1e-5) is None
    for number in range(2):
        made.put(number, CHOSEN, delta=1e-5)
    assert made.total() == certify([CHOSEN] * 2, delta=1e-5, effort="total")


@pytest.mark.parametrize("mean", [1.5, 20.0, 1e4])
def test_the_chance_that_a_number_ends_is_rounded_down(mean):
    """By a billionth, which is more than the search for it leaves."""
    stop = renyi.halting(mean)
    share = (1 / stop - 1) / -math.log(stop) / mean - 1
    assert share == pytest.approx(
        1e-9 * (1 / (1 - stop) + 1 / math.log(stop)), rel=0.05
    )
    assert renyi.halting(1.0) == 1.0


def test_what_is_no_release():
    for delta in (0.0, 1.0, -0.1, math.nan):
        with refused(f"expected 0 < delta < 1, got delta={delta}"):
            certify(SHUFFLED, delta=delta)
    endless = Unaccounted(reasons=("a",), neighboring_relation="add_or_remove_one")
    assert certify([endless, endless], delta=0.1) == Certificate(
        epsilon=math.inf, delta=0.1, accountant="pld", tight=True, num_releases=2,
        neighboring_relation="add_or_remove_one", unaccounted=("a",),
    )  # fmt: skip
    assert certify(
        replace(SHUFFLED, steps=(Gaussian(sigma=0.0),)), delta=0.1
    ).accountant == ("gaussian")
    for rate in (0.0, 1.0):
        with pytest.raises(ValueError, match=f"expected 0 < rate < 1, got {rate}"):
            Sampled(sigma=1.0, rate=rate)
    assert Allocated(sigma=1.0, steps=1).steps == 1
    for law in ("geometric", "logarithmic", "poisson"):
        assert Number(law=law, mean=1.0).mean == 1.0
        for mean in (0.99, math.inf):
            with pytest.raises(
                ValueError, match=f"expected a finite mean >= 1, got {mean}"
            ):
                Number(law=law, mean=mean)
    with pytest.raises(
        ValueError, match="expected geometric, logarithmic or poisson, got 'grid'"
    ):
        Number(law="grid", mean=2.0)
    one, silent = SHUFFLED, replace(SHUFFLED, steps=(Gaussian(sigma=0.0),))
    group = replace(one, unit="group")
    added = replace(one, neighboring_relation="add_or_remove_one")
    for some in ((), (one, group), (group, one), (one, one, added), (added, one)):
        with pytest.raises(ValueError, match="one neighboring_relation and one unit"):
            replace(CHOSEN, configurations=some)
    why = ("the noise decays to nothing (noise_decay)",)
    chosen = replace(CHOSEN, configurations=(one,))
    assert (chosen.unit, chosen.neighboring_relation) == ("record", "replace_one")
    for some in ((one, silent), (silent, one)):
        assert replace(CHOSEN, configurations=some).reasons == why
        assert replace(chosen, shown=some).reasons == why
    assert (
        replace(one, beside=silent.steps).reasons
        == replace(silent, beside=one.steps).reasons
    )
    assert (silent.reasons, one.reasons, chosen.reasons) == (why, (), ())
    assert (
        replace(one, steps=(), beside=one.steps).everything
        == one.everything
        == one.steps
    )
    assert not replace(one, steps=(), beside=one.steps).is_nothing
    assert not one.is_nothing
