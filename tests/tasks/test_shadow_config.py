"""The shadow model's trial: the target's architecture and schedule, without privacy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from trainables import catalogue
from trainables.config import parse
from trainables.encoders.about import read_about
from trainables.system.communication import Alone
from trainables.tasks._shadow import available_corpora, config_for
from trainables.trial import run

_HEALTH: dict[str, Any] = {"name": "health", "split": "bernoulli"}


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"privacy": {"sampling": "poisson", "noise_multiplier": 2.0}},
        {"privacy": {"sampling": "full"}, "training": {"epochs": 5}},
        {"privacy": {"sampling": "full"}, "training": {"steps": 50, "evaluate_every": 20}},
        {"privacy": {"sampling": "poisson"}, "training": {"steps": 50}},
    ],
)
def test_it_has_the_target_s_course_and_no_noise(fields: dict[str, Any], tmp_path: Path) -> None:
    target = parse({"engine": "dp_sgd", "data": _HEALTH, **fields})
    found = config_for(target, data_dir=tmp_path)
    assert catalogue.kind_of("engines", found.engine) == "plain"
    assert found.model == target.model
    assert found.training.epochs == target.training.epochs
    assert found.training.steps == target.training.steps
    assert found.training.evaluate_every == target.training.evaluate_every
    assert found.data.name != target.data.name


@pytest.mark.parametrize("name", catalogue.names("models", kind="frames"))
def test_every_model_has_a_fixed_learning_rate_for_it(name: str, tmp_path: Path) -> None:
    rates = set()
    for rate in (1e-4, 1e-2):
        fields = {"model": {"name": name}, "training": {"learning_rate": rate}}
        target = parse({"data": _HEALTH, **fields})
        rates.add(config_for(target, data_dir=tmp_path).training.learning_rate)
    assert len(rates) == 1


def test_its_corpus_may_be_one_that_the_encoder_has_learnt_from(tmp_path: Path) -> None:
    """Of a made corpus without real ones beside it every shadow's corpus may be among them."""
    made = {"name": "communication", "num_utterances": 1_000}
    fields = {
        "engine": "sgd",
        "data": made,
        "model": {"name": "features", "encoder": "small"},
        "training": {"epochs": 1},
        "evaluation": {"attacks": ["shadow"], "bootstrap_samples": 0},
    }
    config = parse(fields)
    learnt = read_about("small").corpora
    assert config_for(config, data_dir=tmp_path).data.name in learnt
    assert set(available_corpora(tmp_path)) <= {config.data.name, *learnt}
    result = run(
        config,
        folder=tmp_path,
        comm=Alone(),
        report=lambda _: True,
        data_dir=tmp_path,
        cache_dir=tmp_path / "cache",
    )
    assert result.metrics["mia_shadow_auc"] is not None


def test_it_reads_one_view_of_a_record(tmp_path: Path) -> None:
    """Values for the shadow's slots may be missing, and each view would cost a pass."""
    model = {"name": "features", "encoder": "small", "views": 3}
    config = parse({"engine": "sgd", "data": {"name": "communication"}, "model": model})
    shadow = config_for(config, data_dir=tmp_path)
    assert (config.model.model_dump()["views"], shadow.model.model_dump()["views"]) == (3, 1)
