"""The configs that the benchmarks make are ones that a trial accepts."""

import importlib
import itertools
from argparse import Namespace
from pathlib import Path

import pandas as pd
import pytest
import yaml

from search_spaces import space as spaces
from search_spaces.expansion import expand

FRAME = pd.DataFrame()
FOLDER = Path(__file__).parents[2] / "benchmarks" / "synthesis"


def _module(name, monkeypatch):
    monkeypatch.syspath_prepend(FOLDER)
    monkeypatch.setattr("sys.argv", [f"{name}.py"])
    return importlib.import_module(name)


@pytest.mark.parametrize("method", ["one_stage", "two_stage"])
def test_missing_function_makes_a_config(method, monkeypatch):
    module = _module("missing_function", monkeypatch)
    config = module._config(module._options(), method=method)
    assert config.synthesis.method == method
    assert config.synthesis.remove_function == "WeatherQueryApi"


@pytest.mark.parametrize("how", ["plain", "clipped", "noised", "noised@30"])
@pytest.mark.parametrize("stage", ["parses", "utterances", "none"])
def test_stages_makes_a_config(stage, how, monkeypatch):
    module = _module("stages", monkeypatch)
    config = module._config(module._options(), stage, how)
    assert config.engine == ("sgd" if how == "plain" else "dp_sgd")
    assert config.synthesis.method == ("one_stage" if stage == "none" else "two_stage")


@pytest.mark.parametrize("corpus", ["atis", "nlu_eval", "communication"])
@pytest.mark.parametrize("model", ["clc", "bert"])
def test_every_point_and_method_of_table_1_is_a_trial(corpus, model, monkeypatch):
    monkeypatch.syspath_prepend(FOLDER.parent)
    table1 = importlib.import_module("table1")
    table = yaml.safe_load((FOLDER.parent / "table1.yaml").read_text())
    documents = []
    monkeypatch.setattr(
        table1.Pair, "trials", lambda _, part, document: documents.append(document) or FRAME
    )
    options = Namespace(set=[], points=None, epochs=None, seeds=None, method=None)
    pair = table1.Pair(corpus, model, table, options)
    best = {}
    for decay, noise in itertools.product(table1.DECAYS, table1.NOISES):
        if corpus in table1.PAPER.index and noise == "implied":
            assert pair.implied(decay)
        pair.points(decay, noise)
        best[f"{decay} {noise}"] = table["decays"][decay][0]
    pair.full(best)
    for document in documents:
        points = expand(spaces.parse({**document, "name": "x"})).points
        assert points
        assert all(point.config is not None for point in points)
