"""All figures of one mechanism: the claims, and the refused claims."""

import json
import math
import time
from dataclasses import asdict, replace
from types import SimpleNamespace

import pytest
from _mechanisms import mechanism, poisson, through_the_ledger
from pydantic import TypeAdapter, ValidationError

from tests.refusals import refused
from trainables.config.mechanism import from_plain
from trainables.dp.accounting import choose
from trainables.dp.accounting.accountants import paper_zcdp
from trainables.dp.accounting.certification import certify
from trainables.dp.accounting.choose import account, epsilon_after
from trainables.dp.accounting.releases import (
    Gaussian,
    Release,
    Sampled,
    merged,
    release,
)
from trainables.errors import CannotAnalyze


@pytest.mark.parametrize(
    ("built", "reason"),
    [
        (mechanism("sgd"), "no noise is added"),
        (mechanism(noise_multiplier=0.0), "no noise is added"),
        (mechanism(reproducible_noise=True), "noise key public"),
        (mechanism(group_scale="first_step"), "raw first gradient"),
        (mechanism(undeclared=("label set read from private data",)), "label set"),
        (mechanism("dp_sgd", noise_multiplier=0.0), "no noise is added"),
        (mechanism(decay="exponential", tau=200.0), "decays to nothing"),
    ],
)
@pytest.mark.parametrize("exact", [True, False])
def test_what_is_not_accounted_for_is_infinite_with_its_reason(built, reason, exact):
    summary = account(built, exact=exact)  # parametrised as object
    assert math.isinf(summary.epsilon)
    assert math.isinf(summary.epsilon_rdp)
    assert any(reason in given for given in summary.unaccounted)
    assert (
        json.loads(json.dumps(summary.to_dict(), allow_nan=False))["epsilon"] == "inf"
    )


def test_the_paper_has_a_figure_for_its_own_algorithm_only():
    assert account(mechanism("sgd")).epsilon_paper is None
    assert account(mechanism("dp_sgd")).epsilon_paper is None
    assert account(mechanism()).epsilon_paper is not None
    sampled = mechanism(sampling="poisson", noise_calibration="central")
    assert paper_zcdp.applies(sampled)
    assert not paper_zcdp.applies(replace(sampled, num_steps=5)), (
        "its epochs are no passes"
    )
    assert account(mechanism(noise_multiplier=0.0)).epsilon_paper == math.inf


def test_a_large_delta_gives_a_warning():
    (warning,) = account(mechanism(num_records=2_560, delta=5e-4)).warnings
    assert "delta * n = 1.28" in warning
    assert account(mechanism(num_records=1_000, delta=5e-4)).warnings == ()
    for other in (
        mechanism("sgd", delta=5e-4),
        mechanism(undeclared=("n was counted",), delta=5e-4),
    ):
        assert account(other).warnings == (), (
            "nothing is claimed, or nothing holds at any delta"
        )
    assert account(mechanism(delta=None)).warnings == ()


def test_no_amplification_is_claimed_for_shuffled_data():
    """A figure with amplification would depend on the batch size, which differs
    here.
    """
    small = account(mechanism(noise_calibration="central", num_records=2_560))
    large = account(mechanism(noise_calibration="central", num_records=256_000))
    assert small.epsilon == large.epsilon
    assert small.accountant == "gaussian"
    assert isinstance(release(mechanism()).steps[0], Gaussian)


def test_a_named_accountant_is_used_or_refused():
    summary = account(mechanism("dp_sgd"), accountant="rdp")
    assert (summary.accountant, summary.tight) == ("rdp", False)
    assert summary.epsilon == pytest.approx(4.691, abs=1e-3)
    full = account(mechanism("dp_sgd", sampling="full"), accountant="pld")
    assert (full.accountant, full.tight) == ("pld", True)
    for name, why in (
        ("paper_zcdp", "no guarantee"),
        ("selection", "choice among trials"),
    ):
        with refused(why, CannotAnalyze):
            account(mechanism(), accountant=name)
    with refused("expected accountants to be one of"):
        account(mechanism(), accountant="moments")


@pytest.mark.parametrize(
    ("sigma", "steps", "rate", "delta"),
    [
        (
            0.741473,
            88,
            0.0137269,
            1.129e-12,
        ),  # sums of a fine grid round up more than a coarse one
        (0.79391, 2_453, 0.00031416, 3.825e-11),
        (2.77, 238, 0.00104, 1e-14),  # the best order is one of the few
    ],
)
def test_more_effort_costs_no_more_where_delta_is_tiny(sigma, steps, rate, delta):
    """A noise multiplier found for a target by the running figure must meet it
    exactly.
    """
    what = poisson(sigma, steps=steps, rate=rate)
    plan, running, exact = (
        certify(what, delta=delta, effort=effort).epsilon
        for effort in ("plan", "running", "exact")
    )
    assert 0 < exact <= running <= plan


