"""Releases about the parts of a data set: what all together cost is what the dearest
part costs. Values from dp-accounting and closed forms, of privacy.md, section 12.
"""

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from tests.accountants._mechanisms import mechanism
from tests.accountants.outside import gaussian_epsilon
from tests.refusals import refused
from trainables.dp.accounting import renyi
from trainables.dp.accounting.calibration import held_out_noise
from trainables.dp.accounting.certification import as_one, certify, meaning_of, pairs_of
from trainables.dp.accounting.composition import Account, RdpFilter
from trainables.dp.accounting.privacy_semantics import gaussian_delta
from trainables.dp.accounting.releases import (
    Gaussian,
    Parts,
    Release,
    Sampled,
    Training,
    by_part,
    release,
)
from trainables.errors import InvalidInput

DELTA = 5e-4
MUS = st.floats(0.05, 3.0)


def of(*steps):
    return Training(steps=steps, neighboring_relation="add_or_remove_one")


def gaussian(mu):
    return of(Gaussian(sigma=1 / mu))


POISSON = of(Sampled(sigma=1.0, rate=64 / 2_560, count=1_200))


def parts(training, held_out, *, split="hash 1"):
    return Parts(split=split, training=training, held_out=held_out)


def epsilon(*mus, delta=DELTA):
    return gaussian_epsilon(*(1 / mu for mu in mus if mu), delta=delta)


@pytest.mark.parametrize(
    ("mu", "tpr", "advantage"), [(1.088, 0.1165, 0.4139), (1.183, 0.1265, 0.446)]
)
def test_validation_is_free_where_its_whole_profile_lies_below_trainings(
    mu, tpr, advantage
):
    """The Gaussian with training's own pair (mu 1.183) would raise both risks; the
    largest that raises none is 1.088, which the advantage decides.
    """
    what = parts(POISSON, gaussian(mu))
    found = certify(what, delta=DELTA)
    assert found.epsilon == pytest.approx(4.1205, abs=5e-5)
    claim = meaning_of(what, found)
    assert claim.max_tpr_1pct == pytest.approx(tpr, abs=3e-4)
    assert claim.max_advantage == pytest.approx(advantage, abs=3e-4)
    alone = meaning_of(POISSON, certify(POISSON, delta=DELTA))
    assert (claim.max_advantage > alone.max_advantage + 1e-3) == (mu > 1.1)


def test_the_noise_of_evaluations_is_the_least_that_raises_nothing():
    made = replace(mechanism("dp_sgd", workers=1), split="hash 1")
    noise = held_out_noise(made)
    mu = math.sqrt(30) / noise
    assert mu == pytest.approx(1.0889 * math.sqrt(0.95), rel=1e-3)
    whole = release(replace(made, held_out_noise=noise))
    alone = release(made)
    found, trained = (certify(each, delta=DELTA) for each in (whole, alone))
    assert found.epsilon == trained.epsilon
    assert meaning_of(whole, found) == meaning_of(alone, trained)


@pytest.mark.parametrize(
    ("trials", "evaluations", "errors"), [(1, 2, 2.5), (40, 2, 16.1), (40, 10, 36.0)]
)
def test_sizes_of_the_noise_at_epsilon_8(trials, evaluations, errors):
    """At mu 1.666 with at most 3 errors a record, as privacy.md says."""
    full = mechanism(
        "dp_sgd",
        workers=1,
        epochs=evaluations,
        delta=1e-5,
        sampling="full",
        noise_multiplier=math.sqrt(evaluations * trials) / 1.666,
    )
    made = replace(full, split="hash 1")
    noise = held_out_noise(made)
    assert 3 * noise * math.sqrt(0.95) == pytest.approx(errors, rel=0.03)
    whole = release(replace(made, held_out_noise=noise))
    assert certify([whole] * trials, delta=1e-5).epsilon == pytest.approx(8.0, abs=5e-3)


@given(st.lists(st.tuples(MUS, MUS), min_size=1, max_size=5))
def test_parts_of_one_split_cost_the_larger_sum_and_no_less(pairs):
    releases = [parts(gaussian(a), gaussian(b)) for a, b in pairs]
    found = certify(releases, delta=DELTA)
    expected = max(epsilon(*each) for each in zip(*pairs, strict=True))
    assert found.epsilon == pytest.approx(expected, rel=1e-6)
    assert found.num_releases == len(pairs)


def test_over_several_splits_a_record_may_be_in_the_dearest_part_of_each():
    """Another split may train on the record that this one tests on."""
    releases = [
        parts(gaussian(1.0), gaussian(0.2), split="seed 0"),
        parts(gaussian(0.2), gaussian(1.0), split="seed 1"),
        parts(gaussian(0.3), gaussian(0.1), split="seed 0"),
    ]
    expected = epsilon(1.0, 0.3, 1.0)
    assert certify(releases, delta=DELTA).epsilon == pytest.approx(expected, rel=1e-6)
    same = [replace(each, split="seed 0") for each in releases]
    found = certify(same, delta=DELTA).epsilon
    assert found == pytest.approx(epsilon(1.0, 0.2, 0.3), rel=1e-6)


