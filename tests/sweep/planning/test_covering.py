"""Plans whose trials cover every record: what is refused, in one line, and what the
noise costs.
"""

import pytest

from sweep.planning.prepare import prepare_space
from tests.refusals import refused
from tests.sweep.sweeps import settings_in, shared_figures, space_in
from trainables.config.trial import parse

COVERED = {
    "engine": "dp_sgd",
    "privacy": {"covers": "all", "noise_multiplier": 4.0, "delta": 1e-4},
    "training": {"epochs": 3, "expected_batch_size": 30, "num_workers": 1},
}
ONE = [{"name": "private"}]


@pytest.fixture
def prepared(tmp_path):
    settings = settings_in(tmp_path)

    def of(*, data=None, **fields):
        space = space_in(tmp_path, **fields)
        base = {**space.base, **COVERED, **fields.get("base", {})}
        base["data"] = {**space.base["data"], "split": "hash", **(data or {})}
        with shared_figures(settings):
            return prepare_space(
                space.model_copy(update={"base": base}), settings=settings
            )

    return of


def test_a_plan_says_what_the_noise_costs_from_declared_values(prepared):
    """At 3 epochs of noise 4 on a rate of 1/3: s from the calibration, 13 and 26 units
    declared.
    """
    found = prepared(variants=ONE)
    [said] = [note for note in found.notes if "Every record of the file" in note]
    assert "in 100 validation records ±" in said
    assert "in 100 test records ±" in said
    [trial] = found.plan.to_run
    assert trial.covers_all
    assert not prepared(
        variants=ONE, base={"privacy": {"noise_multiplier": 4.0, "delta": 1e-4}}
    ).notes


@pytest.mark.parametrize(
    ("search", "words"),
    [
        ({"scheduler": "median"}, "search.scheduler=median"),
        (
            {"strategy": "tpe", "num_samples": 3},
            "search.strategy=tpe",
        ),
        (
            {
                "strategy": "private_selection",
                "num_trials": {"law": "geometric", "mean": 2},
            },
            "search.strategy=private_selection",
        ),
    ],
)
def test_searches_that_look_at_arrivals_are_refused(prepared, search, words):
    axes = {"training.learning_rate": {"range": {"low": 0.01, "high": 0.1}}}
    if "scheduler" in search:
        axes = {"training.learning_rate": [0.01, 0.1]}
    with refused(f"grid, random or quasi-random and no scheduler .*{words}"):
        prepared(
            variants=[{"name": "private", "axes": axes}],
            search=search,
            budget={"total": 30.0} if search.get("strategy") == "tpe" else {},
        )


@pytest.mark.parametrize(
    "other",
    [
        {"engine": "sgd", "privacy": {"sampling": "poisson"}},
        {"privacy.covers": "training"},
    ],
)
def test_a_trial_without_noise_on_its_figures_stands_beside_none(prepared, other):
    with refused("every trial of the sweep with privacy.covers=all, got plain"):
        prepared(
            variants=[
                *ONE,
                {"name": "plain", "baseline": "engine" in other, "set": other},
            ]
        )


def test_two_splits_of_one_data_set_are_refused(prepared):
    with refused("one data.split_seed for .* with privacy.covers=all"):
        prepared(variants=[{"name": "private", "axes": {"data.split_seed": [0, 1]}}])


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"data": {"split": "paper"}}, "data.split=hash with privacy.covers=all"),
        ({"data": {"split": "official"}}, "data.split=hash with privacy.covers=all"),
        ({"data": {"split": "bernoulli"}}, "data.split=hash with privacy.covers=all"),
        (
            {"data": {"split": "hash", "max_records": 100}},
            "no data.max_records with privacy.covers=all",
        ),
        ({"privacy": {"covers": "all", "sampling": "shuffle"}}, "got shuffle"),
        (
            {"engine": "edp_sgd", "privacy": {"covers": "all"}},
            "got shuffle",
        ),
        (
            {"privacy": {"covers": "all", "unit": "group", "max_records_per_group": 0}},
            "max_records_per_group",
        ),
        (
            {
                "task": "synthesis",
                "data": {"name": "treedst", "split": "hash"},
                "model": {"name": "causal_lm"},
            },
            "got hash",
        ),
        (
            {"engine": "sgd", "privacy": {"covers": "all"}},
            "covers",
        ),
    ],
)
def test_what_the_theorem_does_not_hold_for_is_refused(fields, words):
    base = {
        "engine": "dp_sgd",
        "data": {"split": "hash"},
        "privacy": {"covers": "all"},
    }
    if fields.get("task") == "synthesis":
        base.pop("privacy")
    with refused(words):
        parse({**base, **fields})


def test_the_synthesis_of_text_covers_training_alone():
    fields = {
        "task": "synthesis",
        "data": {"name": "treedst"},
        "model": {"name": "causal_lm"},
    }
    with refused("privacy.covers=training with task=synthesis"):
        parse({**fields, "engine": "dp_sgd", "privacy": {"covers": "all"}})
