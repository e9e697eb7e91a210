import json
import math

import pytest
from pydantic import TypeAdapter

from search_spaces import space as spaces
from sweep.planning import plan as planning
from sweep.planning.accounting import Accounting
from sweep.store import plans
from tests.refusals import refused
from tests.sweep.sweeps import write_corpus
from trainables.config.trial import parse
from trainables.errors import InvalidData

BASE = {
    "data": {"name": "atis"},
    "privacy": {"delta": 5e-4},
    "training": {"epochs": 30, "expected_batch_size": 64, "num_workers": 8},
}
Z0 = "privacy.noise_multiplier"


def plan_of(settings, **fields):
    space = spaces.parse({"name": "s", "base": BASE, **fields})
    return planning.make(space, account=Accounting(settings))


def test_the_papers_algorithm_has_both_its_epsilons(settings):
    """Check values of docs/guides/privacy.md: N = 8, z0 = 1, 30 epochs, delta 5e-4."""
    (trial,) = plan_of(settings).trials
    assert trial.epsilon == pytest.approx(581.0, abs=0.05)
    assert trial.epsilon_paper == pytest.approx(36.355, abs=0.001)
    assert (trial.accountant, trial.num_records, trial.runs) == ("gaussian", 2463, True)


_OVER = (
    "epsilon 2123 (gaussian) exceeds budget.epsilon=600; the paper's formula has 102.8,"
    " which is no guarantee: budget.accountant=paper goes by it"
)
_BOTH = {"axes": {Z0: [0.5, 1.0]}}
_BASELINE = [  # which is exempt, and everything else without noise is not
    {"name": "base", "baseline": True, "set": {"engine": "sgd"}},
    {"name": "other", "set": {"engine": "sgd", "training.seed": 1}},
]
_DP_SGD = [{"name": "dp", "set": {"engine": "dp_sgd"}}]


@pytest.mark.parametrize(
    ("fields", "accountant", "limit", "reasons"),
    [
        (_BOTH, "sound", 600, [_OVER, None]),
        (_BOTH, "paper", 600, [None, None]),
        # The other accountant is named only where it would let the trial run.
        ({}, "sound", 30, ["epsilon 581.1 (gaussian) exceeds budget.epsilon=30"]),
        (_BOTH, "sound", 1e9, [None, None]),
        (
            {"variants": _BASELINE},
            "sound",
            1e12,
            [None, "epsilon inf (gaussian) exceeds budget.epsilon=1e+12"],
        ),
        (
            {"variants": _DP_SGD},
            "paper",
            5,
            ["epsilon_paper is not defined for dp_sgd, budget.epsilon=5"],
        ),
    ],
)
def test_the_budget_goes_by_the_accountant_it_names(
    settings, fields, accountant, limit, reasons
):
    plan = plan_of(
        settings, **fields, budget={"epsilon": limit, "accountant": accountant}
    )
    assert [trial.reason for trial in plan.trials] == reasons
    assert all(trial.refused_by == "budget" for trial in plan.refused)


def test_a_mechanism_that_no_theorem_covers_is_refused_as_data(settings):
    plan = plan_of(settings, axes={"training.expected_batch_size": [63, 64]})
    assert [trial.values["training.expected_batch_size"] for trial in plan.to_run] == [
        64
    ]
    (refused,) = plan.refused
    assert refused.refused_by == "mechanism"
    assert "to be a multiple of num_workers (8), got 63" in str(refused.reason)


def test_the_delta_of_a_filter_is_that_of_the_trials_that_a_search_draws(settings):
    """Also where the space lists none but its baseline, whose delta does not count."""
    baseline = {
        "name": "sgd",
        "baseline": True,
        "set": {"engine": "sgd", "privacy.delta": 1e-9},
    }
    tpe = {"strategy": "tpe", "num_samples": 4}
    for search, axes in (
        (tpe, {Z0: {"range": {"low": 1.0, "high": 4.0}}}),
        ({"scheduler": "median"}, {Z0: [1.0, 4.0]}),
    ):
        fields = {
            "variants": [baseline, {"name": "dp", "axes": axes}],
            "search": search,
        }
        assert plan_of(settings, **fields, budget={"total": 3000}).filter_delta == 5e-4
        assert plan_of(settings, **fields).filter_delta is None, "no total"
    assert plan_of(settings, axes=axes, budget={"total": 3000}).filter_delta is None


def test_a_search_has_processes_that_each_of_its_trials_can_use(settings):
    """At most the logical workers of the smallest: one group of processes serves
    all.
    """
    variants = [{"name": str(n), "set": {"training.num_workers": n}} for n in (4, 8)]
    search = {"strategy": "tpe", "num_samples": 4}
    for asked, workers in ((None, 4), (2, 2), (6, 4)):
        plan = plan_of(
            settings, variants=variants, search=search, resources={"workers": asked}
        )
        assert plan.workers == workers


