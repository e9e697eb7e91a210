"""Stages that share one noise multiplier, and a noised histogram."""

import math
from dataclasses import replace

import numpy as np
import pytest
from dp_accounting import GaussianDpEvent, PoissonSampledDpEvent
from dp_accounting.rdp import RdpAccountant

from tests.accountants._mechanisms import histogram, through_the_ledger
from tests.refusals import refused
from trainables.config.calibrate import resolve
from trainables.config.mechanism import build
from trainables.config.trial import parse
from trainables.dp.accounting.accountants import rdp
from trainables.dp.accounting.certification import certify
from trainables.dp.accounting.choose import account
from trainables.dp.accounting.releases import release


def config_of(*, epochs=10, z=1.0, **synthesis):
    return parse(
        {
            "task": "synthesis",
            "engine": "dp_sgd",
            "data": {"name": "smcalflow"},
            "model": {"name": "causal_lm"},
            "privacy": {"noise_multiplier": z, "delta": 8e-6},
            "training": {"epochs": epochs, "expected_batch_size": 2_048},
            "synthesis": synthesis,
        }
    )


def built(**fields):
    return build(config_of(**fields), num_records=133_584)


def two_stages(first, **fields):
    return built(method="two_stage", parse_epochs=first, **fields)


def test_two_stages_count_the_steps_that_are_taken():
    mechanism = two_stages(2)
    assert built().steps == 653
    assert mechanism.steps_until(2) == 131
    assert mechanism.steps == 131 + 522 == 653
    # Each stage rounds up its last step by itself: here that makes one more.
    uneven = replace(mechanism, num_records=1_001, expected_batch_size=500)
    assert uneven.steps == math.ceil(2 * 2.002) + math.ceil(8 * 2.002) == 22
    assert replace(uneven, stages=()).steps == 21
    assert sum(uneven.steps_in(epoch) for epoch in range(10)) == 22


HISTOGRAM = {"method": "one_and_a_half_stage", "histogram_noise_multiplier": 2.0}


def test_a_histogram_is_composed_with_the_steps():
    mechanism = built(**HISTOGRAM)
    what = release(mechanism)
    assert what.beside == histogram(2.0)
    assert through_the_ledger(what) == what
    reference = RdpAccountant()
    gaussian = GaussianDpEvent(1.0)
    reference.compose(
        PoissonSampledDpEvent(mechanism.sample_rate, gaussian), mechanism.steps
    )
    reference.compose(GaussianDpEvent(2.0))
    assert rdp.of_release(what, delta=8e-6) == pytest.approx(
        reference.get_epsilon(8e-6), rel=1e-2
    )
    plain = account(replace(mechanism, histogram_noise_multiplier=0.0))
    found = account(mechanism)
    assert plain.epsilon < found.epsilon < found.epsilon_rdp
    assert plain.epsilon_replace_one < found.epsilon_replace_one


def test_the_histogram_is_charged_once_with_the_first_epoch():
    mechanism = built(**HISTOGRAM, epochs=3)
    first, rest = release(mechanism, last=1), release(mechanism, first=1)
    assert first.beside
    assert not rest.beside
    assert not release(mechanism, last=0).beside
    assert release(replace(mechanism, kind="prior")).is_nothing
    together = certify([first, rest], delta=8e-6).epsilon
    assert together == pytest.approx(account(mechanism).epsilon, rel=5e-3)


@pytest.mark.parametrize("size", [1, 5])
@pytest.mark.parametrize("relation", ["add_or_remove_one", "replace_one"])
def test_a_groups_records_may_all_be_in_one_bin(relation, size):
    """L2 distance of two histograms that differ in a group: worked out on the counts.
    What is released stands beside the epochs, so that no calibration scales it.
    """
    moved = np.linalg.norm([size, size * (relation == "replace_one")])
    sampling = "shuffle" if relation == "replace_one" else "poisson"
    mechanism = replace(
        built(**HISTOGRAM),
        **{"unit": "group", "max_records_per_group": size, "sampling": sampling},
        neighboring_relation=relation,
    )
    assert mechanism.effective_histogram_noise_multiplier == pytest.approx(2.0 / moved)
    assert release(mechanism).beside == histogram(
        mechanism.effective_histogram_noise_multiplier
    )


def test_a_couple_of_shuffled_pairs_is_the_unit():
    pairs = two_stages(2, shuffle_pairs=True)
    assert (pairs.unit, pairs.max_records_per_group) == ("couple", 2)
    assert (pairs.num_records, pairs.expected_batch_size) == (66_792, 1_024)
    assert pairs.steps == two_stages(2).steps


@pytest.mark.parametrize(
    ("histogram", "is_finite"), [("true", False), ("public", True)]
)
def test_frequencies_of_private_records_without_noise_leave_no_epsilon(
    histogram, is_finite
):
    mechanism = built(method="one_and_a_half_stage", histogram=histogram)
    assert math.isfinite(account(mechanism, exact=False).epsilon) == is_finite
    assert not mechanism.histogram_noise_multiplier


def test_what_the_histogram_alone_passes_and_batches_larger_than_the_data_are_refused():
    config = config_of(**HISTOGRAM, z={"target_epsilon": 1.0})
    with refused(r"target_epsilon=1: the noised histogram alone costs"):
        resolve(config, num_records=133_584)
    with refused(r"at most the number of training records \(500\)"):
        build(config_of(), num_records=500)


@pytest.mark.parametrize("first", [0, 10])
def test_both_stages_need_an_epoch(first):
    with refused(rf"T1, T2 >= 1\), got T1={first} and T2={10 - first}"):
        two_stages(first)