def test_parts_of_many_splits_are_added_up():
    releases = [parts(gaussian(0.3), gaussian(0.2), split=str(n)) for n in range(9)]
    assert len(list(by_part(releases))) == 1
    found = certify(releases, delta=DELTA).epsilon
    assert found == pytest.approx(epsilon(*[0.3, 0.2] * 9), rel=1e-6)


def test_a_release_without_parts_counts_for_every_part():
    found = certify([parts(gaussian(0.1), gaussian(1.0)), gaussian(1.0)], delta=DELTA)
    assert found.epsilon == pytest.approx(epsilon(1.0, 1.0), rel=1e-6)


def test_divergences_are_the_larger_at_each_order_then_added():
    what = parts(POISSON, gaussian(1.5))
    both = [renyi.curve(each) for each in (POISSON, gaussian(1.5))]
    assert (both[0] > both[1]).any()
    assert (both[0] < both[1]).any()
    expected = [max(each) for each in zip(*both, strict=True)]
    assert renyi.curve(what).tolist() == expected


def test_an_account_and_a_filter_hold_the_dearest_part():
    account = Account()
    for n in range(4):
        account.put(n, parts(gaussian(0.5), gaussian(0.1 + 0.1 * n)), delta=DELTA)
    assert account.total().epsilon == pytest.approx(epsilon(*[0.5] * 4), rel=1e-6)
    assert account.bound(delta=DELTA) >= account.total().epsilon
    held = {"more": parts(of(), gaussian(3.0))}
    assert account.over(8.0, held, delta=DELTA) is not None
    filter_ = RdpFilter.of(8.0, delta=1e-5)
    cost = filter_.cost(parts(gaussian(0.5), gaussian(1.0)))
    assert cost == filter_.cost(gaussian(1.0))


def test_the_account_of_repeated_parts_is_their_composition():
    what = parts(gaussian(0.5), gaussian(0.4))
    account = Account()
    for n in range(3):
        account.put(n, what, delta=DELTA)
    expected = certify([what] * 3, delta=DELTA).epsilon
    assert account.total(effort="exact").epsilon == pytest.approx(expected, rel=1e-9)


@given(MUS, MUS)
def test_every_pair_that_is_known_holds_in_every_part(training, held_out):
    what = [parts(gaussian(training), gaussian(held_out))] * 2
    found = certify(what, delta=DELTA)
    mu = math.sqrt(2) * max(training, held_out)
    for at, delta in pairs_of(what, found, effort="exact"):
        assert delta >= gaussian_delta(mu, at) * (1 - 1e-9)


def test_a_record_replaced_by_one_of_another_part_costs_both_parts():
    what = parts(gaussian(0.5), gaussian(1.5))
    found = certify(what, delta=DELTA, replace_one=True)
    # Of two held-out parts; a record replaced inside of training moves its sum by 2 C.
    assert found.epsilon == pytest.approx(epsilon(1.5, 1.5), rel=1e-6)
    assert found.neighboring_relation == "replace_one"
    found = certify(parts(gaussian(1.0), gaussian(0.5)), delta=DELTA, replace_one=True)
    assert found.epsilon == pytest.approx(epsilon(2.0), rel=1e-6)
    two = [replace(what, split=name) for name in "ab"]
    assert certify(two, delta=DELTA, replace_one=True).epsilon == math.inf


def test_a_training_without_guarantee_has_none_for_all():
    undeclared = replace(mechanism("dp_sgd", workers=1), undeclared=("n was counted",))
    made = replace(undeclared, split="s", held_out_noise=2.0)
    found = certify(release(made), delta=DELTA)
    assert (found.epsilon, found.unaccounted) == (math.inf, ("n was counted",))


def test_parts_are_read_as_they_were_written():
    kind = TypeAdapter(Release)
    what = parts(POISSON, gaussian(0.5))
    assert kind.validate_json(kind.dump_json(what)) == what
    assert as_one([what, what]).held_out.steps[0].count == 2


def test_an_epoch_pays_for_its_evaluation():
    made = replace(
        mechanism("dp_sgd", workers=1, epochs=5), split="s", held_out_noise=2.0
    )
    what = release(made, first=1, last=4)
    assert what.held_out == of(Gaussian(sigma=2.0, count=3))
    assert what.training == release(replace(made, held_out_noise=0.0), first=1, last=4)
    idle = replace(made, kind="prior", epochs=1)
    assert not idle.is_free
    assert release(idle).held_out == of(Gaussian(sigma=2.0))


@pytest.mark.parametrize(
    ("broken", "words"),
    [
        ({"training": POISSON, "held_out": POISSON}, "expected Gaussian releases"),
        (
            {"training": replace(POISSON, neighboring_relation="replace_one")},
            "add_or_remove_one of parts",
        ),
    ],
)
def test_what_no_theorem_covers_is_no_release_of_parts(broken, words):
    fields = {"split": "s", "training": POISSON, "held_out": gaussian(1.0), **broken}
    with pytest.raises(ValueError, match=words):
        Parts(**fields)


def test_a_training_of_no_finite_epsilon_covers_nothing():
    made = replace(mechanism("dp_sgd", workers=1), split="s", noise_multiplier=0.0)
    with refused("a finite epsilon with privacy.covers=all", InvalidInput):
        held_out_noise(made)
