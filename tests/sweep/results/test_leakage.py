"""Trials of a sweep as each other's references: a memorable corpus, a real MLflow
store.
"""

import importlib
import itertools
import json
import math
import shutil
from pathlib import Path

import numpy as np
import pytest

from search_spaces import space as spaces
from sweep.planning.prepare import prepare_space
from sweep.results import leakage, select
from sweep.results.report_files import gather
from sweep.results.tables.trials import leakage_table, violations
from sweep.runtime import runner
from sweep.store import sweeps as store
from sweep.store.sweeps import LOG
from tests.fixed_keys import fixed_keys
from tests.libraries import IGNORED
from tests.lines import write_lines
from tests.sweep.results.test_select import record as made
from tests.sweep.sweeps import make_store, settings_in, shared_figures
from tests.sweep.tracking.conftest import runs_in
from trainables import attacks, saved_predictions
from trainables.attacks import one_run
from trainables.attacks._estimates import gdp
from trainables.metrics._counts import NAMES, from_table

pytestmark = IGNORED

NUM = 600
NAME = "mutual"
ATTACKS = ["blind", "loss_threshold", "one_run", "quantile"]


def write_corpus(folder):
    """Records of one word each that occurs nowhere else, with an intent drawn by a
    coin: to know a record's intent is to have been trained on it.
    """
    coins = np.random.default_rng(0).integers(2, size=NUM)
    names = [
        "".join(letters)
        for letters in itertools.product("bcdfgklmnp", "aeiou", "rstvz", "aei")
    ]
    rows = [
        {"tokens": [names[n]], "tags": ["O"], "intent": "yes" if coins[n] else "no"}
        for n in range(NUM)
    ]
    write_lines(folder / "mine.jsonl", rows)
    schema = {"intents": ["yes", "no"], "slots": ["none"], "source": "written by hand"}
    (folder / "schema.json").write_text(json.dumps(schema))
    return {"name": "json_lines", "path": "mine.jsonl", "schema_file": "schema.json"}


def space_in(folder, *, split, epsilon, seeds, epochs=6):
    return spaces.parse(
        {
            "name": NAME,
            "base": {
                "data": {**write_corpus(folder), "split": split, "num_records": 270},
                "model": {
                    **{
                        "word_buckets": 8_192,
                        "word_dim": 32,
                        "char_dim": 4,
                        "char_filters": 4,
                    },
                    **{"hidden_size": 16, "num_layers": 1, "dropout": 0.0},
                },
                "training": {
                    "epochs": epochs,
                    "expected_batch_size": 32,
                    "learning_rate": 0.05,
                },
                # The shadow model would take longer than all trials together.
                "evaluation": {"attacks": ATTACKS, "bootstrap_samples": 20},
            },
            "variants": [
                {"name": "sgd", "baseline": True, "set": {"engine": "sgd"}},
                {
                    "name": "dp",
                    "set": {"engine": "dp_sgd"},
                    "axes": {
                        "privacy.noise_multiplier": [{"target_epsilon": epsilon}],
                        "training.seed": seeds,
                    },
                },
            ],
            "resources": {"executor": "local"},
        }
    )


def run(folder, **chosen):
    settings = settings_in(folder)
    make_store(settings)
    with fixed_keys(), shared_figures(settings):
        prepared = prepare_space(space_in(folder, **chosen), settings=settings)
        done = runner.start(prepared, settings)
    assert done.tracking_problem is None
    return done.folder


@pytest.fixture(scope="module")
def quiet(tmp_path_factory):
    """Pairs, two DP trials whose noise is as it should be, and SGD."""
    return run(
        tmp_path_factory.mktemp("quiet"), split="paired", epsilon=0.25, seeds=[0, 1]
    )


def test_every_trial_is_attacked_with_all_the_others(quiet):
    for record in quiet.records():
        assert record.metrics["mia_num_references"] == 2
        for attack in ("rmia", "lira", "calibrated", "bavaria", "blind", "quantile"):
            low, high = (
                record.metrics[f"mia_{attack}_auc_{end}"] for end in ("low", "high")
            )
            assert low <= record.metrics[f"mia_{attack}_auc"] <= high
        assert record.metrics["epsilon_lower_bound_p"] == pytest.approx(0.05 / 3)
        scores = saved_predictions.read_scores(quiet.trial_folder(record.plan.id))
        assert {"rmia", "lira", "loss_threshold"} <= set(scores)


