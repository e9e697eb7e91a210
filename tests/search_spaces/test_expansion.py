from pathlib import Path

import numpy as np
import pytest

from search_spaces import expansion as expanding
from search_spaces import space as spaces
from search_spaces.expansion import expand
from search_spaces.space import read
from tests.refusals import refused

TINY = Path(__file__).with_name("tiny.yaml")
LR, BATCH = "training.learning_rate", "training.expected_batch_size"


def expansion(**fields):
    return expand(spaces.parse({"name": "s", **fields}))


def random_points(strategy, num_samples, seed=0):
    found = expansion(
        axes={
            LR: {"range": {"low": 1e-4, "high": 1, "log": True}},
            "privacy.max_grad_norm": {"range": {"low": 0.001, "high": 1.0}},
        },
        search={"strategy": strategy, "num_samples": num_samples, "seed": seed},
    )
    rows = [[p.values[LR], p.values["privacy.max_grad_norm"]] for p in found.points]
    return np.column_stack(
        [(np.log10([r[0] for r in rows]) + 4) / 4, [r[1] for r in rows]]
    )


def test_a_grid_is_the_product_of_its_axes_over_variants_and_seeds():
    points = expand(read(TINY)).points
    assert [(p.variant, p.values.get("training.seed")) for p in points[:2]] == [
        ("sgd", 0),
        ("sgd", 1),
    ]
    assert len(points) == 2 + 2 * 2 * 2
    assert all(p.baseline == (p.variant == "sgd") for p in points)
    assert all(p.config is not None and p.config.training.epochs == 3 for p in points)


def test_a_constraint_refuses_a_point_with_its_reason():
    refused = [p for p in expand(read(TINY)).points if p.reason is not None]
    assert {(p.values["privacy.max_grad_norm"], p.values["privacy.noise_decay.tau"])
            for p in refused} == {(1, 0.5)}  # fmt: skip
    assert {p.reason for p in refused} == {"more decay than the clip norm bears"}


def test_equal_points_are_run_once():
    found = expansion(axes={LR: [0.1, 0.1, 1e-1]}, repeats=[3, 3])
    assert (len(found.points), found.merged) == (1, 5)


def test_too_many_points_are_refused_before_any_is_made_and_over_all_variants(
    monkeypatch,
):
    monkeypatch.setattr(expanding, "MAX_POINTS", 3)
    assert len(expansion(axes={LR: [0.1, 0.2, 0.3]}).points) == 3
    with refused("at most 3 points"):  # a product whose points would merge into one
        expansion(axes={LR: [0.1] * 4})
    variants = [{"name": "a", "set": {"training.seed": 1}}, {"name": "b"}]
    with refused("at most 3 points"):
        expansion(axes={LR: [0.1, 0.2]}, variants=variants)


def test_a_point_that_any_variant_calls_a_baseline_is_one():
    found = expansion(variants=[{"name": "a"}, {"name": "b", "baseline": True}])
    assert (len(found.points), found.points[0].baseline) == (1, True)


def test_a_field_set_by_itself_is_kept_in_a_section_set_as_a_whole():
    found = expansion(
        axes={
            "model": [{"name": "clc", "hidden_size": 32}],
            "privacy.noise_decay.tau": [0.1, 0.2],
            "privacy.noise_decay": [{"kind": "linear"}, {"kind": "exponential"}],
        },
        variants=[{"name": "a", "set": {"model.dropout": 0.5}}],
    )
    assert [
        (p.fields["model"], p.fields["privacy"]["noise_decay"]) for p in found.points
    ] == [
        ({"name": "clc", "hidden_size": 32, "dropout": 0.5}, {"kind": kind, "tau": tau})
        for tau in (0.1, 0.2)
        for kind in ("linear", "exponential")
    ]


@pytest.mark.parametrize(
    ("fields", "seeds"),
    [
        ({"override": {"training": {"epochs": 3}}}, [0, 1]),
        ({"override": {"training": {"epochs": 3, "seed": 7}}}, [7]),
        ({"axes": {"training.seed": [3, 4, 5]}}, [3, 4, 5]),
        ({"variants": [{"name": "a", "set": {"training.seed": 9}}]}, [9]),
    ],
)
def test_repeats_hold_for_training_set_as_a_whole_and_not_where_seeds_are_given(
    fields, seeds
):
    points = expansion(repeats=2, **fields).points
    assert [point.fields["training"]["seed"] for point in points] == seeds
    assert [
        point.values.get("training.seed", seed)
        for point, seed in zip(points, seeds, strict=True)
    ] == seeds


@pytest.mark.parametrize(
    ("path", "spread", "values"),
    [
        (LR, {"low": 0.1, "high": 1, "num": 4}, [0.1, 0.4, 0.7, 1.0]),
        (BATCH, {"low": 1.5, "high": 5.5, "integer": True, "num": 3}, [2, 4, 5]),
    ],
)
def test_a_grid_over_a_range_has_its_number_of_points_between_its_ends(
    path, spread, values
):
    found = expansion(axes={path: {"range": spread}})
    assert [point.values[path] for point in found.points] == values


