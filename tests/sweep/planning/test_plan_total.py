"""`budget.total` at planning time: admitted trials stay within it, in whatever order
they come.
"""

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweep.planning import plan as planning
from sweep.planning.accounting import Accounting
from sweep.planning.plan_total import total_of_plan, within_total
from tests.accountants.outside import algorithm_1, gaussian_epsilon
from tests.sweep.sweeps import settings_in, space_in
from trainables.errors import InvalidInput

Z = "privacy.noise_multiplier"
NOISES = [4.0, 2.0, 6.0, 3.0]
_DELTA = 1e-3
_FIELDS = {
    "base": {"engine": "edp_sgd", "privacy": {"delta": _DELTA}},
    "variants": [
        {"name": "sgd", "baseline": True, "set": {"engine": "sgd"}, "drop_axes": "all"},
        {"name": "edp", "axes": {Z: NOISES}},
    ],
}


@pytest.fixture(scope="module")
def settings(tmp_path_factory):
    return settings_in(tmp_path_factory.mktemp("total"))


@pytest.fixture(scope="module")
def account(settings):
    return Accounting(settings)


@pytest.fixture(scope="module")
def space(settings):
    """Four trials of different noise, and a baseline without any."""
    return space_in(settings.data_dir, **_FIELDS)


@pytest.fixture(scope="module")
def plan(space, account):
    return planning.make(space, account=account)


def with_total(space, total):
    return space.model_copy(
        update={"budget": space.budget.model_copy(update={"total": total})}
    )


def cost(plan, *, delta=_DELTA):
    """Epsilon of the trials of a plan that are no baseline: three epochs on two workers
    each.
    """
    noises = [trial.noise_multiplier for trial in plan.to_run if not trial.baseline]
    sigmas = (sigma for z in noises for sigma in algorithm_1(z, workers=2, epochs=3))
    return gaussian_epsilon(*sigmas, delta=delta)


def test_without_a_total_every_trial_stays(plan, space, account):
    assert within_total(plan, space, account=account) is plan


@given(share=st.floats(0.01, 1.2), order=st.permutations(range(5)))
def test_what_is_admitted_stays_within_the_total_and_what_is_refused_would_exceed_it(
    plan, space, account, share, order
):
    """Whatever the order of the trials, which the plan keeps."""
    total = share * cost(plan)
    shuffled = replace(plan, trials=tuple(plan.trials[n] for n in order))
    found = within_total(shuffled, with_total(space, total), account=account)
    assert [t.id for t in found.trials] == [t.id for t in shuffled.trials]
    assert cost(found) <= total * (1 + 1e-9)
    for number, trial in enumerate(found.trials):
        assert trial.runs or not trial.baseline
        if trial.runs:
            continue
        before = [t for t in found.trials[:number] if t.runs]
        with_it = replace(found, trials=(*before, shuffled.trials[number]))
        assert cost(with_it) > total * (1 - 1e-9)
        assert trial.refused_by == "budget"
        assert f"exceeds budget.total={total:g}" in str(trial.reason)


def test_the_reason_counts_the_trials_that_were_admitted_before(plan, space, account):
    cheapest = min(cost(replace(plan, trials=(t,))) for t in plan.trials[1:])
    alone = within_total(plan, with_total(space, 0.9 * cheapest), account=account)
    assert all("alone exceeds" in str(t.reason) for t in alone.refused)
    almost = within_total(plan, with_total(space, 0.99 * cost(plan)), account=account)
    (last,) = almost.refused
    assert "with the 3 trials before it exceeds" in str(last.reason)


def test_refused_trials_take_no_room(plan, space, account):
    trials = tuple(
        replace(t, reason="no") if t.values.get(Z) == 2.0 else t for t in plan.trials
    )
    rest = replace(plan, trials=trials)
    found = within_total(rest, with_total(space, 1.0001 * cost(rest)), account=account)
    assert found == rest


