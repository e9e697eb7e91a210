"""`sweep fields`: the listed fields are the accepted ones."""

from __future__ import annotations

import pytest

from sweep.planning.fields import config_fields, fields_below
from trainables.config import TrialConfig, parse
from trainables.errors import InvalidInput


def leaves(fields: object, path: str = "") -> list[str]:
    if not isinstance(fields, dict) or not fields:
        return [path]
    return [leaf for k, v in fields.items() for leaf in leaves(v, f"{path}.{k}".lstrip("."))]


def test_every_field_of_a_dumped_config_is_listed() -> None:
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
        assert isinstance(config, TrialConfig)
        for path in leaves(config.model_dump(mode="json")):
            # A section that a config leaves out is listed by its fields.
            assert path in listed or any(row.startswith(f"{path}.") for row in listed), path


def test_fields_that_entries_own_name_them() -> None:
    rows = {row.path: row for row in config_fields()}
    assert rows["model.char_filters"].entries == ("clc",)
    assert "features" in rows["model.name"].allowed
    assert rows["training.epochs"].entries == ("dp_sgd", "edp_sgd", "sgd")
    assert rows["training.num_workers"].entries == ()


def test_meanings_and_ranges_are_there() -> None:
    rows = {row.path: row for row in config_fields()}
    assert rows["training.epochs"].allowed == ">= 1, <= 100000"
    assert "clip norm C" in rows["privacy.max_grad_norm"].description
    assert rows["privacy.noise_multiplier.target_epsilon"].type == "number"


def test_every_field_has_a_meaning() -> None:
    assert [row.path for row in fields_below(None) if not row.description] == []


def test_the_names_of_an_entry_are_listed() -> None:
    rows = {row.path: row for row in config_fields()}
    assert "dp_sgd" in rows["engine"].allowed
    assert "synthesis" in rows["task"].allowed


@pytest.mark.parametrize(
    ("wrong", "meant"),
    [
        ("training.epoch", "training.epochs"),
        ("epochs", "training.epochs"),
        ("budget.epsilonn", "budget.epsilon"),
    ],
)
def test_an_unknown_path_is_answered_with_the_nearest(wrong: str, meant: str) -> None:
    with pytest.raises(InvalidInput, match=f"did you mean {meant}"):
        fields_below(wrong)
