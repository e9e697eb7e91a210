"""What Tune is given: the points of a sweep, and schedulers, by their decisions for made errors."""

from itertools import product
from pathlib import Path

import pytest
from ray.tune.experiment import Trial
from ray.tune.schedulers import TrialScheduler
from ray.tune.search.variant_generator import generate_variants

from sweep.runtime.events import RunSettings, TrialJob
from sweep.runtime.tune import TIME_ATTR, scheduler, space_of
from trainables.config import parse

METRIC = RunSettings().metric


def decisions(chosen, errors):
    """The epoch at which each trial is stopped; None where it is not. The trials take turns."""
    trials = {name: Trial("toy", stub=True) for name in errors}
    ended = dict.fromkeys(errors)
    for trial in trials.values():
        chosen.on_trial_add(None, trial)  # no controller is needed
    for epoch in range(1, max(map(len, errors.values())) + 1):
        for name, trial in trials.items():
            if ended[name] is None and epoch <= len(errors[name]):
                result = {TIME_ATTR: epoch, METRIC: errors[name][epoch - 1]}
                answer = chosen.on_trial_result(None, trial, result)
                if answer == TrialScheduler.STOP:
                    ended[name] = epoch
    return ended


ERRORS = {name: [error] * 9 for name, error in (("a", 0.1), ("b", 0.2), ("c", 0.8), ("d", 0.9))}


def test_asha_stops_the_worse_trials_and_none_before_the_grace_epochs():
    settings = RunSettings(scheduler="asha", grace_epochs=3, max_epochs=9)
    found = decisions(scheduler(settings), ERRORS)
    assert found["a"] in (None, 9)
    assert {found["c"], found["d"]} == {3}


@pytest.mark.parametrize(("kind", "epochs"), [("asha", 2), ("median", 2), ("none", 9)])
def test_a_grace_longer_than_every_trial_stops_none_nor_does_no_scheduler(kind, epochs):
    """Such as `--epochs 1` in a table whose grace period is two epochs."""
    settings = RunSettings(scheduler=kind, grace_epochs=3, max_epochs=epochs)
    few = {name: errors[:epochs] for name, errors in ERRORS.items()}
    assert decisions(scheduler(settings), few) == dict.fromkeys(ERRORS)


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
