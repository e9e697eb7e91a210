"""The preview of an adaptive search: points of its own space, the same each time."""

import pytest

from sweep.planning.accounting import Accounting
from sweep.planning.plan import probes, require_trials, search_notes
from sweep.planning.prepare import prepare_space
from tests.refusals import refused
from tests.sweep.sweeps import space_in

Z, LR = "privacy.noise_multiplier", "training.learning_rate"
_AXES = {
    Z: {"range": {"low": 0.5, "high": 2.0}},
    LR: {"range": {"low": 1e-4, "high": 1e-1, "log": True}},
}


def searching(settings, **fields):
    """A search by TPE over noise and learning rate."""
    search = {"strategy": "tpe", "num_samples": 7, "objectives": ["validation_ser"]}
    found = {
        "variants": [],
        "axes": _AXES,
        "base": {"privacy": {"delta": 1e-3}},
        **fields,
    }
    return space_in(
        settings.data_dir, **{**found, "search": {**search, **fields.get("search", {})}}
    )


def test_probes_are_points_of_the_space_and_the_same_each_time(settings):
    space = searching(settings)
    found = probes(space, account=Accounting(settings))
    assert found == probes(space, account=Accounting(settings))
    assert len({trial.id for trial in found}) == len(found) > 5
    for trial in found:
        assert set(trial.values) == {Z, LR}
        assert 0.5 <= trial.values[Z] <= 2.0
        assert 1e-4 <= trial.values[LR] <= 1e-1
        assert trial.epsilon is not None
    noises = sorted(found, key=lambda trial: trial.values[Z])
    epsilons = [trial.epsilon or 0.0 for trial in noises]
    assert epsilons == sorted(epsilons, reverse=True), "more noise, less epsilon"


def plan_and_messages(settings, **fields):
    space = searching(settings, **fields)
    plan = prepare_space(space, settings=settings).plan
    return plan, search_notes(space, plan)


def test_the_note_counts_what_is_permitted_and_names_the_smallest_and_largest_epsilon(
    settings,
):
    axes = {Z: [0.5, 1.0, 2.0]}
    plan, (text, unbounded) = plan_and_messages(settings, axes=axes)
    epsilons = sorted(trial.epsilon or 0.0 for trial in plan.probes)
    assert text.startswith("7 configurations are chosen while the sweep runs (tpe on")
    assert "of 3 random points 3 are permitted" in text
    assert f"of epsilon {epsilons[0]:.4g}"[:14] in text
    assert "refused" not in text
    assert unbounded.startswith("The sweep as a whole has no finite epsilon:")
    limit = (epsilons[0] + epsilons[1]) / 2
    plan, (text, _) = plan_and_messages(settings, axes=axes, budget={"epsilon": limit})
    assert "of 3 random points 1 are permitted" in text
    assert "; refused: epsilon" in text
    assert [trial.values[Z] for trial in plan.probes if trial.runs] == [2.0]


def test_a_total_makes_the_sweep_finite_and_leakage_does_not_go_uncovered(settings):
    _, found = plan_and_messages(settings, budget={"total": 1e6})
    assert len(found) == 1
    attacked = {
        "privacy": {"delta": 1e-3},
        "evaluation": {"attacks": ["loss_threshold"]},
    }
    search = {"objectives": ["leakage"]}
    _, found = plan_and_messages(
        settings, search=search, budget={"total": 1e6}, base=attacked
    )
    assert "for the curator only: no epsilon covers its choice" in found[-1]


@pytest.mark.parametrize("attacks", [[], ["blind"], ["loss_threshold"]])
def test_a_search_by_leakage_that_no_attack_measures_is_refused(settings, attacks):
    """Each of its points would be reported as failed: the search would be blind."""
    space = searching(
        settings,
        base={"evaluation": {"attacks": attacks}},
        search={"objectives": ["leakage"]},
    )
    plan = prepare_space(space, settings=settings).plan
    if attacks == ["loss_threshold"]:
        require_trials(plan)
        return
    with refused(r"loss_threshold or quantile or shadow, or none"):
        require_trials(plan)
