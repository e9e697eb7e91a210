"""Reading a space: shipped ones are readable, errors are one sentence with the field."""

from functools import reduce
from pathlib import Path

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from search_spaces import space as spaces
from search_spaces.files import name_of, shipped_spaces
from search_spaces.parts import Range
from search_spaces.space import SearchSpace, check_name, read
from tests.refusals import refused
from trainables.config import parse as parse_config
from trainables.errors import InvalidInput

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
def test_every_shipped_space_can_be_read_and_names_its_source(name):
    assert read(name).source


@pytest.mark.parametrize(
    ("wrong", "meant"),
    [
        ("quik", "quick"),
        ("epsilon8", "epsilon_8"),
        ("quick.yaml", "quick"),
        ("nowhere/leakge.yml", "leakage"),
        ("xyz", None),
    ],
)
def test_an_unknown_space_is_answered_with_the_nearest_and_the_folder(wrong, meant):
    with pytest.raises(InvalidInput) as problem:
        read(wrong)
    words = str(problem.value)
    end = f" (all: {SHIPPED}/*.yaml)"
    assert words.endswith(f", got {wrong!r}{f': did you mean {meant}?' if meant else ''}{end}")
    assert len(words.removesuffix(end)) < 120


def test_a_bare_config_is_a_space_of_one_point(tmp_path):
    fields = parse_config({"engine": "sgd"}).model_dump(mode="json")
    assert read(write(tmp_path, fields)) == SearchSpace(name="mine", base=fields)


def test_overrides_reach_the_config_and_the_space(tmp_path):
    path = write(tmp_path, {"base": {"engine": "sgd"}, "budget": {"trials": 3}})
    space = read(path, overrides={"training.epochs": 5, "budget.epsilon": 2, "repeats": 2})
    assert space.override == {"training.epochs": 5}
    assert (space.budget.epsilon, space.budget.trials, space.repeats) == (2, 3, (0, 1))


def test_scientific_notation_without_a_dot_is_a_number(tmp_path):
    space = read(write(tmp_path, "axes: {privacy.noise_multiplier: [1e-6, 1e-1, 2E3]}"))
    assert space.axes["privacy.noise_multiplier"].values == (1e-6, 0.1, 2000.0)


def test_a_fallback_gives_way_to_what_was_typed():
    space = SearchSpace(
        name="a", fallback={"data.name": "snips", "data.seed": 1}, override={"data.seed": 2}
    )
    assert spaces.with_fallback(space).override == {"data.name": "snips", "data.seed": 2}


def test_a_logarithmic_range_is_even_on_the_logarithm():
    values = [Range(low=1e-4, high=1, log=True).at(share / 4) for share in range(5)]
    assert values == [1e-4, 1e-3, 1e-2, 1e-1, 1.0]


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({"axis": {}}, "unknown field axis"),
        ({"base": {}, "axes": {"privacy.max_grad_norm": {"low": 1}}}, "unknown field axes"),
        ({"axes": {"privacy.max_grad_norm": {}}}, "expected one of grid, choice and range"),
        ({"axes": {"privacy.max_grad_norm": []}}, "axes.privacy.max_grad_norm"),
        ({"axes": {"clip": [1]}}, "expected a dotted path that starts with"),
        ({"axes": {"training.epochs": {"range": {"low": 2, "high": 1}}}}, "expected low < high"),
        ({"axes": {"training.epochs": {"range": {"low": 0, "high": 1, "log": True}}}}, "low > 0"),
        ({"search": {"strategy": "random"}}, "expected num_samples with strategy random"),
        ({"search": {"strategy": "bayes"}}, "search.strategy"),
        ({"search": {"num_samples": 3}}, "expected no num_samples with strategy grid"),
        ({"budget": {"epsilon": -1}}, "budget.epsilon"),
        ({"budget": {"epsilon": 0}}, "budget.epsilon"),
        ({"budget": {"accountant": "mine"}}, "expected one of sound, paper"),
        ({"repeats": 0}, "expected 1 to 1000"),
        ({"constraints": ["import os"]}, "is not an expression"),
        ({"variants": [{"name": "a"}, {"name": "a"}]}, "expected variants with different names"),
        ({"variants": [{"name": "a\x1b[31m"}]}, r"name: expected printable.*'a\\x1b\[31m'"),
        ({"name": "../up"}, "expected a name of lower-case letters"),
        ({"name": "a..b"}, "expected a name of lower-case letters"),
        ({"resources": {"slots": 0}}, r"resources\.slots: .* 1, got 0"),
        ({"resources": {"executor": "magic"}}, "resources.executor"),
        (
            {"axes": {"privacy.delta": 3}},
            r"^axes\.privacy\.delta: expected a list or a range, got 3",
        ),
        ({"axes": {"privacy.delta": {"range": 3}}}, "range: expected a mapping, got 3"),
        ({"base": []}, r"^base: expected a mapping, got \[\]"),
        ({"budget": 8}, "^budget: expected a mapping, got 8"),
        ({"repeats": "two"}, "^repeats: expected a number or a list of seeds"),
        ({"variants": {"a": 1}}, "^variants: expected a list, got"),
        ("- 1\n- 2", "expected a mapping in .*, got a list$"),
        ("", "expected a mapping in .*, got nothing$"),
        ("a: [1", "expected YAML in .*line"),
        ("name: a\nname: b", "the key name comes twice"),
        ({"base": "nowhere.yaml"}, "^base: expected a mapping, got 'nowhere.yaml'"),
        ({"variants": [{"name": "a", "drop_axes": ["x"]}]}, "drop_axes: input should be 'all'"),
    ],
)
def test_a_wrong_space_is_refused_in_one_line(tmp_path, document, message):
    with refused(message):
        read(write(tmp_path, document))


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
        ({"base": {"data": {"path": "\udcff"}}}, {}, r"surrogate pairs in base\.data\.path"),
        ({"axes": {"data.path": ("a", "\0")}}, {}, r"without NUL in axes\.data\.path\.1"),
        ({"axes": {"\0": [1]}}, {}, r"without NUL in axes\.\\x00"),
        ({}, {"data.path": "\0"}, r"without NUL in data\.path"),
        ("quick", {"data.path": "\0"}, r"without NUL in data\.path"),
        ({"source": reduce(lambda inner, _: [inner], range(60), [])}, {}, "at most 50 lists"),
    ],
)
def test_a_document_from_python_holds_what_a_file_can(document, overrides, words):
    """Its sweep could not be read again."""
    with refused(words) as problem:
        spaces.from_source(document, overrides=overrides)
    assert str(problem.value).isprintable()


def test_yaml_cannot_build_objects(tmp_path):
    with refused("expected YAML"):
        read(write(tmp_path, "base: !!python/object/apply:os.system ['true']"))


@pytest.mark.parametrize("text", ["", "{}", "name: mine\n", "name: mine\ndescription: cut h"])
def test_a_file_of_which_the_first_lines_are_left_is_no_space(tmp_path, text):
    (tmp_path / "mine.yaml").write_text(text)
    with refused(r"base, axes or variants|a mapping"):
        spaces.read(tmp_path / "mine.yaml")