def test_a_variant_drops_fixes_and_replaces_axes():
    found = expansion(
        axes={LR: [0.1, 0.2], "privacy.max_grad_norm": [1, 2]},
        variants=[
            {"name": "fixes", "set": {LR: 0.5}},
            {"name": "drops", "drop_axes": "all"},
            {"name": "replaces", "axes": {LR: [0.7]}, "set": {"engine": "dp_sgd"}},
        ],
    )
    rates = {(p.variant, p.config.training.learning_rate) for p in found.points}
    assert rates == {("fixes", 0.5), ("drops", 0.001), ("replaces", 0.7)}


def test_an_override_is_in_every_trial_and_its_axis_is_gone():
    found = expansion(axes={LR: [0.1, 0.2]}, override={LR: 0.3}, repeats=2)
    assert [p.config.training.learning_rate for p in found.points if p.config] == [
        0.3,
        0.3,
    ]
    assert found.merged == 0


def test_a_combination_that_cannot_be_is_data():
    decay = "privacy.noise_decay"
    found = expansion(
        axes={f"{decay}.kind": ["none", "linear"], f"{decay}.tau": [0, 0.1]}
    )
    refused = [p for p in found.points if p.reason]
    assert [(p.values[f"{decay}.kind"], p.values[f"{decay}.tau"]) for p in refused] == [
        ("none", 0.1)
    ]
    assert refused[0].config is None


def test_a_small_space_is_exhausted_and_never_drawn_twice():
    found = expansion(
        axes={
            LR: {"choice": [0.1, 0.2, 0.3]},
            "privacy.max_grad_norm": {"choice": [1, 2]},
        },
        search={"strategy": "random", "num_samples": 50},
    )
    assert (len(found.points), found.merged) == (6, 0)


def test_a_grid_axis_is_crossed_with_every_draw():
    found = expansion(
        axes={
            LR: {"range": {"low": 0.1, "high": 1}},
            "privacy.max_grad_norm": {"grid": [1, 2]},
        },
        search={"strategy": "random", "num_samples": 5},
    )
    assert len(found.points) == 10
    assert len({p.values[LR] for p in found.points}) == 5


def test_a_private_selection_crosses_its_lists_at_the_middle_of_its_ranges():
    found = expansion(
        axes={
            "privacy.noise_multiplier": [1.0, 2.0],
            LR: {"range": {"low": 1, "high": 3}},
        },
        search={
            "strategy": "private_selection",
            "num_trials": {"law": "geometric", "mean": 3},
        },
    )
    assert [point.values[LR] for point in found.points] == [2.0] * 2


@pytest.mark.parametrize("strategy", ["random", "quasi_random"])
def test_draws_cover_the_space_evenly(strategy):
    """Each coordinate is uniform: its mean is within 4 standard errors of 1/2 (false
    alarm 1e-4), while half or one and a half of the right spread would be seen.
    """
    drawn = random_points(strategy, 400)
    assert np.all(np.abs(drawn.mean(axis=0) - 0.5) < 4 / np.sqrt(12 * 400))
    assert np.all(np.abs(drawn.std(axis=0) * np.sqrt(12) - 1) < 0.15)


def test_quasi_random_draws_leave_smaller_gaps():
    """The largest empty gap of a coordinate, over ten seeds."""

    def gaps(strategy):
        drawn = [np.sort(random_points(strategy, 64, seed)[:, 0]) for seed in range(10)]
        return float(np.mean([np.diff(values).max() for values in drawn]))

    assert gaps("quasi_random") < 0.6 * gaps("random")


def test_what_counts_steps_or_epochs_replaces_the_other_of_an_earlier_layer():
    """A variant is over the base and --set over both."""
    base = {"engine": "dp_sgd", "privacy": {"sampling": "poisson"}}
    by_steps = {**base, "training": {"steps": 6, "evaluate_every": 2}}
    variants = [{"name": "epochs", "set": {"training.epochs": 4}}, {"name": "steps"}]
    for override, epochs, steps in (
        ({}, [4, 3], [None, 6]),
        ({"training.epochs": 5}, [5], [None]),
        ({"training.steps": 20}, [10], [20]),
    ):
        points = expansion(base=by_steps, variants=variants, override=override).points
        configs = [
            point.config.training for point in points if point.config is not None
        ]
        assert [(each.epochs, each.steps) for each in configs] == [
            *zip(epochs, steps, strict=True)
        ]


def test_a_trial_that_its_seed_cannot_change_is_one_point():
    """Three equal rows would cost three times as much and look like no spread."""
    heads = {"model": {"name": "features"}, "privacy": {"sampling": "full"}}
    variants = {
        "heads": {**heads, "engine": "sgd"},
        "batches": {**heads, "engine": "sgd", "privacy": {"sampling": "poisson"}},
        "coins": {**heads, "engine": "sgd", "data": {"split": "bernoulli"}},
        "noise": {
            "engine": "dp_sgd",
            "model": {"name": "features"},
            "privacy": {"sampling": "full", "noise_multiplier": 2.0},
        },
        "clc": {"engine": "sgd", "privacy": {"sampling": "full"}},
    }
    space = spaces.parse(
        {
            "name": "seeds",
            "variants": [{"name": n, "set": each} for n, each in variants.items()],
            "repeats": 3,
        }
    )
    names = [point.variant for point in expand(space).points]
    assert names == ["heads", *(n for n in list(variants)[1:] for _ in range(3))]
