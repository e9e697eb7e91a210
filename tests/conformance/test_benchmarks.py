"""The configs that the benchmarks of synthesis make are ones that a trial accepts."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).parents[2] / "benchmarks" / "synthesis"


def _module(name: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(FOLDER)
    monkeypatch.setattr("sys.argv", [f"{name}.py"])
    return importlib.import_module(name)


@pytest.mark.parametrize("method", ["one_stage", "two_stage"])
def test_missing_function_makes_a_config(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module = _module("missing_function", monkeypatch)
    config = module._config(module._options(), method=method)
    assert config.synthesis.method == method
    assert config.synthesis.remove_function == "WeatherQueryApi"


@pytest.mark.parametrize("how", ["plain", "clipped", "noised", "noised@30"])
@pytest.mark.parametrize("stage", ["parses", "utterances", "none"])
def test_stages_makes_a_config(stage: str, how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module = _module("stages", monkeypatch)
    config = module._config(module._options(), stage, how)
    assert config.engine == ("sgd" if how == "plain" else "dp_sgd")
    assert config.synthesis.method == ("one_stage" if stage == "none" else "two_stage")
