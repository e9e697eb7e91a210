"""What a service is given of a trial's settings, its name included."""

from __future__ import annotations

from dataclasses import replace

from sweep.tracking.facts import Audience, TrialFacts, facts_of
from tests.sweep.results.test_select import record

VALUES = {
    "data.num_records": 4321,
    "model.encoder": "/home/ada/encoder",
    "privacy.noise_multiplier": {"target_epsilon": 8.0},
    "training.learning_rate": 0.1,
}
NAME = "all, num_records=4321, encoder=/home/ada/encoder, ε≤8, lr=0.1"


def facts(audience: Audience) -> TrialFacts:
    made = record("all", engine="sgd", ser=0.1)
    made = replace(made, plan=replace(made.plan, name=NAME, values=VALUES))
    return facts_of(made, [], sweep="s", sweep_id="1", audience=audience)


def test_a_name_has_no_more_than_the_settings_that_may_leave() -> None:
    assert facts("curator").name == NAME
    assert facts("public").name == "all, ε≤8, lr=0.1"
