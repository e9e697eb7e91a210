"""Fields of a space that some of its entries lack: dropped where shared, refused where of none."""

from search_spaces import space as spaces
from search_spaces.expansion import expand
from search_spaces.files import shipped_spaces


def expansion(**fields):
    return expand(spaces.parse({"name": "s", **fields}))


BERT = {"name": "bert", "set": {"model.name": "bert"}}


def test_shared_fields_that_a_variant_s_model_lacks_are_dropped_with_the_change():
    found = expansion(
        base={"model": {"char_dim": 8, "num_layers": 3}}, variants=[{"name": "clc"}, BERT]
    )
    clc, bert = (point.config.model.model_dump() for point in found.points if point.config)
    assert (clc["char_dim"], clc["num_layers"]) == (8, 3)
    assert "char_dim" not in bert
    assert bert["num_layers"] == 3


def test_a_shared_axis_that_a_model_lacks_gives_it_one_trial():
    """Equal trials are not run once for each value of a field that they never read."""
    found = expansion(axes={"model.char_dim": [8, 16]}, variants=[{"name": "clc"}, BERT])
    assert [dict(point.values) for point in found.points] == [
        {"model.char_dim": 8},
        {"model.char_dim": 16},
        {},
    ]
    assert found.merged == 1


def test_an_override_reaches_the_variants_that_have_the_field():
    found = expansion(override={"model.num_heads": 6}, variants=[{"name": "clc"}, BERT])
    assert [getattr(p.config.model, "num_heads", None) for p in found.points if p.config] == [
        None,
        6,
    ]


def test_a_section_that_is_set_as_a_whole_may_have_what_is_not_read():
    """As that of an exported config, which has the batch size beside full batches."""
    whole = {"steps": 3, "expected_batch_size": 64, "evaluate_every": 1}
    base = {"engine": "dp_sgd", "privacy": {"sampling": "full"}, "data": {"num_records": 4_000}}
    for where in ({"override": {"training": whole}}, {"axes": {"training": [whole]}}):
        [point] = expansion(base=base, **where).points
        assert point.config is not None


def test_an_axis_over_models_brings_each_its_own_fields():
    found = expansion(
        base={"model": {"num_layers": 1}},
        axes={"model.name": ["clc", "bert"], "model.num_heads": [2, 3]},
    )
    rows = [(p.config.model.name, getattr(p.config.model, "num_heads", None)) for p in found.points]
    assert rows == [("clc", None), ("bert", 2), ("bert", 3)]


def test_a_model_that_a_variant_names_owns_the_sections_of_a_shared_axis():
    found = expansion(
        axes={"model": [{"dropout": 0.1}, {"dropout": 0.2}]},
        variants=[{"name": "v", "set": {"model.name": "bert", "model.num_layers": 2}}],
    )
    assert [p.fields["model"] for p in found.points] == [
        {"name": "bert", "num_layers": 2, "dropout": dropout} for dropout in (0.1, 0.2)
    ]


def test_every_shipped_space_uses_all_that_it_sets():
    for name in shipped_spaces():
        space = spaces.read(name)
        for each in (space, spaces.with_fallback(space)):
            assert expand(each).points or each.search.is_adaptive  # which chooses its own


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
