import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.attacks._worlds import coins, signals
from tests.refusals import refused
from trainables.attacks import features_of, gather, read_signals, write_signals
from trainables.attacks._signals import logit_of_log
from trainables.errors import InvalidData


def test_feature_vector():
    """The worked example: a CRF over 3 tags and 2 tokens, and an intent head of 4."""
    marginals = np.array(
        [[0.596544, 0.322723, 0.080733], [0.129813, 0.796114, 0.074073]]
    )
    found = features_of(
        intent_log_probs=np.log([[0.7, 0.2, 0.06, 0.04]]),
        token_marginals=marginals,
        lengths=np.array([2]),
        path_log_prob=np.log([0.457046]),
    )
    expected = [0.7, 0.2, 0.06, 0.696329, 0.226268, 0.077403, 0.596544, -0.391485]
    np.testing.assert_allclose(found, [expected], atol=1e-6)


def _pass(rng, lengths, num_intents, num_tags):
    return {
        "intent_log_probs": np.log(rng.dirichlet(np.ones(num_intents), len(lengths))),
        "token_marginals": rng.dirichlet(np.ones(num_tags), int(lengths.sum())),
        "lengths": lengths,
        "path_log_prob": -rng.random(len(lengths)),
    }


@pytest.mark.parametrize(("num_intents", "num_tags"), [(2, 2), (150, 127)])
def test_width_is_8_for_every_label_set(num_intents, num_tags):
    found = features_of(
        **_pass(np.random.default_rng(0), np.array([1, 4]), num_intents, num_tags)
    )
    assert found.shape == (2, 8)
    padded = num_intents == 2
    assert ((found[:, 2] == 0).all(), (found[:, 5] == 0).all()) == (padded, padded)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(1, 7), min_size=2, max_size=6), st.integers(0, 99))
def test_features_do_not_depend_on_the_batch(lengths, seed):
    lengths = np.array(lengths)
    whole = _pass(np.random.default_rng(seed), lengths, 4, 5)
    together = features_of(**whole)
    starts = np.r_[0, np.cumsum(lengths)]
    for i in range(len(lengths)):
        alone = features_of(
            intent_log_probs=whole["intent_log_probs"][[i]],
            token_marginals=whole["token_marginals"][starts[i] : starts[i + 1]],
            lengths=lengths[[i]],
            path_log_prob=whole["path_log_prob"][[i]],
        )
        np.testing.assert_array_equal(alone[0], together[i])


def test_logit_of_confidence():
    assert logit_of_log(np.log(0.9)) == pytest.approx(2.197225, abs=1e-6)
    extreme = logit_of_log(np.array([0.0, -1e-30, -2_000.0]))
    assert np.isfinite(extreme).all()
    assert extreme[0] > 10 > -10 > extreme[2]


def test_file_gives_back_what_was_written(tmp_path):
    written = signals(coins(50, 0), pairs=np.arange(50) // 2)
    write_signals(tmp_path / "signals.npz", written)
    found = read_signals(tmp_path / "signals.npz")
    for name in ("records", "member", "log_confidence", "pairs", "population"):
        np.testing.assert_array_equal(getattr(found, name), getattr(written, name))
    np.testing.assert_allclose(found.features, written.features, rtol=1e-6)
    assert (found.mode, found.corpus) == ("bernoulli", "corpus")
    assert [path.name for path in tmp_path.iterdir()] == ["signals.npz"]


@pytest.mark.parametrize("damage", ["missing", "empty", "text", "cut", "pickle"])
def test_a_damaged_file_is_refused_in_one_sentence(tmp_path, damage):
    path = tmp_path / "signals.npz"
    if damage == "empty":
        path.write_bytes(b"")
    elif damage == "text":
        path.write_text("not an archive")
    elif damage == "cut":
        write_signals(path, signals(coins(50, 0)))
        path.write_bytes(path.read_bytes()[:-200])
    elif damage == "pickle":
        np.savez(path, records=np.array([{"a": 1}], dtype=object))
    with refused(r"signals of a trial in .*signals\.npz", InvalidData):
        read_signals(path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"records": np.array([1, 1])}, "strictly increasing"),
        (
            {"log_confidence": np.array([np.nan, 0])},
            "finite signals.log_confidence, got 1",
        ),
        ({"features": np.zeros((2, 7))}, r"signals.features of shape \(2, 8\)"),
        ({"population": np.array([True, False])}, "no member in the population"),
    ],
)
def test_signals_that_do_not_fit_are_refused(change, message):
    good = {
        "records": np.array([1, 2]),
        "member": np.array([True, False]),
        "mode": "paper",
        "features": np.zeros((2, 8)),
        "log_confidence": np.array([-1.0, -2.0]),
    }
    with refused(message):
        gather(**(good | change))
