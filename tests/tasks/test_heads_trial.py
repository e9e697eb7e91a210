"""A whole trial of heads on the encoder that ships."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from trainables.config import parse
from trainables.encoders import cache as features
from trainables.encoders.identity import ENCODER, encoder_digest
from trainables.result import EpochReport, TrialResult
from trainables.system import checkpoint
from trainables.system.communication import Alone
from trainables.tasks._setup import prepare
from trainables.trial import run

FIELDS: dict[str, Any] = {
    "engine": "dp_sgd",
    "data": {"name": "communication", "num_utterances": 2_000},
    "model": {"name": "features", "encoder": "small"},
    "privacy": {
        "sampling": "full",
        "max_grad_norm": 0.5,
        "noise_multiplier": {"target_epsilon": 8},
        "delta": 1e-5,
    },
    "training": {
        "steps": 20,
        "evaluate_every": 20,
        "optimizer": "momentum",
        "learning_rate": {"total_noise": 0.47},
        "learning_rate_decay": "linear",
    },
    "evaluation": {"attacks": []},
}


def trial(folder: Path, cache: Path, **model: Any) -> TrialResult:
    return run(
        parse({**FIELDS, "model": {**FIELDS["model"], **model}}),
        folder=folder,
        comm=Alone(),
        report=lambda _: True,
        data_dir=folder,
        cache_dir=cache,
    )


def test_few_private_steps_improve_on_what_the_names_say(tmp_path, cache):
    found = trial(tmp_path, cache)
    metrics = found.metrics
    assert metrics["ser"] is not None
    assert metrics["ser_before_training"] is not None
    assert metrics["ser"] < 0.5 * metrics["ser_before_training"]
    assert metrics["epsilon"] == pytest.approx(8, rel=0.02)
    assert metrics["epsilon"] is not None
    assert metrics["epsilon"] <= 8
    public = " / ".join(found.privacy.public)
    for what in ("labels' names", "for whitening, over utterances", "took 1 out of its pretrain"):
        assert what in public


def test_without_names_nothing_is_known_before(tmp_path, cache):
    found = trial(tmp_path, cache, prior="none")
    assert "ser_before_training" not in found.metrics
    assert not any("labels' names" in what for what in found.privacy.public)


def test_a_checkpoint_names_the_encoder_by_its_files(tmp_path, cache):
    def interrupt(report: EpochReport) -> bool:
        raise InterruptedError

    config = parse({**FIELDS, "privacy": {**FIELDS["privacy"], "noise_multiplier": 5.0}})
    place = tmp_path / "trial"
    with pytest.raises(InterruptedError):
        run(
            config,
            folder=place,
            comm=Alone(),
            report=interrupt,
            data_dir=tmp_path,
            cache_dir=cache,
        )
    assert checkpoint.state_of(place)[ENCODER] == encoder_digest("small") != ""


class Reads:
    """A loader that keeps the sizes of its batches."""

    def __init__(self, loader: Any) -> None:
        self._loader = loader
        self.sizes: list[int] = []

    def batch(self, ids: Any) -> Any:
        self.sizes.append(len(ids))
        return self._loader.batch(ids)


def test_a_full_batch_that_does_not_fit_is_passed_in_parts(tmp_path, cache, monkeypatch):
    """A step's memory has a bound whatever the number of records, and its release is the same."""
    privacy = {**FIELDS["privacy"], "noise_multiplier": 1.0, "reproducible_noise": True}
    released, sizes = [], []
    for kept, at_once in ((1 << 30, 1 << 28), (0, 1 << 17)):
        monkeypatch.setattr(features, "_KEPT_BYTES", kept)
        monkeypatch.setattr(features, "_PASS_BYTES", at_once)
        setup = prepare(
            parse({**FIELDS, "privacy": privacy}),
            comm=Alone(),
            data_dir=tmp_path,
            cache_dir=cache,
        )
        read = Reads(setup.engine._loader)
        monkeypatch.setattr(setup.engine, "_loader", read)
        setup.engine.step(0, 0)
        released.append(setup.engine.released.clone())
        sizes.append(read.sizes)
    number = setup.mechanism.num_records
    assert sizes[0] == [number]
    assert len(sizes[1]) > 3
    assert sum(sizes[1]) == number
    assert torch.allclose(released[0], released[1], rtol=1e-4, atol=1e-4)
