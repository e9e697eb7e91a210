"""The audit of a release: 0 on independent text, positive on copies, never above the
truth.
"""

import dataclasses
import itertools
import math

import numpy as np
import pytest

from tests.refusals import refused
from trainables.attacks.one_run import epsilon_lower_bound
from trainables.release_audit import audit_release

COMMON = [f"w{i}" for i in range(30)]


def records(n, seed):
    """Sentences of common words and one word of their own."""
    rng = np.random.default_rng(seed)
    return [
        " ".join(
            [
                *rng.choice(COMMON, size=6),
                f"name{seed}x{index}",
                *rng.choice(COMMON, size=2),
            ]
        )
        for index in range(n)
    ]


def sides_of(pool, member):
    return [
        [text for text, mine in zip(pool, member, strict=True) if mine == side]
        for side in (True, False)
    ]


def coins(pool, seed):
    return sides_of(pool, np.random.default_rng(seed).integers(0, 2, size=len(pool)))


SIDES = coins(records(400, 1), 0)


def test_copies_of_members_are_found():
    members, held_out = SIDES
    found = audit_release(
        members[:100] + records(300, 2), members, held_out, delta=1e-5
    )
    assert found.epsilon_lower_bound > 1.5
    assert found.p_value < 1e-9
    assert (found.num_copies_members, found.num_copies_held_out) == (100, 0)
    one = found.phrases[0]
    assert (one.num_rare_members, one.num_rare_held_out) == (
        len(members),
        len(held_out),
    )
    assert found.num_records == 400
    assert one.num_matched_members == found.num_copies_members
    assert one.num_matched_held_out == 0


@pytest.mark.slow  # 260 audits
@pytest.mark.parametrize(
    ("delta", "num_audits", "most"),
    [(0.0, 200, 20), (1e-9, 60, 8)],
)
def test_no_false_alarms_under_randomised_response(delta, num_audits, most):
    """A release that copies each record with a chance that is epsilon-DP: audits at p =
    .05.

    A member is copied with probability q = e / (1 + e) of those copied, which is the
    worst case of epsilon = 1. More than 5 % + 3 sigma (20 of 200, 8 of 60) bounds above
    1 would be false alarms; where the truth is epsilon = 3, most audits must object to
    1.
    """
    pool = records(300, 3)

    def bounds(epsilon):
        q = math.exp(epsilon) / (1 + math.exp(epsilon))
        found = []
        for seed in range(num_audits):
            rng = np.random.default_rng(seed)
            member = rng.integers(0, 2, size=len(pool)).astype(bool)
            # Copied where a noisy coin says "member": the answer is right with
            # probability q.
            says = np.where(rng.random(len(pool)) < q, member, ~member)
            released = [text for text, say in zip(pool, says, strict=True) if say]
            sides = sides_of(pool, member)
            audit = audit_release(released, *sides, delta=delta, orders=(1,), seed=seed)
            found.append(audit.epsilon_lower_bound)
        return np.array(found)

    assert (bounds(1.0) > 1.0).sum() <= most
    assert (bounds(3.0) > 1.0).mean() > 0.5


@pytest.mark.slow  # 48 audits
def test_equal_matches_are_ordered_independently_of_the_side():
    """A release with every word of 784 records tells nothing: at p = .05, 6 or more of
    40 audits with a bound above 0 have a probability of 1.4 %.

    With the members' records first, the order of seed 0 began with members wherever the
    coins fell, and every second audit gave a bound.
    """
    pool = [f"w{index}" for index in range(784)]
    found = [
        audit_release(pool, *coins(pool, seed), delta=1e-9, orders=(1,))
        for seed in range(40)
    ]
    assert sum(audit.epsilon_lower_bound > 0 for audit in found) <= 5
    few, options = coins(pool[:60], 0), {"delta": 1e-3, "p": 0.99, "orders": (1,)}
    of_seeds = [
        audit_release(pool[:60], *few, seed=seed, **options) for seed in range(8)
    ]
    assert len({audit.epsilon_lower_bound for audit in of_seeds}) > 1