def test_a_search_that_looks_at_results_goes_by_its_filter(settings, account):
    """A filter's room is less than that of plain composition, so a trial is refused
    sooner.
    """
    space = space_in(settings.data_dir, **_FIELDS, search={"scheduler": "median"})
    total = 1.001 * cost(planning.make(space, account=account))
    plan = planning.make(
        with_total(space, 1e6), account=account
    )  # with the filter's delta
    plain = with_total(space_in(settings.data_dir, **_FIELDS), total)
    assert len(within_total(plan, plain, account=account).to_run) == 5
    filtered = with_total(space, total)
    found = within_total(
        planning.make(filtered, account=account), filtered, account=account
    )
    assert 1 < len(found.to_run) < 5
    assert str(found.refused[0].reason).endswith("before it (filter)")
    assert f"budget.total={total:g} has no room for it" in str(found.refused[0].reason)


@pytest.mark.parametrize(
    ("num_refused", "words"),
    [(0, "All 4 trials together, without 1 baseline"), (3, "All 2 trials together")],
)
def test_the_plan_costs_the_composition_of_its_trials_that_run_without_baselines(
    plan, account, num_refused, words
):
    refused = tuple(replace(t, reason="no") for t in plan.trials[:num_refused])
    rest = replace(plan, trials=(*refused, *plan.trials[num_refused:]))
    found, sentence = total_of_plan(rest, account=account)
    assert found["epsilon"] == pytest.approx(cost(rest), rel=1e-9)
    assert (found["delta"], found["num_releases"]) == (
        _DELTA,
        len(rest.to_run) - (not refused),
    )
    assert sentence.startswith(f"{words}: epsilon")
    assert "at delta 0.001" in sentence
    alone = replace(plan, trials=plan.trials[:1])
    assert total_of_plan(alone, account=account) == (None, "")


def test_a_plan_with_more_trials_is_not_given_the_total_of_one_with_fewer(
    plan, account
):
    """Both begin with the same trials, and the figures of the first one are kept."""
    for number in (3, 5, 4):
        part = replace(plan, trials=plan.trials[:number])
        found, _ = total_of_plan(part, account=account)
        assert found["epsilon"] == pytest.approx(cost(part), rel=1e-9)


@pytest.mark.parametrize("deltas", [[1e-6, 1e-3], [1e-3, 1e-6]])
def test_trials_of_several_deltas_cost_their_composition_at_the_smallest(
    settings, account, deltas
):
    """Wherever it stands, and each of two that release the same counts."""
    axes = {"privacy.delta": deltas, "training.learning_rate": [0.1, 0.2]}
    base = {"engine": "edp_sgd", "privacy": {"noise_multiplier": 4.0}}
    made = space_in(
        settings.data_dir, base=base, variants=[{"name": "edp", "axes": axes}]
    )
    plan = planning.make(made, account=account)
    found, _ = total_of_plan(plan, account=account)
    expected = cost(plan, delta=1e-6)
    assert (found["epsilon"], found["delta"]) == (
        pytest.approx(expected, rel=1e-9),
        1e-6,
    )
    for share, number in ((1.0001, 4), (0.9999, 3)):
        within = within_total(plan, with_total(made, share * expected), account=account)
        assert len(within.to_run) == number


def test_units_that_do_not_add_up_cost_infinity_for_a_reason(plan, settings):
    """Records beside groups: no number is made up."""

    class Mixed(Accounting):
        def __call__(self, config, **options):
            found = super().__call__(config, **options)
            if config.privacy.noise_multiplier != NOISES[0]:
                return found
            return replace(found, mechanism=replace(found.mechanism, unit="group"))

    found, sentence = total_of_plan(plan, account=Mixed(settings))
    assert found["epsilon"] == math.inf
    assert "unit" in found["unaccounted"][0]
    assert "epsilon inf at delta" in sentence


def test_a_plan_without_a_trial_that_can_run_is_left_as_it_is(space, plan, account):
    """Why each point is refused stands in the plan; no delta of a filter is looked
    for.
    """
    refused = replace(
        plan, trials=tuple(replace(t, reason="no data") for t in plan.trials)
    )

    def no_mechanism(config, **_):
        raise InvalidInput("no data")

    assert (
        within_total(refused, with_total(space, 3.0), account=no_mechanism) == refused
    )
