from pathlib import Path

import pytest

from sweep.commands import audit
from trainables.dp.mechanism import Mechanism


@pytest.fixture
def config(tmp_path):
    place = tmp_path / "one.yaml"
    place.write_text("engine: edp_sgd\ntraining: {num_workers: 4}\n")
    return str(place)


def test_the_real_step_keeps_its_claim(config, line):
    (row,) = line.facts("audit", config, "--calls", 240)["audits"]
    assert row["passed"]
    assert row["claimed"] == pytest.approx(0.25)  # z / (2 sqrt N)


def test_a_claim_of_twice_the_noise_fails(config, line, monkeypatch):
    monkeypatch.setattr(Mechanism, "sensitivity", 1.0)
    assert line("audit", config, "--calls", 240, "--json")[0] == 1


def test_a_section_that_is_set_keeps_a_field_that_is_set_before_it(config):
    changes = {"training.num_workers": 2, "training": {"epochs": 2}}
    for path in (Path(config), None):
        for _, trial in audit._configs(path, changes):
            assert (trial.training.num_workers, trial.training.epochs) == (2, 2)
