"""Noise, batches and dropout of all steps of a run are pairwise independent, and
records are drawn at the rate that the accountant gets.

The trials are the real ones up to their first step, with noise so large that what a
step releases is its noise. Each check is shown to reject what it is for: a stream that
is used again.
"""

import json

import numpy as np
import pytest

from tests.lines import write_lines
from tests.tasks._pairs import tiny, write_pairs
from tests.whole_trial.independence import check_bits, check_rate, check_vectors
from trainables.config.trial import parse
from trainables.dp import noise, sampling
from trainables.dp.noise import SecretKey
from trainables.system.communication import Alone
from trainables.tasks import _setup, _synthesis_setup

NUM_RECORDS, EPOCHS, BATCH = 240, 3, 24
LOUD = 1e6
WIDTH = 4096  # dropout bits that are looked at in each row


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A data folder of utterances, of which the fixed split trains on half."""
    folder = tmp_path_factory.mktemp("data")
    rng = np.random.default_rng(0)
    rows = [
        {
            "tokens": [f"w{n}" for n in rng.integers(40, size=3)],
            "tags": ["O"] * 3,
            "intent": "go",
        }
        for _ in range(2 * NUM_RECORDS)
    ]
    write_lines(folder / "utterances.jsonl", rows)
    schema = {
        "intents": ["go", "stop"],
        "slots": ["place"],
        "source": "written by hand",
    }
    (folder / "schema.json").write_text(json.dumps(schema))
    return folder


def prepare(place, engine, **privacy):
    config = parse(
        {
            "engine": engine,
            "data": {
                "name": "json_lines", "schema_file": "schema.json", "num_records": NUM_RECORDS,
            },
            "model": {
                "name": "clc", "hidden_size": 8, "num_layers": 1, "word_buckets": 32,
                "word_dim": 8, "char_dim": 4, "char_filters": 4, "dropout": 0.5,
            },
            "training": {
                "epochs": EPOCHS, "expected_batch_size": BATCH, "num_workers": 2,
                "learning_rate": 1e-9,
            },
            "privacy": {
                "noise_multiplier": LOUD, "max_grad_norm": 0.1, "reproducible_noise": True,
                **privacy,
            },
        }
    )  # fmt: skip
    return _setup.prepare(
        config, comm=Alone(), data_dir=place, cache_dir=place / "cache"
    )


def steps_of(mechanism):
    for epoch in range(mechanism.epochs):
        yield from ((epoch, step) for step in range(mechanism.steps_in(epoch)))


def noise_of(engine):
    """[T, D]: what each step of the run releases, over the alpha_k by which its noise
    is scaled.
    """
    central = engine.mechanism.noise_calibration == "central"
    sizes = [parameter.numel() for parameter in engine.layout.parameters]
    alpha = np.repeat(
        engine.group_scale.numpy() if central else np.ones(len(sizes)), sizes
    )
    rows = []
    for epoch, step in steps_of(engine.mechanism):
        engine.step(epoch, step)
        rows.append(engine.released.double().numpy() / alpha)
    return np.stack(rows)


@pytest.mark.parametrize(
    ("engine", "privacy"),
    [
        ("dp_sgd", {}),
        (
            "dp_sgd",
            {"sampling": "shuffle", "noise_decay": {"kind": "linear", "tau": 0.1}},
        ),
        ("edp_sgd", {}),
        ("edp_sgd", {"noise_calibration": "central", "group_scale": "public"}),
    ],
)
def test_noise_of_all_steps_is_pairwise_independent(place, engine, privacy):
    check_vectors(noise_of(prepare(place, engine, **privacy).engine))


@pytest.mark.parametrize("forgotten", ["the epoch", "the step"])
def test_a_stream_of_noise_that_is_used_again_is_noticed(place, forgotten, monkeypatch):
    right = SecretKey.stream
    steps = NUM_RECORDS // BATCH

    def stream(self, *names):
        *others, index = names
        assert isinstance(index, int)
        kept = index % steps if forgotten == "the epoch" else index // steps
        return right(self, *others, kept)

    monkeypatch.setattr(noise.SecretKey, "stream", stream)
    setup = prepare(place, "dp_sgd", sampling="shuffle")
    with pytest.raises(AssertionError, match="two steps correlate"):
        check_vectors(noise_of(setup.engine))


def inclusions(setup):
    """bool[T, n]: who is in which step, as the run's own sampler draws it."""
    ids = np.sort(setup.split.train)
    rows = []
    for epoch, step in steps_of(setup.mechanism):
        drawn = setup.engine._sampler.draw(epoch, step).records
        assert len(np.unique(drawn)) == len(drawn)
        rows.append(np.isin(ids, drawn))
    return np.stack(rows)


