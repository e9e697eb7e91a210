"""Fields of a space that some of its entries lack: dropped where shared, refused where
of none.
"""

import pytest

from search_spaces import space as spaces
from search_spaces.expansion import expand


def expansion(**fields):
    return expand(spaces.parse({"name": "s", **fields}))


BOTH = [{"name": "clc"}, {"name": "bert", "set": {"model.name": "bert"}}]


@pytest.mark.parametrize(
    ("fields", "models"),
    [
        (  # shared fields are dropped with the change of the model
            {"base": {"model": {"char_dim": 8, "num_layers": 3}}, "variants": BOTH},
            [{"char_dim": 8, "num_layers": 3}, {"name": "bert", "num_layers": 3}],
        ),
        # equal trials are not run once for each value of a field that they never read
        (
            {"axes": {"model.char_dim": [8, 16]}, "variants": BOTH},
            [{"char_dim": 8}, {"char_dim": 16}, {"name": "bert"}],
        ),
        (
            {"override": {"model.num_heads": 6}, "variants": BOTH},
            [{}, {"name": "bert", "num_heads": 6}],
        ),
        (
            {"axes": {"model.name": ["clc", "bert"], "model.num_heads": [2, 3]}},
            [
                {"name": "clc"},
                *({"name": "bert", "num_heads": heads} for heads in (2, 3)),
            ],
        ),
        (  # the model that a variant names owns the sections of a shared axis
            {
                "axes": {"model": [{"dropout": 0.1}, {"dropout": 0.2}]},
                "variants": BOTH[1:],
            },
            [{"name": "bert", "dropout": dropout} for dropout in (0.1, 0.2)],
        ),
    ],
)
def test_a_model_has_the_fields_that_it_reads_alone(fields, models):
    points = expansion(**fields).points
    assert [point.fields.get("model", {}) for point in points] == models
    for point in points:
        own = {f"model.{name}" for name in point.fields.get("model", {})}
        assert {path for path in point.values if path.startswith("model.")} <= own


def test_a_section_that_is_set_as_a_whole_may_have_what_is_not_read():
    """As that of an exported config, which has the batch size beside full batches."""
    whole = {"steps": 3, "expected_batch_size": 64, "evaluate_every": 1}
    base = {
        "engine": "dp_sgd",
        "privacy": {"sampling": "full"},
        "data": {"num_records": 4_000},
    }
    for where in ({"override": {"training": whole}}, {"axes": {"training": [whole]}}):
        [point] = expansion(base=base, **where).points
        assert point.config is not None


def test_noise_is_dropped_where_a_variant_has_none():
    base = {"privacy": {"noise_multiplier": 2.0, "delta": 1e-6}}
    plain = {"name": "plain", "set": {"engine": "sgd"}}
    points = expansion(base=base, variants=[{"name": "usual"}, plain]).points
    privacy = [point.config.privacy.model_dump() for point in points if point.config]
    assert ["noise_multiplier" in each for each in privacy] == [True, False]
    assert [each["delta"] for each in privacy] == [1e-6, 1e-6]


def test_a_constraint_over_noise_says_nothing_of_an_engine_without_it():
    found = expansion(
        variants=[{"name": "usual"}, {"name": "plain", "set": {"engine": "sgd"}}],
        axes={"privacy.noise_multiplier": [0.5, 2.0]},
        constraints=["privacy.noise_multiplier >= 1"],
    )
    assert [point.reason is None for point in found.points] == [False, True, True]
    assert found.merged == 1
