from typing import get_args

import numpy as np
import pytest

from tests.attacks._worlds import knowledge, world
from tests.refusals import refused
from trainables import catalogue
from trainables.attacks import Knowledge, valid_attacks
from trainables.attacks._panel import panel, record_scores
from trainables.config.sections import SplitMode
from trainables.config.trial import parse
from trainables.figures import is_public

ATTACKS = catalogue.names("attacks")
PARTS = {"references", "shadow", "texts", "coins"}


def scores(attack, target, seed=0):
    """Those of a trial; of an attack that needs references, beside four other
    trials.
    """
    if "references" in attack.NEEDS:
        return attack.all_scores(
            [target, *(world("paired", seed=seed) for seed in range(1, 5))]
        )[0]
    return attack.scores(target, knowledge(), seed=seed)


@pytest.fixture(params=ATTACKS)
def attack(request):
    return catalogue.entry("attacks", request.param)


def test_states_its_source_and_its_needs(attack):
    assert "(" in (attack.__doc__ or ""), "the docstring cites author and year"
    assert attack.NEEDS <= PARTS


def test_is_allowed_somewhere(attack):
    name = attack.__name__.rpartition(".")[2]
    assert any(name in valid_attacks(mode) for mode in get_args(SplitMode))


def test_gives_a_finite_number_for_every_record(attack):
    """The same to the same input, which it leaves alone."""
    target = world("paired")
    found, again = (scores(attack, target, seed=3) for _ in range(2))
    assert (found.shape, found.dtype) == (target.member.shape, np.float64)
    assert np.isfinite(found).all()
    np.testing.assert_array_equal(found, again)
    for name in ("features", "log_confidence"):
        np.testing.assert_array_equal(
            getattr(target, name), getattr(world("paired"), name)
        )


def test_higher_says_member(attack):
    if attack.__name__.endswith("blind"):
        pytest.skip("the control finds nothing in a random split, and must not")
    target = world("paired", strength=3.0)
    found = scores(attack, target)
    rows = target.is_evaluated
    assert found[rows & target.member].mean() > found[rows & ~target.member].mean()


def test_refuses_to_run_without_what_it_needs(attack):
    missing = next(iter(sorted(attack.NEEDS - {"coins"})), None)
    if missing is None:
        pytest.skip("needs nothing but the target's signals")
    name = attack.__name__.rpartition(".")[2]
    with refused(f"expected {missing} for the attack {name}, got none"):
        record_scores(world("paired"), Knowledge(), attacks=[name])


GUESS = '''"""A guess by the length of what is known of a record (after nobody, 2026)."""

NEEDS = frozenset()


def scores(target, knowledge, *, seed=0):
    return target.log_confidence * 0.5
'''


def test_a_new_attack_is_found_allowed_chosen_and_measured(drop_in):
    drop_in("attacks", "guess", GUESS, "attack")
    assert all("guess" in valid_attacks(mode) for mode in get_args(SplitMode))
    chosen = parse({"evaluation": {"attacks": ["guess"]}})
    assert chosen.id != parse({"evaluation": {"attacks": ["loss_threshold"]}}).id
    both = record_scores(
        world("paired"), Knowledge(), attacks=["guess", "loss_threshold"]
    )
    found = panel(world("paired"), both, delta=1e-5)
    assert found["mia_guess_auc"] == found["mia_loss_threshold_auc"] > 0.6
    assert not is_public("mia_guess_auc")
    with refused(r"evaluation\.attacks\.0: .* one of .*guess.*, got 'gues'"):
        parse({"evaluation": {"attacks": ["gues"]}})
