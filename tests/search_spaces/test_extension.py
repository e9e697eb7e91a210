import pytest
import yaml

from search_spaces import space as spaces
from tests.refusals import refused


def write(folder, name, document):
    path = folder / f"{name}.yaml"
    path.write_text(yaml.safe_dump(document))
    return path


def test_own_fields_replace_those_of_the_extended_space(tmp_path):
    base = {
        "privacy": {"delta": 1e-6, "noise_multiplier": 2.0},
        "training": {"epochs": 3},
    }
    write(
        tmp_path,
        "first",
        {"base": base, "axes": {"training.seed": [0, 1]}, "repeats": 2},
    )
    own = {
        "base": {"privacy": {"noise_multiplier": 4.0}},
        "axes": {"training.epochs": [1]},
    }
    found = spaces.read(write(tmp_path, "second", {"extends": "first.yaml", **own}))
    base["privacy"]["noise_multiplier"] = 4.0
    assert found == spaces.parse({"name": "second", **own, "base": base, "repeats": 2})
    assert spaces.parse(found.document()) == found, "a sweep keeps the whole space"


def test_a_chain_ends_at_a_shipped_space(tmp_path):
    write(tmp_path, "middle", {"extends": "epsilon_8", "repeats": 1})
    found = spaces.read(
        write(tmp_path, "last", {"extends": "middle.yaml", "description": "mine"})
    )
    shipped = spaces.read("epsilon_8")
    changed = {"name": "last", "description": "mine", "repeats": (0,)}
    assert found == shipped.model_copy(update=changed)


@pytest.mark.parametrize("epsilon", [3, 1])
def test_the_shipped_spaces_of_another_epsilon_differ_by_it_alone(epsilon):
    first, other = (
        spaces.read("epsilon_8").document(),
        spaces.read(f"epsilon_{epsilon}").document(),
    )
    assert first["base"]["privacy"].pop("noise_multiplier") == {"target_epsilon": 8}
    assert other["base"]["privacy"].pop("noise_multiplier") == {
        "target_epsilon": epsilon
    }
    for document in (first, other):
        del document["name"], document["description"]
    assert first == other


def test_only_a_file_extends_a_space():
    with refused("extends"):
        spaces.parse({"name": "s", "extends": "epsilon_8"})
