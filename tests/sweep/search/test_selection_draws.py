"""The draws of a private selection: their laws, their independence, and the choice of
the best.
"""

import math
from collections import Counter

import numpy as np
import pytest
from scipy import stats
from scipy.optimize import brentq

from search_spaces import space as spaces
from search_spaces.search import NumTrials
from sweep.planning.prepare import prepare_space
from sweep.search import private_selection
from sweep.search.private_selection import best_of, draw_number, draw_points, random_of
from sweep.store.state import TrialStatus
from sweep.store.sweeps import TrialRecord
from tests.refusals import refused
from tests.sweep.sweeps import settings_in

_DRAWS = 20_000
_ALPHA = 1e-6  # each test's chance of a false alarm, were its generator truly random


def _probability(law, mean, number):
    """The laws as Papernot & Steinke (2022, Definition 1 and Theorem 6) write them."""
    if law == "poisson":
        return np.asarray(stats.poisson.pmf(number, mean))
    if law == "geometric":
        return np.asarray((1 - 1 / mean) ** (number - 1) / mean)
    gamma = brentq(
        lambda each: (1 / each - 1) / -math.log(each) - mean, 1e-12, 1 - 1e-9
    )
    return np.asarray((1 - gamma) ** number / (number * -math.log(gamma)))


def _p_value(numbers, law, mean):
    least = 0 if law == "poisson" else 1
    values = np.arange(least, 400)
    expected = _DRAWS * _probability(law, mean, values)
    kept = int(np.argmax(np.cumsum(expected[::-1])[::-1] < 20))  # the tail is one bin
    counts = np.bincount(numbers, minlength=400)[least:400]
    observed = [*counts[:kept], _DRAWS - counts[:kept].sum()]
    wanted = [*expected[:kept], _DRAWS - expected[:kept].sum()]
    return float(stats.chisquare(observed, wanted).pvalue)


@pytest.mark.parametrize("law", ["geometric", "logarithmic", "poisson"])
@pytest.mark.parametrize("mean", [1.5, 4.0, 20.0])
def test_the_number_has_its_law(law, mean):
    random = np.random.default_rng(1)
    numbers = [
        draw_number(NumTrials(law=law, mean=mean), random) for _ in range(_DRAWS)
    ]
    assert _p_value(numbers, law, mean) > _ALPHA
    assert _p_value(numbers, law, 2 * mean) < _ALPHA  # a wrong mean is noticed
    if law != "poisson":
        assert min(numbers) >= 1


def _space():
    return spaces.parse(
        {
            "name": "chosen",
            "base": {"engine": "dp_sgd", "data": {"name": "atis"}},
            "variants": [
                {"name": "one", "axes": {"privacy.noise_multiplier": [1.0, 2.0]}},
                {"name": "two", "set": {"privacy.noise_multiplier": 3.0}},
            ],
            "axes": {
                "training.learning_rate": {
                    "range": {"low": 1e-4, "high": 1e-2, "log": True}
                }
            },
            "search": {
                "strategy": "private_selection",
                "num_trials": {"law": "geometric", "mean": 3},
            },
        }
    )


@pytest.fixture(scope="module")
def configurations(tmp_path_factory):
    settings = settings_in(tmp_path_factory.mktemp("plan"))
    return prepare_space(_space(), settings=settings).plan.to_run


def test_points_are_independent_and_spread_evenly_over_the_space(configurations):
    points = draw_points(_space(), configurations, 3_000, np.random.default_rng(2))
    places = [(p.variant, p.values.get("privacy.noise_multiplier")) for p in points]
    counts = Counter(places)
    assert set(counts) == {("one", 1.0), ("one", 2.0), ("two", None)}
    assert stats.chisquare(list(counts.values())).pvalue > _ALPHA
    pairs = Counter(zip(places[::2], places[1::2], strict=True))
    assert (
        len(pairs) == 9
    )  # with replacement: a point follows itself as often as any other
    assert stats.chisquare(list(pairs.values())).pvalue > _ALPHA
    rates = [math.log(p.values["training.learning_rate"]) for p in points]
    low, width = math.log(1e-4), math.log(1e-2) - math.log(1e-4)
    assert stats.kstest(rates, stats.uniform(low, width).cdf).pvalue > _ALPHA
    assert stats.kstest(rates, stats.uniform(low, 0.9 * width).cdf).pvalue < _ALPHA


def test_the_same_secret_gives_the_same_trials_and_another_sweep_others(
    configurations, monkeypatch
):
    monkeypatch.setattr(private_selection, "_PATIENCE", 1)  # each draw here is valid

    def values_of_draws(secret, sweep):
        random = random_of(secret, sweep)
        return [p.values for p in draw_points(_space(), configurations, 5, random)]

    assert values_of_draws(b"k" * 32, "a") == values_of_draws(b"k" * 32, "a")
    assert values_of_draws(b"k" * 32, "a") != values_of_draws(b"k" * 32, "b")
    assert values_of_draws(b"k" * 32, "a") != values_of_draws(b"l" * 32, "a")


def test_what_is_invalid_is_drawn_again_and_nothing_to_draw_from_refused(
    configurations,
):
    document = _space().model_dump(mode="json", exclude_unset=True)
    document["search"] = {
        "strategy": "random",
        "num_samples": 1,
    }  # which may have such a rule
    rule = {"require": "training.learning_rate < 1e-3"}
    ruled = spaces.parse({**document, "constraints": [rule]})
    points = draw_points(ruled, configurations, 40, np.random.default_rng(0))
    assert all(p.values["training.learning_rate"] < 1e-3 for p in points)
    with refused("expected a configuration that may be drawn"):
        draw_points(_space(), (), 1, np.random.default_rng(0))


def _record(trial, error):
    return TrialRecord(
        plan=trial,
        status=TrialStatus.DONE,
        epochs_done=1,
        metrics={"validation_ser": error, "ser": 0.0},
        seconds=1.0,
        reason=None,
    )


def test_the_best_has_the_smallest_validation_error_and_ties_go_to_the_first(
    configurations,
):
    errors = [math.nan, None, 0.3, math.nan, 0.2, 0.2]
    records = [_record(configurations[0], error) for error in errors]
    assert best_of(records) is records[4]
    assert best_of(records[:2]) is records[0], "neither has a figure"
    assert best_of(records[:1]) is records[0]
    assert best_of([]) is None
