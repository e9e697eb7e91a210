"""A private selection refuses, in one line, settings that break independent draws."""

from search_spaces.expansion import expand
from search_spaces.space import parse

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
