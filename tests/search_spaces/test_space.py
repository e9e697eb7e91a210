from functools import reduce
from pathlib import Path

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from search_spaces import space as spaces
from search_spaces.expansion import expand
from search_spaces.files import name_of, shipped_spaces
from search_spaces.parts import Range
from search_spaces.space import SearchSpace, check_name, read
from tests.refusals import refused
from trainables.config.trial import parse as parse_config

SHIPPED = Path(spaces.__file__).parent
TINY = Path(__file__).with_name("tiny.yaml")


def write(folder, document):
    path = folder / "mine.yaml"
    path.write_text(document if isinstance(document, str) else yaml.safe_dump(document))
    return path


def test_a_space_survives_being_written_and_read():
    space = read(TINY)
    assert spaces.parse(yaml.safe_load(yaml.safe_dump(space.document()))) == space


@pytest.mark.parametrize("name", shipped_spaces())
def test_every_shipped_space_names_its_source_and_has_only_points_that_are_configs(
    name,
):
    space = read(name)
    assert space.source
    for each in (space, spaces.with_fallback(space)):
        assert [
            point.reason for point in expand(each).points if point.config is None
        ] == []


def test_a_bare_config_is_a_space_of_one_point(tmp_path):
    fields = parse_config({"engine": "sgd"}).model_dump(mode="json")
    assert read(write(tmp_path, fields)) == SearchSpace(name="mine", base=fields)


def test_overrides_reach_the_config_and_the_space(tmp_path):
    path = write(tmp_path, {"base": {"engine": "sgd"}, "budget": {"trials": 3}})
    space = read(
        path, overrides={"training.epochs": 5, "budget.epsilon": 2, "repeats": 2}
    )
    assert space.override == {"training.epochs": 5}
    assert (space.budget.epsilon, space.budget.trials, space.repeats) == (2, 3, (0, 1))


LR, NOISE = "training.learning_rate", "privacy.noise_multiplier"


def _values(document, overrides):
    """The values of each point that is read with the overrides, by variant."""
    points = expand(read(document, overrides=overrides)).points
    return [(p.variant, *p.values.values()) for p in points]


def test_a_list_on_a_field_makes_an_axis_and_a_scalar_removes_one():
    document = {"base": {"engine": "dp_sgd"}, "axes": {LR: [0.1, 0.2]}}
    for path in (NOISE, f"axes.{NOISE}"):
        found = _values(document, {path: [1.0, 2.0]})
        assert found == [("all", a, b) for a in (0.1, 0.2) for b in (1.0, 2.0)]
    assert _values(document, {LR: [0.3]}) == [("all", 0.3)]
    assert _values(document, {LR: 0.3}) == [("all",)]
    assert _values(document, {LR: 0.3, f"axes.{LR}": [0.4]}) == [("all", 0.4)]
    ranged = {"range": {"low": 1, "high": 2, "num": 2}}
    assert _values(document, {f"axes.{LR}": ranged}) == [("all", 1.0), ("all", 2.0)]
    with refused("expected a list or a range, got 3"):
        read(document, overrides={f"axes.{LR}": 3})


def test_a_list_that_a_field_takes_is_its_value():
    base = {"engine": "sgd", "model": {"name": "features"}}
    given = {"model.encoder": ["dialogues", "mpnet"], "evaluation.attacks": []}
    assert read({"base": base}, overrides=given).override == given
    assert read({"base": base}, overrides=given).axes == {}


def test_an_axis_that_is_set_is_in_the_variants_that_have_the_field():
    """Each has it in the place of its own value, also of one inside of a section that
    it sets as a whole; a variant without axes stays as it is.
    """
    variants = [
        {"name": "own", "axes": {NOISE: [9.0]}},
        {"name": "fixed", "set": {NOISE: 8.0, "training.epochs": 2}},
        {"name": "whole", "set": {"privacy": {"noise_multiplier": 7, "delta": 1e-6}}},
        {"name": "alone", "set": {NOISE: 6.0}, "drop_axes": "all"},
        {"name": "sgd", "set": {"engine": "sgd"}},
    ]
    document = {"base": {"engine": "dp_sgd"}, "variants": variants}
    found = _values(document, {NOISE: [1.0, 2.0]})
    assert found == [
        *((name, z) for name in ("own", "fixed", "whole") for z in (1.0, 2.0)),
        ("alone",),
        ("sgd",),
    ]


def test_scientific_notation_without_a_dot_is_a_number(tmp_path):
    space = read(write(tmp_path, "axes: {privacy.noise_multiplier: [1e-6, 1e-1, 2E3]}"))
    assert space.axes["privacy.noise_multiplier"].values == (1e-6, 0.1, 2000.0)


def test_a_logarithmic_range_is_even_on_the_logarithm():
    values = [Range(low=1e-4, high=1, log=True).at(share / 4) for share in range(5)]
    assert values == [1e-4, 1e-3, 1e-2, 1e-1, 1.0]


@given(stem=st.text(st.sampled_from("ab.-_ Z"), max_size=90))
@example("a" * 100)
def test_the_name_of_any_file_is_one_of_a_space(stem):
    assert check_name(name_of(stem)) == name_of(stem)


def test_a_file_that_is_no_text_is_refused(tmp_path):
    path = tmp_path / "bad.yaml"
    path.write_bytes(b"name: \xff\xfe")
    with refused(r"expected UTF-8 in .*bad\.yaml line 1 "):
        read(path)


@pytest.mark.parametrize(
    ("document", "overrides", "words"),
    [
        ({"variants": [{"name": "a\0b"}]}, {}, r"without NUL in variants\.0\.name"),
        (
            {"base": {"data": {"path": "\udcff"}}},
            {},
            r"surrogate pairs in base\.data\.path",
        ),
        (
            {"axes": {"data.path": ("a", "\0")}},
            {},
            r"without NUL in axes\.data\.path\.1",
        ),
        ({"axes": {"\0": [1]}}, {}, r"without NUL in axes\.\\x00"),
        ({}, {"data.path": "\0"}, r"without NUL in data\.path"),
        ("quick", {"data.path": "\0"}, r"without NUL in data\.path"),
        (
            {"source": reduce(lambda inner, _: [inner], range(60), [])},
            {},
            "at most 50 lists",
        ),
    ],
)
def test_a_document_from_python_holds_what_a_file_can(document, overrides, words):
    """Its sweep could not be read again."""
    with refused(words) as problem:
        spaces.read(document, overrides=overrides)
    assert str(problem.value).isprintable()
