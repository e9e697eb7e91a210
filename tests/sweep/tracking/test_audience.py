"""Which figures of a trial are the curator's in a tracking store, as on a card."""

from __future__ import annotations

from dataclasses import replace

from sweep.results.export import public_metrics
from sweep.tracking.note import trial_note
from sweep.tracking.text import mark_counted, metric_key
from tests.sweep.results.test_select import record


def test_a_figure_that_reveals_a_counted_number_of_private_records_is_the_curators() -> None:
    """Delta follows from n by default, and the paper's epsilon from delta."""
    figures = {"ser": 0.1, "delta": 1 / 432_100, "epsilon_paper": 20.0}
    for data, is_hidden in (
        ({"name": "json_lines"}, True),
        ({"name": "json_lines", "num_records": 40_000}, False),
        ({"name": "atis"}, False),
    ):
        made = record("all", engine="sgd", **figures)
        origin = {"engine": "sgd", "task": "nlu", "data": data}
        made = replace(made, plan=replace(made.plan, origin=origin))
        assert ("delta" not in public_metrics(made)) == is_hidden
        assert ("epsilon of the paper" not in trial_note(made)) == is_hidden
        given = {"ser": 0.1, "steps": 3.0, "epsilon_paper_spent": 9.0}
        kept = {"ser"} if is_hidden else set(given)
        marked = mark_counted(given, made.plan)
        assert marked == {n if n in kept else f"curator_only/{n}": v for n, v in given.items()}
        assert metric_key("curator_only/steps") == "curator_only/steps"


def test_a_point_that_makes_no_config_has_no_figure_to_hide() -> None:
    origin = {"engine": "none such"}
    refused = replace(record("all", engine="sgd").plan, origin=origin, refused_by="config")
    assert not refused.reveals_count("epsilon_paper")
