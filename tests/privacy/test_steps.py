"""A trial of T steps: each piece that is validated, saved and charged has the exact
size.
"""

import math
from dataclasses import replace

import pytest
from pydantic import ValidationError

from tests.accountants.outside import gaussian_epsilon
from tests.refusals import refused
from trainables.config.mechanism import build
from trainables.config.trial import TrainingConfig, parse
from trainables.dp.accounting.choose import account, epsilon_after
from trainables.dp.accounting.releases import release

N = 1_000


def config(sampling="poisson", engine="dp_sgd", **training):
    privacy = {"sampling": sampling, "delta": 1e-5}
    if engine != "sgd":
        privacy["noise_multiplier"] = 4.0
    return parse({"engine": engine, "privacy": privacy, "training": training})


def mechanism(sampling="poisson", **training):
    return build(config(sampling, **training), num_records=N)


@pytest.mark.parametrize("sampling", ["poisson", "full"])
@pytest.mark.parametrize("engine", ["dp_sgd", "sgd"])
def test_pieces_have_the_stated_length_and_the_last_the_remainder(sampling, engine):
    made = build(config(sampling, engine, steps=103, evaluate_every=20), num_records=N)
    assert [made.steps_in(epoch) for epoch in range(made.epochs)] == [
        20,
        20,
        20,
        20,
        20,
        3,
    ]
    assert made.steps == 103
    assert [made.first(done).steps for done in (0, 1, 5, 6)] == [0, 20, 100, 103]


@pytest.mark.parametrize("sampling", ["poisson", "full"])
def test_each_piece_costs_its_steps_and_no_more(sampling):
    """The phases of a piece are its steps; a trial stopped after it has the epsilon of
    so many.
    """
    made = mechanism(sampling, steps=103, evaluate_every=40)
    sigma = made.effective_noise_multiplier_at(0)
    for epoch, length in enumerate([40, 40, 23]):
        (steps,) = release(made, first=epoch, last=epoch + 1).steps
        assert (steps.sigma, steps.count) == (sigma, length)
        until = min(103, 40 * (epoch + 1))
        alone = mechanism(sampling, steps=until, evaluate_every=until)
        assert epsilon_after(made, epoch + 1) == epsilon_after(alone, 1)
    assert account(made).epsilon == account(mechanism(sampling, steps=103)).epsilon


def test_steps_of_full_batches_are_one_gaussian_mechanism():
    """And one shuffled epoch is one of sensitivity 2 C."""
    mu = math.sqrt(103) / 4.0
    shuffled = parse(
        {
            "engine": "dp_sgd",
            "privacy": {"sampling": "shuffle"},
            "training": {"epochs": 1},
        }
    )
    one = replace(build(shuffled, num_records=N), noise_multiplier=2 / mu, delta=1e-5)
    found = account(mechanism("full", steps=103))
    assert (found.accountant, found.tight) == ("gaussian", True)
    exact = gaussian_epsilon(1 / mu, delta=1e-5)
    assert (found.epsilon, account(one).epsilon) == pytest.approx(
        (exact, exact), rel=1e-9
    )


def test_as_many_poisson_steps_as_an_epoch_has_cost_what_it_does():
    by_epochs = mechanism(epochs=2, expected_batch_size=50)
    by_steps = mechanism(steps=40, evaluate_every=20, expected_batch_size=50)
    assert release(by_epochs) == release(by_steps)


def test_a_shuffled_epoch_is_spent_as_a_whole():
    for sampling in ("shuffle", "random_allocation"):
        with refused(r"poisson or full with training\.steps"):
            config(sampling, steps=10)
        made = build(config(sampling, epochs=2), num_records=N)
        with refused("poisson or full with num_steps"):
            replace(made, num_steps=10)
    with refused(r"training\.steps none with task=synthesis, got 10"):
        parse(
            {
                "task": "synthesis",
                "engine": "dp_sgd",
                "data": {"name": "smcalflow"},
                "model": {"name": "causal_lm"},
                "training": {"steps": 10},
            }
        )


def test_epochs_follow_from_steps_and_are_never_beside_them():
    one = config(steps=100)
    assert (one.training.epochs, one.training.evaluate_every) == (10, 10)
    assert config(steps=100, evaluate_every=1_000).training.epochs == 1
    assert parse(one.model_dump(mode="json")) == one == config(steps=100, epochs=None)
    assert "epochs" not in one.model_dump()["training"]
    for both in ({"epochs": 7}, {"epochs": 30}):  # also where it is the default
        with refused(
            r"no training\.epochs, which is read only with training\.steps=null, got "
        ):
            config(steps=100, **both)
        with pytest.raises(ValidationError, match="epochs is not read"):
            TrainingConfig(steps=100, **both)
    with refused(
        r"no training\.evaluate_every, which is read only with .*steps=a number, got 7"
    ):
        config(epochs=3, evaluate_every=7)
    with refused(r"evaluate_every >= 10 with steps=1000000, got 1"):
        config(steps=10**6, evaluate_every=1)


@pytest.mark.parametrize(
    ("training", "said"),
    [
        ({"steps": 0}, "got 0"),
        ({"steps": 10**9}, "got 1000000000"),
        ({"steps": 10, "evaluate_every": 0}, "got 0"),
    ],
)
def test_numbers_that_no_trial_has_are_refused(training, said):
    with refused(said):
        config(**training)
