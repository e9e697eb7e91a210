import math
from dataclasses import replace

import pytest
from _mechanisms import mechanism
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.refusals import refused
from trainables.dp.accounting.calibration import (
    near,
    noise_for,
    smallest_noise_multiplier,
)
from trainables.dp.accounting.certification import certify
from trainables.dp.accounting.choose import epsilon_after
from trainables.dp.accounting.releases import release


@settings(deadline=None)
@example(scale=8.0, power=1.0, target=1.0)  # the root is an end of the bracket
@given(scale=st.floats(1e-4, 1e4), power=st.floats(0.5, 4), target=st.floats(1e-3, 1e3))
def test_the_search_finds_the_root_of_a_known_curve(scale, power, target):
    """epsilon(z) = (scale / z)^power: the answer is never below the root, and close
    above it.
    """
    root = scale / target ** (1 / power)
    found = smallest_noise_multiplier(
        lambda z: (scale / z) ** power, target_epsilon=target
    )
    assert (scale / found) ** power <= target * (1 + 1e-12)
    assert root * (1 - 1e-9) <= found <= root * (1 + 1.5e-4)


@pytest.mark.parametrize(
    "step", [0.7, *(9.999 + 10.0**-place for place in range(6, 12))]
)
def test_the_search_meets_a_step(step):
    """A curve that jumps: the answer is on the sound side, and not two digits away."""
    found = smallest_noise_multiplier(
        lambda z: 9.0 if z < step else 1.0, target_epsilon=5.0
    )
    assert step <= found <= step * (1 + 1.5e-5)
    assert found == float(f"{found:.5g}")


def test_the_search_evaluates_few_points():
    seen = []

    def curve(z):
        seen.append(z)
        return 1 / z + 0.1 / z**2

    found = smallest_noise_multiplier(curve, target_epsilon=3.0)
    assert len(seen) <= 15
    seen.clear()
    assert near(curve, target_epsilon=3.0, guess=1.01 * found) == found
    assert len(seen) <= 5
    assert near(lambda z: 9.0 if z < 1 else 1.0, target_epsilon=5.0, guess=1.0) is None
    assert near(lambda z: 4.99 * z, target_epsilon=5.0, guess=1.0) is None, (
        "above the target"
    )
    # So steep that the root, rounded up to five digits, costs three quarters of the
    # target.
    assert (
        near(lambda z: 5 * (1.234567 / z) ** 1e4, target_epsilon=5.0, guess=1.23)
        is None
    )
    # What any noise meets has the least that is tried.
    assert 0 < smallest_noise_multiplier(lambda z: 0.5, target_epsilon=1.0) <= 2e-12


def test_an_unreachable_target_is_refused():
    with refused("no noise multiplier reaches target_epsilon=1"):
        smallest_noise_multiplier(lambda z: 2.0, target_epsilon=1.0)
    for built, reason in (
        (mechanism("sgd"), "no noise is added"),
        (mechanism(group_scale="first_step"), "raw first gradient"),
        (mechanism(reproducible_noise=True), "noise key public"),
    ):
        with refused(f"target_epsilon=3: .*{reason}"):
            noise_for(built, target_epsilon=3.0)
    for target in (0.0, -1.0, 1e-9, math.inf, math.nan):
        with refused("expected 1e-06 <= target_epsilon < inf"):
            noise_for(mechanism(), target_epsilon=target)
    with refused(
        r"paper_zcdp: its figure is no guarantee .*expected gaussian, pld, rdp"
    ):
        noise_for(mechanism(), target_epsilon=3.0, accountant="paper_zcdp")


def test_a_target_that_delta_alone_covers_is_met():
    """A planning bound of 0 has no logarithm: it ended in a ValueError."""
    few = mechanism("dp_sgd", num_records=200, batch=64, epochs=1, delta=1e-3)
    assert (
        noise_for(few, target_epsilon=1e-6) < noise_for(few, target_epsilon=1e-3) * 10
    )


@pytest.mark.parametrize(
    ("built", "target"),
    [
        (mechanism(), 0.5),
        (mechanism(), 300.0),
        (mechanism(workers=1, noise_calibration="central"), 8.0),
        (mechanism(decay="exponential", tau=0.3), 8.0),
        (
            mechanism(
                workers=2, microbatch_size=4, noise_calibration="central", epochs=3
            ),
            8.0,
        ),
        (mechanism("dp_sgd"), 8.0),
    ],
)
def test_every_mechanism_meets_its_target_and_wastes_little(built, target):
    """Exactly accounted epsilon is at most the target; with a two-thousandth less noise
    it would pass it. The running total agrees, so a budget equal to the target lets the
    last epoch through.
    """
    z = noise_for(
        replace(built, noise_multiplier=0.0), target_epsilon=target
    )  # it is ignored
    calibrated = replace(built, noise_multiplier=z)
    what = release(calibrated)
    assert certify(what, delta=built.delta).epsilon <= target
    assert epsilon_after(calibrated, calibrated.epochs) <= target
    assert certify(what.scale_noise(0.9995), delta=built.delta).epsilon > target
