"""Fields of a space that some of its entries lack: dropped where shared, refused where of none."""

from __future__ import annotations

from typing import Any

import pytest

from search_spaces import space as spaces
from search_spaces.expansion import Expansion, expand
from trainables.errors import InvalidInput


def expanded(**fields: Any) -> Expansion:
    return expand(spaces.parse({"name": "s", **fields}))


BERT = {"name": "bert", "set": {"model.name": "bert"}}


def test_shared_fields_that_a_variant_s_model_lacks_are_dropped_with_the_change() -> None:
    found = expanded(
        base={"model": {"char_dim": 8, "num_layers": 3}}, variants=[{"name": "clc"}, BERT]
    )
    clc, bert = (point.config.model.model_dump() for point in found.points if point.config)
    assert (clc["char_dim"], clc["num_layers"]) == (8, 3)
    assert "char_dim" not in bert
    assert bert["num_layers"] == 3


def test_a_shared_axis_that_a_model_lacks_gives_it_one_trial() -> None:
    """Equal trials are not run once for each value of a field that they never read."""
    found = expanded(axes={"model.char_dim": [8, 16]}, variants=[{"name": "clc"}, BERT])
    assert [dict(point.values) for point in found.points] == [
        {"model.char_dim": 8},
        {"model.char_dim": 16},
        {},
    ]
    assert found.merged == 1


def test_an_override_reaches_the_variants_that_have_the_field() -> None:
    found = expanded(override={"model.num_heads": 6}, variants=[{"name": "clc"}, BERT])
    assert [getattr(p.config.model, "num_heads", None) for p in found.points if p.config] == [
        None,
        6,
    ]


@pytest.mark.parametrize(
    ("fields", "line"),
    [
        (
            {"base": {"model": {"num_heads": 4}}},
            "unknown field model.num_heads for model clc: did you mean num_layers?",
        ),
        (
            {"base": {"model": {"chardim": 4}}, "variants": [{"name": "a"}, BERT]},
            "unknown field model.chardim for model clc or bert: did you mean char_dim?",
        ),
        (
            {"variants": [{"name": "a"}, {**BERT, "axes": {"model.char_dim": [4, 5]}}]},
            "unknown field model.char_dim for model bert",
        ),
        (
            {"variants": [{"name": "a", "set": {"model.num_heads": 4}}, BERT]},
            "unknown field model.num_heads for model clc",
        ),
        (
            {"axes": {"model.num_heads": [2, 3]}},
            "unknown field model.num_heads for model clc",
        ),
        (
            {"override": {"data.num_utterances": 2_000}},
            "unknown field data.num_utterances for data atis",
        ),
        (
            {"axes": {"model": [{"name": "clc", "num_heads": 2}]}},
            "unknown field model.num_heads for model clc",
        ),
    ],
)
def test_a_field_of_no_entry_is_refused(fields: dict[str, Any], line: str) -> None:
    with pytest.raises(InvalidInput) as found:
        expanded(**fields)
    assert str(found.value).startswith(line)


def test_an_axis_over_models_brings_each_its_own_fields() -> None:
    found = expanded(
        base={"model": {"num_layers": 1}},
        axes={"model.name": ["clc", "bert"], "model.num_heads": [2, 3]},
    )
    rows = [(p.config.model.name, getattr(p.config.model, "num_heads", None)) for p in found.points]
    assert rows == [("clc", None), ("bert", 2), ("bert", 3)]


def test_every_shipped_space_uses_all_that_it_sets() -> None:
    for name in spaces.shipped():
        space = spaces.read(name)
        for each in (space, spaces.with_fallback(space)):
            assert expand(each).points or each.search.is_adaptive  # which chooses its own
