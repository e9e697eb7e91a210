"""The configs that the benchmarks make are ones that a trial accepts."""

import importlib
from argparse import Namespace
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from tests.refusals import refused
from trainables.config.mechanism import build
from trainables.dp.accounting import choose

FOLDER = Path(__file__).parents[2] / "benchmarks" / "synthesis"


@pytest.mark.parametrize("method", ["one_stage", "two_stage"])
def test_missing_function_makes_a_config(method, monkeypatch):
    monkeypatch.syspath_prepend(FOLDER)
    monkeypatch.setattr("sys.argv", ["missing_function.py"])
    module = importlib.import_module("missing_function")
    config = module._config(module._options(), method=method)
    assert config.synthesis.method == method
    assert config.synthesis.remove_function == "WeatherQueryApi"


@pytest.fixture
def table1(monkeypatch):
    monkeypatch.syspath_prepend(FOLDER.parent)
    return importlib.import_module("table1")


def test_every_trial_of_table_1_is_a_config_and_each_cell_has_a_place(table1):
    options = {
        "data": table1.TABLE["corpora"],
        "model": ("clc", "bert"),
        "noise": table1.NOISES,
    }
    options = Namespace(**options, seeds=None, candidates=None)
    planned = list(table1.plan(options, table1.read_cells(table1.CELLS)))
    for job, among in planned:
        config = (among[0] if among else job).config()
        assert config.engine == ("edp_sgd" if job.method in table1.DECAYS else "sgd")
    cells = {
        (job.corpus, job.model, job.method)
        for job, _ in planned
        if job.noise == "implied"
    }
    assert len(cells) == 3 * 12


@pytest.mark.parametrize("decay", ["none", "linear", "exponential"])
def test_the_implied_noise_has_the_epsilon_of_the_papers_formula(table1, decay):
    for z0, tau in table1.implied(decay, epsilon=1e4, epochs=24, delta=5e-4):
        job = table1.Job("atis", "clc", decay, "implied", 0.5, z0, tau)
        mechanism = build(job.config(), num_records=2_463)
        assert choose.account(mechanism).epsilon_paper == pytest.approx(1e4, rel=0.01)


def test_a_point_is_chosen_by_validation_once_all_candidates_have_ended(table1):
    first, second = (
        table1.Job("atis", "clc", "none", "grid", c, 1e-3) for c in (0.1, 1)
    )
    later = table1.Job("atis", "clc", "none", "grid", seed=1)
    waiting = [(later, [first, second])]
    assert table1.next_job(waiting, {first: {"validation_ser": 0.3}}, set()) is None
    ended = {first: {"validation_ser": 0.3}, second: {"validation_ser": 0.2}}
    assert table1.next_job(waiting, ended, set()) == replace(second, seed=1)
    assert waiting == []


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            lambda text: text.replace("clc,snips", "clc,other"),
            "none for snips with clc$",
        ),
        (
            lambda text: text.replace("sgd_ser", "ser"),
            "with the header model,data,sgd_ser",
        ),
        (
            lambda text: text.replace("24.4", "many"),
            "exponential_log10_epsilon of atis.*'many'$",
        ),
        (
            lambda text: text.replace("24.4", "inf"),
            "exponential_log10_epsilon of atis.*'inf'$",
        ),
        (lambda text: text.replace("24.4", ""), "exponential_log10_epsilon of atis"),
    ],
)
def test_a_damaged_file_of_cells_is_refused(table1, tmp_path, change, words):
    file = tmp_path / "cells.csv"
    file.write_text(change(table1.CELLS.read_text()))
    with refused(words):
        table1.read_cells(file)


def test_holms_correction(table1):
    # Half-widths of 1.96 standard errors: z of 2.5 and 2, p of .0124 and .0455.
    rows = pd.DataFrame(
        {
            "corpus": "atis",
            "model": "clc",
            "method": ["linear", "exponential"],
            "noise": "equal",
        }
        | {"ser_over_none": [2.5, -2.0], "ser_over_none_low": [0.54, -3.96]}
        | {"ser_over_none_high": [4.46, -0.04]}
    )
    first, second = table1.decays(rows)
    assert first.endswith("p 0.012, after Holm (1979) 0.025")
    assert second.endswith("p 0.046, after Holm (1979) 0.046")