def test_what_memorises_is_found_and_what_is_noised_is_not(quiet):
    sgd, *dp = quiet.records()
    assert sgd.metrics["mia_loss_threshold_auc_low"] > 0.85
    assert sgd.metrics["mia_rmia_auc_low"] > 0.7
    assert sgd.metrics["epsilon_lower_bound"] > 0.5
    for record in dp:
        assert record.metrics["mia_rmia_auc_low"] < 0.55
        assert record.metrics["delta_mia_significant"] == 1
        assert record.metrics["delta_mia_percent_high"] < 0
        assert record.metrics["delta_ser_percent"] is not None
        assert record.violation is None
    for record in (sgd, *dp):  # words alone do not show membership
        assert record.metrics["mia_blind_auc_low"] < 0.55
        assert record.metrics["mia_blind_auc_high"] > 0.45


def test_estimates_are_of_the_attack_that_is_strongest_of_all(quiet):
    sgd, *_ = quiet.records()
    best = attacks.strongest(sgd.metrics)
    assert best.attack == "loss_threshold", (
        "of the trial's own panel, not of the pool's"
    )
    assert sgd.metrics["epsilon_estimate_gdp"] == pytest.approx(
        gdp(best.value, delta=1e-5)
    )


def test_the_tracking_store_has_the_strongest_attack_marked(quiet):
    runs = runs_in(settings_in(quiet.path.parents[1]))
    for record in quiet.records():
        found = runs[record.plan.id].data
        best = attacks.strongest(record.metrics)
        assert found.metrics["mia_auc"] == best.value
        assert (
            found.metrics["epsilon_lower_bound"]
            == record.metrics["epsilon_lower_bound"]
        )
        hidden = {"epsilon_lower_bound", "mia_auc", "mia_tpr_at_1_percent"}
        assert (
            set(found.tags["curator_only"].split(", ")) == hidden & found.metrics.keys()
        )
        shown = {name for name in found.metrics if "mia" in name or "leakage" in name}
        assert shown <= hidden
        assert "curator_only.violation" not in found.tags


def test_computing_panels_again_changes_nothing(quiet):
    before = (quiet.path / LOG).read_bytes()
    leakage.write_panels(quiet)
    assert (quiet.path / LOG).read_bytes() == before


def test_the_table_has_intervals_bounds_and_claims(quiet):
    records = quiet.records()
    table = leakage_table(records)
    heads = [column.head for column in table.columns]
    assert {"strongest", "by", "TPR", "blind", "ΔMIA"} <= set(heads)
    assert heads[-2:] == ["ε ≥", "claimed"]
    assert violations(records) == []
    claims = [record.metrics.get("epsilon_replace_one") for record in records]
    assert [
        t.number("epsilon_claimed") for t in gather(quiet, epsilon_max=8.0).trials
    ] == claims
    assert None not in claims[1:]


@pytest.mark.slow  # a sweep of its own, with its attacks
def test_a_trial_without_noise_is_caught(tmp_path, monkeypatch):
    """The same DP trial with its noise taken out makes the same claim; its records deny
    it.
    """
    private = importlib.import_module("trainables.dp.engines._private")
    monkeypatch.setattr(private, "add_noise_", lambda *_, **__: None)
    folder = run(tmp_path, split="paired", epsilon=0.25, seeds=[0], epochs=15)
    sgd, dp = folder.records()
    assert sgd.violation is None  # it claims nothing
    assert (
        dp.violation["epsilon_lower_bound"]
        > dp.violation["epsilon_claimed"]
        == pytest.approx(dp.metrics["epsilon_replace_one"])
    )
    (sentence,) = violations(folder.records())
    assert sentence.startswith(f"privacy violation: {dp.plan.id} claims epsilon ")
    assert (
        runs_in(settings_in(tmp_path))[dp.plan.id].data.tags["curator_only.violation"]
        == sentence
    )


