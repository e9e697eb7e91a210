"""What Tune is given: the points of a sweep, and schedulers, by their decisions for
made errors.
"""

import math
from itertools import product
from pathlib import Path
from random import Random
from types import SimpleNamespace

import pytest
from ray.tune.experiment import Trial
from ray.tune.schedulers import TrialScheduler
from ray.tune.search.variant_generator import generate_variants

from sweep.runtime.early_stopping import scheduler
from sweep.runtime.events import PastEpoch, RunSettings, TrialJob
from sweep.runtime.tune import space_of
from sweep.runtime.tune_trial import TIME_ATTR, TRIAL
from trainables.config.trial import parse

METRIC = RunSettings().metric


NOBODY_WAITS = SimpleNamespace(get_live_trials=list)


def turns(errors):
    """(trial, epoch, error) of trials that take turns."""
    for epoch in range(1, max(map(len, errors.values())) + 1):
        for name in errors:
            if epoch <= len(errors[name]):
                yield name, epoch, errors[name][epoch - 1]


def decisions(settings, errors, *, cuts=()):
    """The epoch at which each trial is stopped; None where it is not. Before the turns
    of these numbers the sweep is resumed: a new Tune, which is told the last epoch of
    every trial again.
    """
    ended, past = dict.fromkeys(errors), []
    chosen, trials = resumed(settings, errors, past)
    for number, (name, epoch, error) in enumerate(turns(errors)):
        if number in cuts:
            left = [each for each in errors if ended[each] is None]
            chosen, trials = resumed(settings, left, past)
            for last in {each.trial_id: each for each in past}.values():
                if last.trial_id in left:
                    again = {TIME_ATTR: last.epochs_done, METRIC: last.metrics[METRIC]}
                    answer = chosen.on_trial_result(
                        NOBODY_WAITS, trials[last.trial_id], again
                    )
                    assert answer == TrialScheduler.CONTINUE
        if ended[name] is not None:
            continue
        result = {TIME_ATTR: epoch, METRIC: math.nan if error is None else error}
        answer = chosen.on_trial_result(NOBODY_WAITS, trials[name], result)
        past.append(
            PastEpoch(trial_id=name, epochs_done=epoch, metrics={METRIC: error})
        )
        if answer == TrialScheduler.STOP:
            ended[name] = epoch
        if answer == TrialScheduler.STOP or epoch == len(errors[name]):
            chosen.on_trial_complete(NOBODY_WAITS, trials[name], result)
    return ended


def resumed(settings, names, past):
    """A scheduler, and its trials by those of the sweep."""
    chosen = scheduler(settings, past)
    trials = {name: Trial("toy", stub=True, config={TRIAL: name}) for name in names}
    for trial in trials.values():
        chosen.on_trial_add(NOBODY_WAITS, trial)
    return chosen, trials


ERRORS = {
    name: [error] * 9
    for name, error in (("a", 0.1), ("b", 0.2), ("c", 0.8), ("d", 0.9))
}


def test_asha_stops_the_worse_trials_and_none_before_the_grace_epochs():
    settings = RunSettings(scheduler="asha", grace_epochs=3, max_epochs=9)
    found = decisions(settings, ERRORS)
    assert found["a"] in (None, 9)
    assert {found["c"], found["d"]} == {3}


@pytest.mark.parametrize(("kind", "epochs"), [("asha", 2), ("median", 2), ("none", 9)])
def test_a_grace_longer_than_every_trial_stops_none_nor_does_no_scheduler(kind, epochs):
    """Such as `--epochs 1` in a table whose grace period is two epochs."""
    settings = RunSettings(scheduler=kind, grace_epochs=3, max_epochs=epochs)
    few = {name: errors[:epochs] for name, errors in ERRORS.items()}
    assert decisions(settings, few) == dict.fromkeys(ERRORS)


@pytest.mark.parametrize("kind", ["asha", "median"])
def test_a_resumed_sweep_stops_the_trials_that_an_uninterrupted_one_stops(kind):
    """Whenever it is resumed, also several times, and where a figure is no number."""
    settings = RunSettings(scheduler=kind, grace_epochs=1, max_epochs=9)
    random, stopped = Random(0), 0
    for _ in range(20):
        errors = {name: [random.random() for _ in range(9)] for name in "abcdefgh"}
        errors["h"][2] = None
        whole = decisions(settings, errors)
        stopped += sum(epoch is not None and epoch < 9 for epoch in whole.values())
        for cuts in ([random.randrange(1, 72)], sorted(random.sample(range(72), 3))):
            assert decisions(settings, errors, cuts=cuts) == whole
    assert stopped > 40


C, Z0 = "privacy.max_grad_norm", "privacy.noise_multiplier"
PAPER = [{C: c, Z0: z} for c, z in product((0.5, 1, 2), (0.1, {"target_epsilon": 8}))]
SGD = {"variant": "sgd"}


@pytest.mark.parametrize("points", [PAPER, PAPER[1:], [SGD, *PAPER], [SGD], [{}]])
def test_tune_is_given_the_axes_and_gives_back_each_trial_once(points):
    """Of a whole grid, of one with refused points, and of variants with other axes."""
    jobs = [
        TrialJob(trial_id=f"t{i}", config=parse({}), folder=Path(), point=point)
        for i, point in enumerate(points)
    ]
    space = space_of(jobs)
    if points is PAPER:
        assert space[C] == {"grid_search": [0.5, 1, 2]}
    configs = [spec["config"] for _, spec in generate_variants({"config": space})]
    found = {config["trial"]: config for config in configs}
    assert len(configs) == len(found)
    assert sorted(found) == sorted(job.trial_id for job in jobs)
    for job in jobs:
        assert {k: found[job.trial_id][k] for k in job.point} == job.point
