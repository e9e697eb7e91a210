"""A private selection of real trials by the command line, from its run to its unsealing."""

import io
import json

import pytest
import yaml

from sweep import cli
from tests.libraries import IGNORED

pytestmark = [pytest.mark.slow, *IGNORED]  # trains
_SPACE = {
    "name": "chosen",
    "base": {
        "data": {"name": "communication", "num_utterances": 1000},
        "model": {
            **{"name": "clc", "word_vectors": "hashed", "word_buckets": 64, "word_dim": 8},
            **{"char_filters": 8, "hidden_size": 8, "num_layers": 1},
        },
        "engine": "dp_sgd",
        "privacy": {"delta": 1e-5},
        "training": {"epochs": 2, "expected_batch_size": 64, "num_workers": 1},
        "evaluation": {"attacks": []},
    },
    "axes": {
        "privacy.max_grad_norm": {"choice": [0.5, 1.0]},
        "training.learning_rate": {"range": {"low": 1e-3, "high": 1e-2, "log": True}},
    },
    "search": {
        "strategy": "private_selection",
        "num_trials": {"law": "logarithmic", "mean": 2},
        "target_epsilon": 4.0,
    },
    "resources": {"executor": "local"},
}


def test_the_best_is_run_shown_exported_used_and_then_unsealed(place, monkeypatch, capsys):
    file, target = place / "chosen.yaml", place / "export"
    file.write_text(yaml.safe_dump(_SPACE))

    def answer(*arguments):
        assert cli.run(arguments) == 0, capsys.readouterr()
        return capsys.readouterr().out

    answer("run", str(file))
    assert "epsilon_selected 4 at delta 1e-05" in answer("show", "chosen")
    answer("export", "chosen", "--to", str(target))
    card = json.loads((target / "privacy_card.json").read_text())
    assert 3.96 <= card["epsilon"] <= 4.0
    assert card["accountant"] == "selection"
    assert card["epsilon_one_trial"] < card["epsilon"]
    assert (card["selection"]["law"], card["selection"]["mean"]) == ("logarithmic", 2.0)
    assert "logarithmic law with mean 2" in (target / "privacy_card.md").read_text()
    metrics = json.loads((target / "metrics.json").read_text())
    assert metrics["epsilon"] == card["epsilon"]

    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"call my mother\n")))
    assert answer("predict", str(target), "--json")

    (ledger,) = json.loads(answer("ledger", "--json"))["datasets"]
    assert ledger["total"]["epsilon"] == pytest.approx(card["epsilon"])
    total = json.loads(answer("unseal", "chosen", "--yes", "--json"))["total"]
    (ledger,) = json.loads(answer("ledger", "--json"))["datasets"]
    assert ledger["total"]["epsilon"] == pytest.approx(total["epsilon"], rel=1e-3)
    assert ledger["num_trials"] == total["num_releases"] >= 1
    assert "was unsealed" in answer("show", "chosen")
