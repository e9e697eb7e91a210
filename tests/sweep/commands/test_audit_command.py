"""`sweep audit`: passes satisfied claims, fails violated ones, refuses mechanisms without one."""

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from sweep.commands import audit
from trainables.errors import InvalidInput, TrialFailed
from trainables.guarantee.mechanism import Mechanism


def call(*arguments):
    app = typer.Typer()
    app.callback()(lambda: None)
    app.command()(audit.audit)
    result = CliRunner().invoke(app, ["audit", *arguments])
    return result.stdout, result.exception


@pytest.fixture
def config(tmp_path):
    place = tmp_path / "one.yaml"
    place.write_text("engine: edp_sgd\ntraining: {num_workers: 4}\n", encoding="utf-8")
    return str(place)


def test_the_real_step_keeps_its_claim(config):
    printed, problem = call(config, "--calls", "240", "--json")
    assert problem is None
    (row,) = json.loads(printed)["audits"]
    assert row["passed"]
    assert row["claimed"] == pytest.approx(0.25)  # z / (2 sqrt N)


def test_a_claim_of_twice_the_noise_fails(config, monkeypatch):
    monkeypatch.setattr(Mechanism, "sensitivity", 1.0)
    _, problem = call(config, "--calls", "240", "--json")
    assert isinstance(problem, TrialFailed)


def test_a_section_that_is_set_keeps_a_field_that_is_set_before_it(config):
    changes = {"training.num_workers": 2, "training": {"epochs": 2}}
    for path in (Path(config), None):
        for _, trial in audit._configs(path, changes):
            assert (trial.training.num_workers, trial.training.epochs) == (2, 2)


def test_a_shipped_space_is_read_and_refused_for_its_variants():
    _, problem = call("quick")
    assert str(problem) == "expected one trial's config, got a space with axes in quick"


def test_a_step_without_noise_claims_nothing(config):
    _, problem = call(config, "--set", "privacy.noise_multiplier=0")
    assert isinstance(problem, InvalidInput)
