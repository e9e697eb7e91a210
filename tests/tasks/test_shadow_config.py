"""The shadow model's trial: the target's architecture and schedule, without privacy."""

import json
import shutil

import numpy as np
import pytest

from trainables import attacks, catalogue
from trainables.config.trial import parse
from trainables.data.corpus import open_corpus
from trainables.models.encoders.about import ABOUT, about_of
from trainables.system.communication import Alone
from trainables.tasks import _shadow
from trainables.tasks._shadow import available_corpora, config_for

_HEALTH = {"name": "health", "split": "bernoulli", "label_noise": 0.1}


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"privacy": {"sampling": "poisson", "noise_multiplier": 2.0}},
        {"privacy": {"sampling": "full"}, "training": {"epochs": 5}},
        {
            "privacy": {"sampling": "full"},
            "training": {"steps": 50, "evaluate_every": 20},
        },
        {"privacy": {"sampling": "poisson"}, "training": {"steps": 50, "keep": "last"}},
    ],
)
def test_it_has_the_target_s_course_and_labels_as_noisy(fields, tmp_path):
    target = parse({"engine": "dp_sgd", "data": _HEALTH, **fields})
    found = config_for(target, num_records=2_000, data_dir=tmp_path)
    assert catalogue.kind_of("engines", found.engine) == "plain"
    assert found.model == target.model
    for name in ("epochs", "steps", "evaluate_every", "keep"):
        assert getattr(found.training, name) == getattr(target.training, name)
    assert found.data.name != target.data.name
    assert found.data.label_noise == target.data.label_noise


@pytest.mark.parametrize(
    "fields",
    [
        {"engine": "sgd", "training": {"epochs": 3}},
        {
            "engine": "dp_sgd",
            "privacy": {"sampling": "full", "noise_multiplier": 4.0},
            "training": {"steps": 40, "optimizer": "momentum"},
        },
    ],
)
def test_heads_have_one_shadow_however_they_are_trained(fields, tmp_path):
    """The target's schedule at another learning rate would hardly train it."""
    target = parse({"data": _HEALTH, "model": {"name": "features"}, **fields})
    found = config_for(target, num_records=2_000, data_dir=tmp_path)
    assert (found.training.optimizer, found.training.steps) == ("lbfgs", 20)
    assert found.privacy.sampling == "full"


def test_its_corpus_is_at_most_as_large_as_the_target_s(tmp_path):
    large, small = (
        config_for(
            parse({"data": {"name": "health", "num_utterances": 2_000}}),
            num_records=number,
            data_dir=tmp_path,
        ).data.max_records
        for number in (2_000, 500)
    )
    assert (large, small) == (2_000, 500)


def test_its_corpus_may_be_one_that_the_encoder_has_learnt_from(tmp_path):
    """Of a made corpus without real ones beside it every shadow's corpus may be among
    them.
    """
    place = tmp_path / "encoder"
    shutil.copytree(about_of("dialogues").place, place)
    about = json.loads((place / ABOUT).read_text())
    about["card"]["corpora"] = [{"name": "health"}, {"name": "video"}]
    (place / ABOUT).write_text(json.dumps(about))
    made = {"name": "communication", "num_utterances": 1_000}
    config = parse({"data": made, "model": {"name": "features", "encoder": str(place)}})
    learnt = about_of(str(place)).corpora
    assert config_for(config, num_records=1_000, data_dir=tmp_path).data.name in learnt
    assert set(available_corpora(tmp_path)) <= {config.data.name, *learnt}


def test_trials_share_a_shadow_where_it_would_be_the_same(tmp_path, monkeypatch):
    """Of another optimiser or encoder it is another: the first trial must not decide
    for all.
    """
    place = tmp_path / "encoder"
    shutil.copytree(about_of("dialogues").place, place)
    trained = []

    def train(shadow, target, **_):
        trained.append(shadow)
        ids, features = np.arange(2), np.zeros((2, 8))
        return attacks.gather(
            records=ids,
            member=ids == 0,
            mode="paper",
            features=features,
            log_confidence=features[:, 0],
            corpus="",
        )

    monkeypatch.setattr(_shadow, "_train", train)

    def num_trained(**training):
        model = {"name": "lora", "encoder": str(place)}
        config = parse(
            {"engine": "sgd", "data": _HEALTH, "model": model, "training": training}
        )
        corpus = open_corpus(config.data, data_dir=tmp_path, cache_dir=tmp_path)
        _shadow.signals(
            config, corpus, comm=Alone(), data_dir=tmp_path, cache_dir=tmp_path
        )
        return len(trained)

    assert num_trained() == 1
    assert num_trained(learning_rate=0.5, seed=3, physical_batch_size=8) == 1
    assert num_trained(optimizer="momentum") == 2
    assert num_trained(learning_rate_decay="linear") == 3
    assert num_trained(gradient_clip_norm=1.0) == 3
    assert num_trained() == 3
    with (place / "encoder.json").open("a") as file:
        file.write(" ")
    assert num_trained() == 4
