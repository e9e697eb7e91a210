"""A private selection refuses, in one line, settings that break independent draws."""

import pytest

from search_spaces.expansion import expand
from search_spaces.space import parse
from tests.refusals import refused

_SPACE = {
    "name": "chosen",
    "base": {"engine": "dp_sgd", "data": {"name": "atis"}},
    "axes": {"privacy.max_grad_norm": [0.1, 1.0], "privacy.noise_multiplier": [1.0, 2.0]},
    "search": {"strategy": "private_selection", "num_trials": {"law": "geometric", "mean": 3}},
}


def _space(**parts):
    search = {**_SPACE["search"], **parts.pop("search", {})}
    return {**_SPACE, "search": search, **parts}


def test_a_space_of_independent_draws_is_read_and_written_back():
    space = parse(_space())
    assert parse(space.document()) == space
    assert (space.search.num_trials.law, space.search.num_trials.mean) == ("geometric", 3)


def test_lists_are_crossed_and_a_range_is_at_its_middle():
    axes = {**_SPACE["axes"], "training.learning_rate": {"range": {"low": 1, "high": 3}}}
    points = expand(parse(_space(axes=axes))).points
    assert len(points) == 4
    assert {point.values["training.learning_rate"] for point in points} == {2.0}


@pytest.mark.parametrize(
    ("parts", "line"),
    [
        ({"search": {"scheduler": "asha"}}, "stopped by its results is no independent draw"),
        ({"search": {"scheduler": "median"}}, "stopped by its results is no independent draw"),
        ({"search": {"objectives": ["epsilon"]}}, "expected no objectives"),
        ({"search": {"num_startup": 3}}, "expected no num_startup"),
        ({"search": {"num_samples": 10}}, "expected no num_samples"),
        ({"search": {"seed": 1}}, "secret key"),
        ({"search": {"num_trials": None}}, "expected num_trials"),
        ({"search": {"num_trials": {"law": "uniform", "mean": 3}}}, "geometric"),
        ({"search": {"num_trials": {"law": "poisson", "mean": 1}}}, "greater than 1"),
        ({"repeats": 3}, "expected no repeats"),
        ({"budget": {"trials": 4}}, "expected no budget.trials"),
        ({"budget": {"accountant": "paper"}}, "expected budget.accountant sound or selection"),
        ({"variants": [{"name": "plain", "baseline": True}]}, "expected no baseline"),
        ({"axes": {"training.seed": [0, 1]}}, "expected no axis training.seed"),
        ({"axes": {"data.name": ["atis", "snips"]}}, "expected no axis data.name"),
        ({"axes": {"privacy.delta": [1e-5, 1e-6]}}, "expected no axis privacy.delta"),
        # Otherwise one trial would be validated on records that another trains on.
        (
            {"variants": [{"name": "a"}, {"name": "b", "set": {"data.split_seed": 1}}]},
            "expected no data.split_seed in variant b",
        ),
        (
            {"axes": {"training": [{"epochs": 1, "seed": 0}, {"epochs": 1, "seed": 1}]}},
            r"expected no axis training .*\(training.seed\)",
        ),
        (
            {
                "axes": {"training.learning_rate": {"range": {"low": 1, "high": 3}}},
                "constraints": ["training.learning_rate < 2"],
            },
            "over the range training.learning_rate",
        ),
    ],
)
def test_what_is_no_independent_draw_is_refused(parts, line):
    with refused(line):
        parse(_space(**parts))


@pytest.mark.parametrize("strategy", ["grid", "random", "tpe"])
def test_a_law_belongs_to_a_private_selection_alone(strategy):
    search = {"strategy": strategy, "num_trials": {"mean": 3}}
    if strategy != "grid":
        search["num_samples"] = 4
    with refused(r"no search\.num_trials, .* read only with search\.strategy=private_selection"):
        parse({**_SPACE, "search": search})