def test_a_constraint_may_use_what_only_the_plan_knows(settings):
    plan = plan_of(
        settings, axes={Z0: [0.5, 1.0]}, constraints=["epsilon_paper * 2 < 100"]
    )
    assert [trial.values[Z0] for trial in plan.to_run] == [1.0]
    assert plan.refused[0].reason == "constraint epsilon_paper * 2 < 100"


def test_a_budget_of_trials_keeps_the_first(settings):
    plan = plan_of(settings, axes={Z0: [0.5, 1.0, 2.0]}, budget={"trials": 2})
    assert [trial.runs for trial in plan.trials] == [True, True, False]


def test_a_dependent_constraint_is_not_evaluated_alone(settings):
    """Such as one over a field that a guard before it keeps others from having."""
    guarded = ["model.name == 'bert'", "model.nothing_such > 1"]
    plan = plan_of(settings, constraints=guarded)
    assert plan.trials[0].reason == "constraint model.name == 'bert'"
    with refused("nothing_such"):
        plan_of(settings, constraints=guarded[1:])


def test_a_plan_is_written_and_read_in_the_bytes_of_all_versions():
    trial = plans.PlannedTrial(
        id="ab",
        variant="dp",
        baseline=False,
        values={"privacy.max_grad_norm": 1.0},
        origin={"task": "nlu"},
        epsilon=math.inf,
        warnings=("loud",),
        reason="too much",
        refused_by="budget",
    )
    plan = plans.Plan(name="s", trials=(trial,), to_choose=4)
    text = (
        '{"name": "s", "merged": 0, "num_trials": 1, "num_refused": 1, "to_choose": 4,'
        ' "workers": 1, "filter_delta": null, "trials": [{"id": "ab", "name": "dp,'
        ' C=1", "variant": "dp", "baseline": false, "values": {"privacy.max_grad_norm":'
        ' 1.0}, "config": {"task": "nlu"}, "steps": null, "num_records": null,'
        ' "noise_multiplier": null, "delta": null, "epsilon": "inf", "epsilon_paper":'
        ' null, "epsilon_budget": null, "accountant": null, "warnings": ["loud"],'
        ' "reason": "too much", "refused_by": "budget"}]}'
    )
    assert json.dumps(plan.to_dict()) == text
    read = TypeAdapter(plans.Plan).validate_json(text)
    assert (read, read.trials[0].origin) == (plan, {"task": "nlu"})


def test_a_trial_has_the_config_that_it_was_planned_with_or_none():
    own = parse({}).id
    row = {"id": own, "variant": "v", "baseline": False, "values": {}, "config": {}}
    read = TypeAdapter(plans.PlannedTrial).validate_python
    for of_a_draw in ("", "draw-1-"):
        assert read({**row, "id": f"{of_a_draw}{own}"}).config == parse({})
    for changed in ({"config": {"engine": "sgd"}}, {"id": parse({"engine": "sgd"}).id}):
        with refused(r"the config of trial .* as it was planned", InvalidData):
            _ = read({**row, **changed}).config


def test_what_a_trial_says_of_its_config_is_that_of_the_config():
    steps = {"steps": 10, "evaluate_every": 4, "seed": 3}
    for origin, epochs, seed in (
        (
            {"engine": "dp_sgd", "privacy": {"sampling": "poisson"}, "training": steps},
            3,
            3,
        ),
        ({"engine": "untrained"}, 1, 0),
    ):
        config = parse(origin)
        planned = plans.PlannedTrial(
            id=config.id, variant="v", baseline=False, values={}, origin=config
        )
        read = TypeAdapter(plans.PlannedTrial).validate_json(
            json.dumps(planned.to_dict())
        )
        for trial in (planned, read):
            assert (trial.engine, trial.epochs, trial.seed) == (
                config.engine,
                epochs,
                seed,
            )
            said = trial.name, trial.task, trial.corpus, trial.group
            assert said == ("v", "nlu", config.data.name, planned.group)


@pytest.mark.parametrize(
    ("declared", "is_near"),
    [(20_000, False), (181, False), (44, False), (180, True), (45, True)],
)
def test_a_declared_size_far_from_the_truth_is_refused_without_saying_it(
    settings, tmp_path, declared, is_near
):
    data = {**write_corpus(tmp_path), "num_records": declared}  # 45 % of its 200 train
    base = {**BASE, "data": data, "training": {"epochs": 2, "expected_batch_size": 8}}
    if is_near:
        assert plan_of(settings, base=base).trials[0].num_records == declared
        return
    with refused(f"got {declared}: .* for the curator alone$", InvalidData, hides="90"):
        plan_of(settings, base=base)