@pytest.mark.parametrize(
    "built",
    [
        mechanism(epochs=6),
        mechanism("dp_sgd", epochs=3),
        mechanism("dp_sgd", epochs=3, decay="linear", tau=0.3),
        mechanism("dp_sgd", epochs=3, noise_multiplier=0.01),
    ],
)
def test_the_running_total_holds_a_budget(built):
    """It rises with every epoch and is never below the exact figure of a trial stopped
    there.
    """
    assert epsilon_after(built, 0) == 0.0  # parametrised as object
    curve = [epsilon_after(built, epochs) for epochs in range(1, built.epochs + 1)]
    assert curve == sorted(set(curve))
    for epochs, value in enumerate(curve, start=1):
        exact = certify(release(built.first(epochs)), delta=5e-4).epsilon
        assert exact <= value * (1 + 1e-12)
        assert value < exact * 1.01


def test_a_part_of_an_epoch_is_charged_whole():
    """100 records in batches of 64 are two steps, but one shuffled release; under
    Poisson the steps of all epochs together are rounded up, once.
    """
    shuffle = release(mechanism(num_records=100, epochs=3))
    (epochs,) = shuffle.steps
    assert (epochs.sigma, epochs.count) == (pytest.approx(1 / (2 * math.sqrt(8))), 3)
    sampled = mechanism("dp_sgd", num_records=100, epochs=3, delta=None)
    assert release(sampled).steps == (Sampled(sigma=1.0, rate=0.64, count=5),)
    assert sum(sampled.steps_in(epoch) for epoch in range(3)) == 5


@pytest.mark.parametrize("engine", ["edp_sgd", "dp_sgd", "sgd"])
def test_a_trial_that_never_trained_has_spent_nothing(engine):
    summary = account(mechanism(engine).first(0))
    assert (summary.epsilon, summary.epsilon_rdp, summary.epsilon_replace_one) == (
        0.0,
        0.0,
        0.0,
    )
    assert summary.effective_noise_multiplier == ()


def test_ranges_of_epochs_add_up():
    built = mechanism("dp_sgd", decay="linear", tau=0.2, epochs=5)
    parts = [release(built, first=0, last=2), release(built, first=2)]
    assert release(built).steps == merged(step for part in parts for step in part.steps)
    assert release(built, first=2, last=2).is_nothing
    with refused("0 <= first <= last <= epochs"):
        release(built, first=0, last=6)


def test_a_release_survives_json():
    for built in (
        mechanism(),
        mechanism("dp_sgd", decay="linear", tau=0.2),
        mechanism("sgd"),
        mechanism("dp_sgd", sampling="random_allocation", num_records=2_600),
    ):
        what = release(built)
        assert through_the_ledger(what) == what
        assert from_plain(json.loads(json.dumps(asdict(built)))) == built, "of a card"
    assert what.steps[0].steps == 41
    written = {
        **asdict(what),
        "steps": [{"kind": "sampled", "sigma": 1.0, "rate": 2.0}],
    }
    with pytest.raises(ValidationError, match="expected 0 < rate < 1, got 2"):
        TypeAdapter(Release).validate_python(written)
    with pytest.raises(ValidationError, match="neighboring_relation"):
        TypeAdapter(Release).validate_python({"kind": "training", "steps": []})


@pytest.mark.parametrize("sampling", ["poisson", "full", "random_allocation"])
def test_a_thousand_epochs_of_decaying_noise_are_answered_in_seconds(sampling):
    """From above: their noise is rounded down to a hundred sizes."""
    built = mechanism(
        "dp_sgd", decay="exponential", tau=1e-6, epochs=1_000, sampling=sampling
    )
    constant = mechanism("dp_sgd", epochs=1_000, sampling=sampling)
    begun = time.process_time()
    found = account(built)
    assert time.process_time() - begun < 5
    assert account(constant).epsilon < found.epsilon < account(constant).epsilon * 1.06
    assert found.tight == (sampling == "full")


@pytest.mark.parametrize("share", [0.5, 1.0, 1.5])
def test_an_accountant_from_outside_may_say_more_and_never_less(share, monkeypatch):
    what = release(mechanism("dp_sgd"))
    least = certify(what, delta=1e-5)
    entry = SimpleNamespace(of_release=lambda what, *, delta: share * least.epsilon)
    monkeypatch.setattr(choose, "bounding", lambda name: entry)
    found = choose.certify_by("outside", what, delta=1e-5)
    if share <= 1:
        assert found == least
    else:
        assert found.epsilon == 1.5 * least.epsilon
        assert (found.accountant, found.tight) == ("outside", False)
