import time
from collections import Counter
from typing import get_args

import numpy as np
import pytest

from tests.attacks._worlds import coins, every_figure, of_sweep, paired_coins, signals
from tests.refusals import refused
from trainables import catalogue
from trainables.attacks import Knowledge, bag_of_words, valid_attacks
from trainables.attacks._panel import evaluation_rows, panel, record_scores
from trainables.figures import is_public
from trainables.sections import SplitMode

N, POPULATION = 1_000, 200
NAMES = [name for name in catalogue.names("attacks") if name != "one_run"]
FIGURES = (
    *("auc", "auc_low", "auc_high", "advantage", "balanced_accuracy"),
    *("tpr_1pct", "tpr_1pct_low", "tpr_1pct_high", "tpr_1pct_low_resolution"),
    *("tpr_01pct", "tpr_01pct_low_resolution"),
)


def _world(mode="bernoulli", strength=1.0, seed=0, n=N):
    outside = np.arange(n) >= n - POPULATION
    member, pairs = paired_coins(n // 2, seed)
    if mode != "paired":
        member, pairs = coins(n, seed), np.full(n, -1)
    return signals(
        member & ~outside,
        strength,
        seed=500 + seed,
        mode=mode,
        pairs=np.where(outside, -1, pairs),
        population=outside,
    )


def _knowledge(n=N):
    rng = np.random.default_rng(0)
    lengths = rng.integers(1, 8, n)
    return Knowledge(
        shadow=signals(coins(500, 77), 1.0, seed=78, corpus="public", mode="paper"),
        texts=bag_of_words(rng.integers(0, 100, lengths.sum()), lengths, num_types=100),
    )


@pytest.mark.parametrize("mode", get_args(SplitMode))
def test_each_split_runs_what_it_allows(mode):
    found = every_figure(_world(mode), _knowledge())
    if mode in ("bernoulli", "paired"):
        found |= of_sweep([_world(mode, seed=seed) for seed in range(5)])[0]
    ran = {name for name in catalogue.names("attacks") if f"mia_{name}_auc" in found}
    if "epsilon_lower_bound" in found:
        ran.add("one_run")
    without_relation = {"one_run"} if mode == "bernoulli" else set()
    assert ran == valid_attacks(mode) - without_relation
    assert all(np.isfinite(value) for value in found.values())


def test_every_figure_is_for_the_curator_only():
    found = every_figure(_world("paired"), _knowledge())
    found |= of_sweep([_world("paired", seed=seed) for seed in range(5)])[0]
    assert not [name for name in found if is_public(name)]
    assert found.keys() >= {f"mia_{attack}_{figure}" for attack in NAMES for figure in FIGURES}
    for name in ("lower_bound", "estimate_fdp", "estimate_gdp", "estimate_cp"):
        assert found[f"epsilon_{name}"] >= 0


@pytest.mark.slow  # every attack on 80 worlds
def test_untrained_model_is_at_one_half():
    """A model that has seen nothing: at most 17 of 128 intervals miss, 5 of an attack's 16."""
    misses = Counter()
    for seed in range(16):
        world = _world(strength=0.0, seed=seed + 40)
        found = every_figure(world, _knowledge())
        found |= of_sweep([world, *(_world(seed=number) for number in range(1, 5))])[0]
        for name in NAMES:
            low, high = found[f"mia_{name}_auc_low"], found[f"mia_{name}_auc_high"]
            misses[name] += not low <= 0.5 <= high
    assert misses.total() <= 17
    assert max(misses.values()) <= 5


def test_fixed_splits_are_evaluated_on_equal_numbers():
    member = np.random.default_rng(0).random(900) < 0.2
    world = signals(member, mode="paper")
    rows = evaluation_rows(world)
    assert world.member[rows].sum() == (~world.member[rows]).sum() == member.sum()
    np.testing.assert_array_equal(rows, evaluation_rows(world))
    assert len(evaluation_rows(signals(member))) == 900


def test_wrong_combinations_are_refused_by_name():
    world = _world("paper")
    for name in ("bavaria", "lira", "rmia", "calibrated", "one_run"):
        with refused(f"attack {name}, got data.split=paper"):
            record_scores(world, Knowledge(), attacks=[name])
    with refused(r"expected attacks to be one of .* got 'oracle'"):
        record_scores(world, Knowledge(), attacks=["oracle"])
    with refused("expected shadow for the attack shadow, got none"):
        record_scores(world, Knowledge(), attacks=["shadow"])
    assert panel(_world(), {"one_run": _world().psi}, delta=1e-5) == {}, "shuffled coins of records"


def test_panels_cost_little():
    """Everything on 5000 records with 8 references: seconds, where a trial trains for minutes."""
    trials = [_world(n=5_000, seed=seed) for seed in range(9)]
    every_figure(_world(), _knowledge())  # imports
    started = time.process_time()
    every_figure(trials[0], _knowledge(n=5_000))
    alone = time.process_time() - started
    of_sweep(trials)
    assert alone + (time.process_time() - started - alone) / 9 < 5
