"""A whole trial of heads on the encoder that ships."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from trainables.config import parse
from trainables.encoders.identity import ENCODER, encoder_digest
from trainables.result import EpochReport, TrialResult
from trainables.system import checkpoint
from trainables.system.communication import Alone
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


def trial(folder: Path, cache: Path | None = None, **model: Any) -> TrialResult:
    return run(
        parse({**FIELDS, "model": {**FIELDS["model"], **model}}),
        folder=folder,
        comm=Alone(),
        report=lambda _: True,
        data_dir=folder,
        cache_dir=cache or folder / "cache",
    )


def test_few_private_steps_improve_on_what_the_names_say(tmp_path: Path) -> None:
    found = trial(tmp_path)
    metrics = found.metrics
    assert metrics["ser"] is not None
    assert metrics["ser_before_training"] is not None
    assert metrics["ser"] < 0.5 * metrics["ser_before_training"]
    assert metrics["epsilon"] == pytest.approx(8, rel=0.02)
    assert metrics["epsilon"] is not None
    assert metrics["epsilon"] <= 8
    public = " / ".join(found.privacy["public"])
    for what in ("labels' names", "for whitening, over utterances", "took 1 out of its pretrain"):
        assert what in public


def test_without_names_nothing_is_known_before(tmp_path: Path) -> None:
    found = trial(tmp_path, prior="none")
    assert "ser_before_training" not in found.metrics
    assert not any("labels' names" in what for what in found.privacy["public"])


def test_a_checkpoint_names_the_encoder_by_its_files(tmp_path: Path) -> None:
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
            cache_dir=tmp_path / "cache",
        )
    assert checkpoint.state_of(place)[ENCODER] == encoder_digest("small") != ""
