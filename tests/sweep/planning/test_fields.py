from sweep.planning.fields import config_fields, fields_below
from sweep.store.plans import flat
from trainables.config.trial import parse


def test_every_field_of_a_dumped_config_is_listed():
    listed = {row.path for row in config_fields()}
    for fields in (
        {},
        {
            "task": "synthesis",
            "engine": "sgd",
            "data": {"name": "smcalflow"},
            "model": {"name": "causal_lm"},
        },
        {"model": {"name": "bert"}},
    ):
        config = parse(fields)
        for path in flat(config.model_dump(mode="json")):
            # A section that a config leaves out is listed by its fields.
            assert path in listed or any(
                row.startswith(f"{path}.") for row in listed
            ), path


def test_a_field_says_its_entries_its_type_and_what_is_allowed():
    rows = {row.path: row for row in config_fields()}
    assert rows["model.char_filters"].entries == ("clc",)
    assert rows["training.epochs"].entries == ("dp_sgd", "edp_sgd", "sgd")
    assert rows["training.num_workers"].entries == ()
    for path, name in (
        ("model.name", "features"),
        ("engine", "dp_sgd"),
        ("task", "synthesis"),
    ):
        assert name in rows[path].allowed
    assert rows["training.epochs"].allowed == ">= 1, <= 100000"
    assert rows["privacy.noise_multiplier.target_epsilon"].type == "number"
    assert [row.path for row in fields_below(None) if not row.description] == []
