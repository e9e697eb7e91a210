import itertools

import pytest

from search_spaces import space as spaces
from search_spaces.expansion import expand
from search_spaces.search import STRATEGIES
from sweep.search.suggest import Observation, suggest
from tests.refusals import refused
from trainables import catalogue
from trainables.dp.seeding import generator

AXES = {
    "training.learning_rate": {"range": {"low": 1e-4, "high": 1e-1, "log": True}},
    "model.hidden_size": {"choice": [16, 32, 64]},
}


def space_of(strategy, **search):
    search = {"strategy": strategy, "num_samples": 6, "seed": 3, **search}
    return spaces.parse({"name": "s", "axes": AXES, "search": search})


def names(kind):
    return catalogue.names(STRATEGIES, kind=kind)


def test_a_listed_one_is_the_default():
    assert catalogue.default(STRATEGIES) in names("listed")


@pytest.mark.parametrize("name", names("drawn"))
def test_drawn_points_fill_the_cube_and_are_those_of_their_seed(name):
    shares = catalogue.entry(STRATEGIES, name).shares
    draws = [
        list(itertools.islice(shares(generator(seed, "search"), num_axes=3), 64))
        for seed in (0, 0, 1)
    ]
    assert draws[0] == draws[1] != draws[2]
    assert all(0 <= share < 1 for point in draws[0] for share in point)
    for axis in range(3):  # 64 uniform draws leave an eighth empty once in 5,000 times
        assert len({int(8 * point[axis]) for point in draws[0]}) == 8


@pytest.mark.parametrize("name", names("drawn"))
def test_a_space_has_the_requested_number_of_points(name):
    found = expand(space_of(name))
    assert len(found.points) == 6
    assert len({point.config.id for point in found.points if point.config}) == 6
    assert found == expand(space_of(name))


@pytest.mark.parametrize("name", names("adaptive"))
def test_an_adaptive_one_proposes_points_of_the_space_that_its_seed_determines(name):
    objectives = ["validation_ser", "epsilon"]
    space = space_of(name, num_samples=12, num_startup=3, objectives=objectives)
    observations = []
    for draw in range(5):
        found = suggest(space, observations, draw=draw)
        assert found == suggest(space, observations, draw=draw)
        assert 1e-4 <= found.values["training.learning_rate"] <= 1e-1
        assert found.values["model.hidden_size"] in (16, 32, 64)
        loss = float(found.values["training.learning_rate"])
        observations.append(
            Observation(
                variant="all", values=found.values, state="done", objectives=(loss,) * 2
            )
        )


def test_what_is_no_strategy_is_refused_by_the_names_there_are():
    with refused(r"strategy: expected strategy to be one of .*grid, .*, got 'simplex'"):
        space_of("simplex")


LADDER = '''"""The diagonal of the cube, rung by rung."""


def shares(random, *, num_axes):
    rung = 0
    while True:
        rung = (rung + 1) % 97
        yield [rung / 97] * num_axes
'''
BLIND = '''"""Proposals without regard to results."""

REPLAYS = False


def sampler(*, seed, startup):
    from optuna import samplers

    return samplers.RandomSampler(seed=seed)
'''


def test_a_new_file_is_found_and_used_in_a_space(drop_in):
    drop_in(STRATEGIES, "ladder", LADDER, "drawn")
    points = expand(space_of("ladder", num_samples=4)).points
    rates = [point.values["training.learning_rate"] for point in points]
    assert rates == sorted(rates)
    assert len(set(rates)) == 4


def test_a_new_adaptive_file_suggests_trials(drop_in):
    drop_in(STRATEGIES, "blind", BLIND, "adaptive")
    space = space_of("blind", num_samples=4, num_startup=1)
    assert space.search.is_adaptive
    observations = [
        Observation(
            variant="all",
            values={"training.learning_rate": 0.01, "model.hidden_size": 16},
            state="done",
            objectives=(0.5,),
        )
    ]
    assert suggest(space, observations, draw=1).values["model.hidden_size"] in (
        16,
        32,
        64,
    )
    with refused("num_startup with strategy blind, gp, nsga2, tpe"):
        space_of("random", num_startup=2)
