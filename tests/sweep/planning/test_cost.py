"""The duration of a trial: by finished trials of its kind, or unknown."""

import pytest

from search_spaces.space import rename
from sweep.planning import cost
from sweep.planning.prepare import prepare_space
from sweep.store import entries as log
from sweep.store import sweeps as store
from sweep.store.sweeps import LOG
from tests.sweep.sweeps import space_in
from trainables.config import parse
from trainables.result import EpochReport, TrialResult

STEPS = 9  # three epochs of ninety records in batches of thirty


def sweep_of(settings, name="toy"):
    """A sweep of an SGD baseline and two trials of eDP-SGD, none of which has run."""
    space = rename(space_in(settings.data_dir), name)
    prepared = prepare_space(space, settings=settings)
    return store.create(settings.home, prepared.space, prepared.plan, about={})


def finish(folder, trial, seconds, *, stopped=False):
    folder.start_trial(trial)
    result = TrialResult(
        trial_id=trial.id,
        epochs_done=3,
        stopped_early=stopped,
        metrics={},
        privacy=None,
        seconds={"total": seconds},
    )
    folder.finish_trial(result, when=1.0, reason="")


def estimate(settings, config, steps=100):
    return cost.estimator(settings.home)(config, steps)


def test_without_any_trial_nothing_is_known(settings):
    assert estimate(settings, parse({})) is None


def test_a_step_costs_the_median_of_finished_trials_of_its_kind(settings):
    """One trial that the machine slept through does not move it; trials of another engine, stopped
    trials and failed ones do not count.
    """
    first, second = sweep_of(settings, "first"), sweep_of(settings, "second")
    sgd, one, two = first.plan().trials
    for folder, trial, seconds in (
        (first, one, 9.0),
        (first, two, 18.0),
        (second, one, 9_000.0),
        (first, sgd, 0.9),
    ):
        finish(folder, trial, seconds)
    finish(second, two, 1.0, stopped=True)
    second.start_trial(sgd)
    second.add_epoch(sgd.id, EpochReport(epochs_done=1, seconds=77.0, metrics={}), when=1.0)
    second.add(log.Turn(entry="failed", trial=sgd.id, reason="broke", time=2.0))
    assert one.steps == STEPS
    assert estimate(settings, one.config) == pytest.approx(100 * 18.0 / STEPS)
    assert estimate(settings, sgd.config) == pytest.approx(100 * 0.9 / STEPS)
    assert estimate(settings, parse({})) is None


def test_a_trial_that_took_no_time_says_nothing(settings):
    folder = sweep_of(settings)
    trial = folder.plan().trials[1]
    finish(folder, trial, 0.0)
    assert estimate(settings, trial.config) is None


def test_a_damaged_sweep_hides_no_other(settings):
    whole, damaged = sweep_of(settings, "whole"), sweep_of(settings, "damaged")
    trial = whole.plan().trials[1]
    for folder in (whole, damaged):
        finish(folder, trial, 9.0)
    (damaged.path / LOG).write_text("[]")
    assert estimate(settings, trial.config) == pytest.approx(100.0)


_SAME = {"training": {"epochs": 9, "learning_rate": 0.5, "seed": 7}}


@pytest.mark.parametrize(
    ("changes", "same"),
    [
        (_SAME, True),
        ({"privacy": {"delta": 1e-7, "max_grad_norm": 0.1}}, True),
        ({"evaluation": {"attacks": []}}, True),
        ({"engine": "sgd"}, False),
        ({"model": {"hidden_size": 96}}, False),
        ({"data": {"num_records": 2000}}, False),
        ({"training": {"physical_batch_size": 8}}, False),
        ({"training": {"precision": "bf16"}}, False),
    ],
)
def test_a_kind_is_what_a_step_computes(changes, same):
    """Rates, noise, seeds and lengths change no step's cost."""
    plain, changed = parse({}), parse(changes)
    kinds = {cost.kind_of(config.model_dump(mode="json")) for config in (plain, changed)}
    assert (len(kinds) == 1) is same
