"""A trial that trains nothing releases nothing: epsilon 0, by what its one mechanism
says.
"""

from dataclasses import replace

import pytest
import torch
from pydantic import ValidationError

from search_spaces import space as spaces
from search_spaces.expansion import expand
from tests.engines.engine_checks import engine_on
from tests.refusals import refused
from trainables import catalogue
from trainables.config.mechanism import build
from trainables.config.trial import TrainingConfig, TrialConfig, parse
from trainables.dp.accounting import choose
from trainables.dp.accounting.certification import certify
from trainables.dp.accounting.choose import account
from trainables.dp.accounting.releases import release
from trainables.errors import TrialFailed


def config(**fields):
    return parse({"engine": "untrained", "model": {"name": "features"}, **fields})


def mechanism():
    return build(config(), num_records=2_560)


def test_it_releases_nothing_and_costs_nothing_under_every_accountant():
    made = mechanism()
    assert release(made).is_nothing
    assert not made.unaccounted
    found = account(made)
    assert (found.epsilon, found.epsilon_rdp, found.epsilon_replace_one) == (
        0.0,
        0.0,
        0.0,
    )
    assert found.epsilon_paper is None
    assert found.tight
    assert found.gaussian_mu < 1e-4
    for name in catalogue.names("accountants", kind="guarantee"):
        assert account(made, accountant=name).epsilon == 0.0
    assert choose.epsilon_after(made, 1) == 0.0


def test_it_changes_no_total_of_other_trials():
    fields = {"engine": "dp_sgd", "privacy": {"noise_multiplier": 2.0}}
    other = release(build(parse(fields), num_records=2_560))
    alone = certify([other], delta=1e-5, effort="total")
    both = certify([release(mechanism()), other], delta=1e-5, effort="total")
    assert both.epsilon == alone.epsilon
    assert both.num_releases == 1


def test_labels_of_private_records_leave_no_finite_epsilon():
    """Names that were read off private records are a release, trained or not."""
    made = replace(
        mechanism(), undeclared=("the label set was read from private records",)
    )
    assert not made.is_free
    assert not release(made).is_nothing
    assert account(made).epsilon == float("inf")


def test_it_takes_no_step_and_leaves_the_weights():
    engine = engine_on(mechanism(), torch.randn(4, 448), [[0], [1]])
    before = [p.detach().clone() for p in engine.model.parameters()]
    assert engine.run_epoch(0) == {}
    with refused("no step of a model that is not trained", TrialFailed):
        engine.step(0, 0)
    assert all(map(torch.equal, before, engine.model.parameters()))


def test_a_model_without_a_prior_is_refused():
    for model in ({"name": "features", "prior": "none"}, {"name": "clc"}):
        with refused(r"predicts before training \(model\.prior"):
            build(config(model=model), num_records=2_560)


def test_no_field_of_training_makes_another_trial_of_it():
    """A space's steps, rates and seeds are for those that train: its prior is one
    trial.
    """
    usual = config()
    assert parse(usual.model_dump(mode="json")) == usual
    for name, value in {
        "steps": 7,
        "learning_rate": 0.1,
        "seed": 3,
        "epochs": 30,
    }.items():
        with refused(rf"^unknown field training\.{name} for training without a step"):
            config(training={name: value})
    with pytest.raises(ValidationError, match="unknown field learning_rate"):
        TrialConfig(engine="untrained", training=TrainingConfig(learning_rate=0.1))
    found = expand(
        spaces.parse(
            {
                "name": "s",
                "base": {"model": {"name": "features"}, "training": {"epochs": 7}},
                "variants": [
                    {"name": e, "set": {"engine": e}} for e in ("untrained", "sgd")
                ],
                "repeats": 3,
                "axes": {"training.learning_rate": [0.1, 1.0]},
            }
        )
    )
    assert [point.values for point in found.points if point.variant == "untrained"] == [
        {}
    ]
    # No seed changes it, so that it is not repeated: its two rates are one point.
    assert (len(found.points), found.merged) == (7, 1)


def test_it_needs_no_declared_number_of_private_records():
    """Nothing is divided by n."""
    assert (
        config(data={"name": "json_lines", "path": "mine.jsonl"}).data.num_records
        is None
    )
