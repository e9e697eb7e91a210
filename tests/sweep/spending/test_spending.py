"""Limits of a sweep's spend: before its start, during a search, on its card."""

from types import SimpleNamespace

import pytest

from sweep.planning.accounting import Accounting
from sweep.planning.plan_total import total_of_plan
from sweep.results.export import _beside_total, spend_of
from sweep.search import source as search_source
from tests.accountants.outside import events_of, pld_epsilon
from tests.sweep.sweeps import ledger_of, prepared_in, settings_in, statuses
from tests.sweep.untracked import run_untracked
from trainables.dp.accounting import certification

Z, LR = "privacy.noise_multiplier", "training.learning_rate"
PRIVATE = {"engine": "dp_sgd", "privacy": {"delta": 1e-4}}
EPSILONS = [{"target_epsilon": 8}, {"target_epsilon": 50}]


def fields(**changes):
    """A space of DP-SGD toys beside an SGD baseline."""
    made = {
        "base": PRIVATE,
        "variants": [
            {
                "name": "sgd",
                "baseline": True,
                "set": {"engine": "sgd"},
                "drop_axes": "all",
            },
            {"name": "dp"},
        ],
    }
    return {**made, **changes}


def searching(num_samples, **search):
    return {
        "strategy": "tpe",
        "num_samples": num_samples,
        "objectives": ["epsilon"],
        **search,
    }


def epsilon_spent(folder):
    """What the ledger says of the sweep without its baseline."""
    exempt = {trial.id for trial in folder.plan().trials if trial.baseline}
    mine = ledger_of(folder).of_sweep(folder.ledger_name)
    paid = [e.release for e in mine if e.trial not in exempt]
    return pld_epsilon(*events_of(paid), delta=1e-4, interval=1e-3)


def test_a_plan_says_what_its_trials_cost_together(tmp_path, monkeypatch):
    settings, plan = (
        settings_in(tmp_path),
        prepared_in(tmp_path, **fields(axes={Z: EPSILONS})).plan,
    )
    found, sentence = total_of_plan(plan, account=Accounting(settings))
    assert 50 < found["epsilon"] < 58, "more than either, less than their sum"
    assert sentence.startswith("All 2 trials together, without 1 baseline: epsilon 51.")
    folder = run_untracked(tmp_path, **fields(axes={Z: EPSILONS}))
    spent = epsilon_spent(folder)
    assert spent == pytest.approx(found["epsilon"], rel=1e-2), (
        "which is what they then cost"
    )
    monkeypatch.setattr(certification, "certify", None)  # it is not worked out again
    assert total_of_plan(plan, account=Accounting(settings)) == (found, sentence)


@pytest.mark.parametrize("path", ["data.split_seed", Z])
def test_a_total_says_where_one_trials_records_are_another_ones_test(tmp_path, path):
    base, axes = {"privacy": {"delta": 1e-4}}, {path: [1, 2]}  # values of either field
    folder = run_untracked(tmp_path, **fields(base=base, variants=[], axes=axes))
    total, _ = spend_of(folder)
    said = any(
        "no trial is validated or tested on" in reason for reason in total.unaccounted
    )
    assert said == (path != Z)


def test_a_total_says_where_one_trials_records_are_public_to_another_one():
    """Weights, tokenizers and parsers start from the public share without noise."""

    def reasons(*fractions, baselines=0):
        trials = [
            SimpleNamespace(
                id=str(fraction),
                runs=True,
                fields={
                    "data": {"name": "smcalflow"},
                    "synthesis": {"public_fraction": fraction},
                },
            )
            for fraction in fractions
        ]
        folder = SimpleNamespace(plan=lambda: SimpleNamespace(trials=trials))
        return _beside_total(folder, ["sgd"] * baselines)

    assert reasons(0.1, 0.1) == []
    [reason] = reasons(0.1, 0.2)
    assert reason.endswith("no trial is validated or tested on or takes as public")
    told = reasons(0.1, 0.2, baselines=2)
    assert [each.split(" ")[0] for each in told] == ["2", "validation,"], (
        "none hides another"
    )


def test_a_search_finds_what_there_is_room_for(tmp_path):
    axes = {
        Z: {"choice": EPSILONS},
        LR: {"range": {"low": 0.01, "high": 1, "log": True}},
    }
    for seed in range(3):
        folder = run_untracked(
            tmp_path / str(seed),
            **fields(axes=axes, search=searching(3, seed=seed), budget={"total": 45}),
        )
        ran = [t for t in folder.plan().to_run if not t.baseline]
        assert [trial.epsilon for trial in ran] == [pytest.approx(8, rel=1e-3)] * 3
        assert search_source.ended_early(folder) is None


def test_a_search_that_ends_early_says_why(tmp_path):
    """Its baseline is a trial."""
    axes = {LR: {"range": {"low": 0.01, "high": 1, "log": True}}, Z: EPSILONS[:1]}
    folder = run_untracked(
        tmp_path, **fields(axes=axes, search=searching(5), budget={"total": 12})
    )
    assert statuses(folder).count("done") == len(folder.plan().to_run) == 2
    said = "The search ended after 1 of 5 configurations: budget.total=12 has no room for it"
    assert said in str(search_source.ended_early(folder))


def test_a_configuration_is_let_in_with_all_its_seeds_or_not_at_all(tmp_path):
    axes = {LR: {"range": {"low": 0.01, "high": 1, "log": True}}, Z: EPSILONS[:1]}
    folder = run_untracked(
        tmp_path,
        **fields(axes=axes, search=searching(2), budget={"total": 22}, repeats=3),
    )
    ran = [t for t in folder.plan().to_run if not t.baseline]
    assert sorted(trial.seed for trial in ran) in ([], [0, 1, 2])
    assert len({trial.group for trial in ran}) <= 1
    assert not ran or epsilon_spent(folder) <= 22


def test_a_baseline_alone_has_no_total(tmp_path):
    folder = run_untracked(tmp_path, base=PRIVATE, variants=fields()["variants"][:1])
    assert spend_of(folder)[0] is None