def test_damaged_evidence_is_a_note_and_stops_no_trial(quiet, tmp_path):
    folder = store.SweepFolder(tmp_path / NAME)
    shutil.copytree(quiet.path, folder.path)
    damaged = (saved_predictions.SCORES, leakage.SIGNALS, saved_predictions.COUNTS)
    for record, name in zip(folder.records(), damaged, strict=True):
        (folder.trial_folder(record.plan.id) / name).write_bytes(b"not an archive")
    leakage.write_panels(folder)
    first, second, third = folder.records()
    for record, name in zip((first, second, third), damaged, strict=True):
        (note,) = (each for each in record.notes if name in each)
        assert "cannot be read" in note
        # The trial without signals keeps the bound of its own audit, and all three hold
        # together.
        assert record.metrics["epsilon_lower_bound_p"] == pytest.approx(0.05 / 3)
    assert "delta_ser_percent" not in third.metrics
    assert "mia_rmia_auc" not in second.metrics
    assert (
        first.metrics["mia_num_references"] == third.metrics["mia_num_references"] == 1
    )


AUDIT = {
    "epsilon_lower_bound": one_run.epsilon_lower_bound(1_000, 100, 95, delta=1e-5),
    "epsilon_lower_bound_p": 0.05,
    "epsilon_lower_bound_delta": 1e-5,
    "mia_one_run_num_units": 1_000.0,
    "mia_one_run_num_guesses": 100.0,
    "mia_one_run_num_correct": 95.0,
}


def test_bounds_of_trials_on_other_records_hold_together_too():
    """Ten trials of ten data sets: each a pool of its own."""
    ended = [leakage.FinishedTrial(made(f"t{n}", **AUDIT), Path()) for n in range(10)]
    leakage.correct_bounds(ended)
    least = one_run.epsilon_lower_bound(1_000, 100, 95, delta=1e-5, p=0.005)
    assert least < AUDIT["epsilon_lower_bound"]
    for each in ended:
        assert each.metrics["epsilon_lower_bound"] == pytest.approx(least)
        assert each.metrics["epsilon_lower_bound_p"] == pytest.approx(0.005)


def trial(place, *, seed, error, **fields):
    """A finished trial with `error` of its intents wrong."""
    place.mkdir()
    table = np.zeros((100, len(NAMES)), dtype=np.int64)
    table[:, NAMES.index("utterances")] = table[:, NAMES.index("reference_intents")] = 1
    table[: round(error * 100), NAMES.index("intent_errors")] = 1
    saved_predictions.write_counts(place, np.arange(100), from_table(table))
    return leakage.FinishedTrial(
        made(place.name, ser=error, seed=seed, **fields), place
    )


def test_a_trial_is_compared_with_the_baseline_of_its_seed(tmp_path):
    base = [
        trial(
            tmp_path / f"base{seed}", seed=seed, error=error, group="sgd", baseline=True
        )
        for seed, error in ((0, 0.1), (1, 0.2))
    ]
    mine = trial(tmp_path / "mine", seed=1, error=0.2)
    groups = select.groups([each.record for each in base])
    by_id = {each.record.plan.id: each for each in base}
    assert leakage.against_baseline(mine, groups, by_id)["delta_ser_percent"] == 0


@pytest.mark.parametrize(
    ("split", "metrics", "broken"),
    [
        (
            "paired",
            {"epsilon_lower_bound": 1.2, "epsilon_replace_one": 1.0, "epsilon": 9.0},
            True,
        ),
        (
            "paired",
            {"epsilon_lower_bound": 1.2, "epsilon_replace_one": 2.0, "epsilon": 1.0},
            False,
        ),
        ("bernoulli", {"epsilon_lower_bound": 1.2, "epsilon": 1.0}, True),
        (
            "paired",
            {"epsilon_lower_bound": 9.0, "epsilon_replace_one": math.inf},
            False,
        ),
        ("paired", {"epsilon_replace_one": 1.0}, False),
        ("paired", {"epsilon_lower_bound": 9.0, "epsilon_replace_one": None}, False),
    ],
)
def test_a_bound_is_held_against_the_claim_of_its_own_relation(split, metrics, broken):
    assert (leakage.violation(metrics, split) is not None) is broken