def test_poisson_batches_of_all_steps_are_independent_and_of_the_declared_rate(place):
    for delta in (1e-5, 1e-6, 1e-7):  # another config, so another key
        found = inclusions(prepare(place, "dp_sgd", delta=delta))
        assert len(found) == EPOCHS * NUM_RECORDS / BATCH
        check_bits(found, BATCH / NUM_RECORDS)
        check_rate(found, BATCH / NUM_RECORDS)


def test_batches_that_every_epoch_draws_again_are_noticed(place, monkeypatch):
    right = sampling.Poisson.draw
    monkeypatch.setattr(
        sampling.Poisson, "draw", lambda self, epoch, step: right(self, 0, step)
    )
    with pytest.raises(AssertionError, match="two steps share"):
        check_bits(inclusions(prepare(place, "dp_sgd")), BATCH / NUM_RECORDS)


@pytest.mark.parametrize("wrong", [2 / 3, 3 / 2])
def test_another_rate_than_the_declared_one_is_noticed(place, wrong):
    found = inclusions(prepare(place, "dp_sgd"))
    with pytest.raises(AssertionError, match="records drawn"):
        check_rate(found, wrong * BATCH / NUM_RECORDS)


def kept_bits(setup):
    """bool[T, bits]: what dropout keeps of three records in each step of the run."""
    batch = setup.loader.batch(setup.split.train[:3])
    rows = []
    for epoch, step in steps_of(setup.mechanism):
        setup.engine.step(epoch, step)
        encoded = setup.model.encode(batch)
        masks = setup.model.masks(batch, encoded.layout)
        rows.append((masks.factors(WIDTH, 1) > 0).flatten().numpy())
    return np.stack(rows)


def test_dropout_of_all_steps_is_pairwise_independent(place):
    check_bits(kept_bits(prepare(place, "dp_sgd")), 0.5)


def test_dropout_masks_that_every_epoch_uses_again_are_noticed(place):
    setup = prepare(place, "dp_sgd")
    right = type(setup.model).begin_step
    setup.model.begin_step = lambda epoch, step: right(setup.model, 0, step)
    with pytest.raises(AssertionError, match="two steps share"):
        check_bits(kept_bits(setup), 0.5)


def test_noise_of_both_stages_of_a_synthesis_trial_is_independent(tmp_path):
    """Two language models on the same records: the stages' streams are not each
    other's.
    """
    config = tiny(
        write_pairs(tmp_path, training=60, human=20),
        **{
            "synthesis.method": "two_stage", "synthesis.parse_epochs": 1,
            "synthesis.parses": "gold", "synthesis.pretrain_epochs": 0,
            "privacy.noise_multiplier": LOUD, "privacy.reproducible_noise": True,
            "training.learning_rate": 1e-9,
        },
    )  # fmt: skip
    setup = _synthesis_setup.prepare(
        config,
        comm=Alone(),
        folder=tmp_path / "trial",
        data_dir=tmp_path,
        cache_dir=tmp_path / "cache",
    )
    parts = list(setup.engine.parts.values())
    assert len(parts) == 2
    check_vectors(np.concatenate([noise_of(part) for part in parts]))
    draws = [
        np.isin(
            np.arange(setup.mechanism.num_records),
            part._sampler.draw(epoch, step).records,
        )
        for part in parts
        for epoch, step in steps_of(part.mechanism)
    ]
    check_bits(np.stack(draws), setup.mechanism.sample_rate)