@pytest.mark.parametrize("num_records", [3, 4])
def test_given_the_guess_the_bound_holds_with_its_confidence(num_records):
    """Every outcome of the coins and of randomised response, weighted by its chance: no
    sampling.

    The one record that alone is said to be a member is copied. It is one with
    probability q, and a bound of log(p / (1 - p)) with p just above q is above the true
    epsilon: it may be given in at most a share p of the audits that guess. Sides cut to
    one size would give it in 90 %.
    """
    epsilon = math.log(3)
    q = math.exp(epsilon) / (1 + math.exp(epsilon))  # 3/4
    p = q + 0.01
    pool = records(num_records, 3)
    alarms = guesses = 0.0
    for coins_ in itertools.product((False, True), repeat=num_records):
        says = [index == 0 for index in range(num_records)]
        right = sum(say == coin for say, coin in zip(says, coins_, strict=True))
        chance = q**right * (1 - q) ** (num_records - right)
        found = audit_release(
            pool[:1], *sides_of(pool, coins_), delta=0, p=p, orders=(1,)
        )
        row = found.phrases[0]
        guesses += chance * (row.num_matched_members + row.num_matched_held_out > 0)
        alarms += chance * (found.epsilon_lower_bound > epsilon)
    assert alarms / guesses == pytest.approx(q)
    assert alarms / guesses <= p


@pytest.mark.parametrize("sides", [(300, 100), (0, 40), (21, 0)])
def test_sides_that_no_coins_gave_are_refused(sides):
    pool = records(sum(sides), 1)
    with refused("that fair coins chose"):
        audit_release(["a"], pool[: sides[0]], pool[sides[0] :], delta=0)


def test_more_delta_and_less_risk_certify_less():
    members, held_out = SIDES
    released = members[:60]

    def bound(**options):
        options = {"delta": 0.0, **options}
        return audit_release(released, members, held_out, **options).epsilon_lower_bound

    assert bound() > bound(delta=1e-6) >= bound(delta=1e-5) > bound(delta=1e-2)
    assert bound(p=0.2) > bound(p=0.01)
    assert bound(orders=(1,)) > bound(orders=(1, 2, 3, 4, 5))


def test_a_phrase_that_one_record_repeats_is_its_own():
    found = audit_release(["x"], ["x y x"], ["y"], delta=0, orders=(1,))
    assert (
        found.phrases[0].num_rare_members,
        found.phrases[0].num_matched_members,
    ) == (1, 1)


def test_a_release_counted_by_hand():
    """Of each order: rare members and held-out records, those of them that are matched,
    p.
    """
    released = ["a b c", "G", "g", "x y", "e f", "h i"]
    found = audit_release(released, ["a b c d", "e f", "h i h"], ["x b", "g"], delta=0)
    assert [dataclasses.astuple(row)[:6] for row in found.phrases] == [
        (1, 3, 2, 3, 2, pytest.approx(0.5)),
        (2, 3, 1, 3, 0, pytest.approx(0.125)),
        (3, 2, 0, 1, 0, pytest.approx(0.5)),
        (4, 1, 0, 0, 0, 1.0),
    ]
    assert found.p_value == pytest.approx(4 * 0.125)
    assert (found.num_copies_members, found.num_copies_held_out) == (1, 2)
    assert (found.num_records, found.num_released) == (5, 6)


def test_every_cap_on_the_guesses_has_its_share_of_the_risk():
    members, held_out = SIDES
    found = audit_release(members[:100], members, held_out, delta=1e-5, orders=(1,))
    caps = [1, 2, 3, 4, 6, 8, 11, 16, 23, 32, 45, 64, 91, 128, 181, 256, 362, 400]
    bounds = [
        epsilon_lower_bound(400, cap, min(cap, 100), delta=1e-5, p=0.05 / 18)
        for cap in caps
    ]
    assert found.epsilon_lower_bound == pytest.approx(max(bounds), rel=1e-12)


@pytest.mark.parametrize(
    ("texts", "options", "said"),
    [
        (([], ["a"], ["b"]), {}, "expected released, member and held-out"),
        ((["a"], [], []), {}, "expected released, member and held-out"),
        ((["a"], ["a"], ["b"]), {"orders": (0,)}, "orders of phrases"),
        ((["a"], ["a"], ["b"]), {"orders": ()}, "orders of phrases"),
        *(
            ((["a"], ["b"], ["c"]), rates, "expected 0 <= delta < 1 and 0 < p < 1")
            for rates in (
                *({"delta": delta} for delta in (-1e-9, 1.0, math.nan)),
                *({"p": p} for p in (0, 1)),
            )
        ),
    ],
)
def test_what_cannot_be_audited_is_refused(texts, options, said):
    with refused(said):
        audit_release(*texts, **{"delta": 0, **options})
