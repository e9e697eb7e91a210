"""The paper's attack: it finds members of another model, and none without leakage."""

import numpy as np
import pytest

from tests.attacks._worlds import coins, signals
from tests.refusals import refused
from trainables.attacks import Knowledge, shadow
from trainables.metrics.membership import auc

N = 3_000


def _auc(target):
    teacher = signals(coins(1_500, 7), 1.0, seed=8, corpus="public")
    return auc(shadow.scores(target, Knowledge(shadow=teacher)), target.member)


def test_finds_members_of_a_model_it_never_saw():
    target = signals(coins(N, 0), 1.0, seed=1)
    found = _auc(target)
    best_possible = auc(target.log_confidence, target.member).value
    assert found.value == pytest.approx(best_possible, abs=0.03)


def test_probabilities_of_0_and_1_are_no_trouble():
    features = np.zeros((4, 8))
    features[:2, 0] = 1.0
    assert np.isfinite(shadow.transform(features)).all()


def test_refusals():
    target = signals(coins(50, 0))
    with refused("another corpus"):
        shadow.scores(target, Knowledge(shadow=target))
    few = signals(np.arange(50) < 3, corpus="public")
    with refused("at least 5 shadow members"):
        shadow.scores(target, Knowledge(shadow=few))


def test_one_shadow_for_each_architecture_and_corpus():
    base = {"architecture": "clc", "corpus": "f00", "split_seed": 0, "epochs": 3}
    key = shadow.cache_key(**base)
    assert key == shadow.cache_key(**base)
    others = {"architecture": "bert", "corpus": "f01", "split_seed": 1, "epochs": 4}
    assert key not in {
        shadow.cache_key(**(base | {name: each})) for name, each in others.items()
    }


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("atis", "nlu_eval"),
        ("snips", "nlu_eval"),
        ("nlu_eval", "snips"),
        ("mine", "nlu_eval"),
    ],
)
def test_default_shadow_corpus(target, expected):
    assert shadow.default_corpus(target, ("atis", "nlu_eval", "snips")) == expected
    with refused(r"evaluation\.shadow_corpus"):
        shadow.default_corpus("atis", ("atis",))


def test_shared_texts_are_left_out_of_the_shadow():
    shadows, target = (
        np.array([1, 2, 3], dtype=np.uint64),
        np.array([2, 9], dtype=np.uint64),
    )
    assert shadow.disjoint(shadows, target).tolist() == [True, False, True]
