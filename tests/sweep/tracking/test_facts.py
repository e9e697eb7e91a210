"""What a service is given of a trial's settings, its name included."""

from __future__ import annotations

from dataclasses import replace

from sweep.results.export import public_metrics
from sweep.tracking.facts import Audience, TrialFacts, facts_of
from sweep.tracking.note import trial_note
from sweep.tracking.text import mark_counted, metric_key
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


def test_a_figure_that_reveals_a_counted_number_of_private_records_stays_here() -> None:
    """As on a card: delta follows from n by default, and the paper's epsilon from delta."""
    figures = {"ser": 0.1, "delta": 1 / 432_100, "epsilon_paper": 20.0}
    row = {"epochs_done": 1, "seconds": 1.0, "time": 1.0, "metrics": {"epsilon_paper_spent": 9.0}}
    for data, is_hidden in (
        ({"name": "json_lines"}, True),
        ({"name": "json_lines", "num_records": 40_000}, False),
        ({"name": "atis"}, False),
    ):
        made = record("all", engine="sgd", **figures)
        origin = {"engine": "sgd", "task": "nlu", "data": data}
        made = replace(made, plan=replace(made.plan, origin=origin))
        for audience in ("public", "curator"):
            found = facts_of(made, [row], sweep="s", sweep_id="1", audience=audience)
            known = {*found.final, *found.epochs[0].figures}
            assert "ser" in known
            hidden = is_hidden and audience == "public"
            assert ("delta" not in known) == hidden
            assert (known & {"epsilon_paper", "epsilon_paper_spent"} == set()) == hidden
        assert ("delta" not in public_metrics(made)) == is_hidden
        assert ("epsilon of the paper" not in trial_note(made)) == is_hidden
        marked = mark_counted({"ser": 0.1, "steps": 3.0}, made.plan)
        assert marked == {"ser": 0.1, "curator_only/steps" if is_hidden else "steps": 3.0}
        assert metric_key("curator_only/steps") == "curator_only/steps"


def test_a_point_that_makes_no_config_has_no_figure_to_hide() -> None:
    origin = {"engine": "none such"}
    refused = replace(record("all", engine="sgd").plan, origin=origin, refused_by="config")
    assert not refused.reveals_count("epsilon_paper")
