"""The calculator: what options change, what a file gives, what is missing."""

import copy
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweep.planning.calculator import (
    change,
    differences,
    fields_of,
    mechanism_of,
    noise,
    report,
    set_fields,
)
from tests.refusals import refused
from tests.sweep.sweeps import write_corpus
from trainables import accountants
from trainables.config import parse
from trainables.privacy.from_config import build


def parts_of(engine="dp_sgd", **values):
    """The parts without a file, with fields set by their last names."""
    parts = fields_of(None)
    change(parts, {"engine": engine, **values})
    return parts


_SAMPLED = {"num_records": 2560, "expected_batch_size": 64, "delta": 1e-5, "noise_multiplier": 1.0}


@pytest.mark.parametrize(
    ("name", "value", "section"),
    [
        ("epochs", 7, "training"),
        ("expected_batch_size", 32, "training"),
        ("num_workers", 4, "training"),
        ("steps", 90, "training"),
        ("num_records", 900, "data"),
        ("max_grad_norm", 0.5, "privacy"),
        ("microbatch_size", 2, "privacy"),
        ("delta", 1e-6, "privacy"),
    ],
)
def test_an_option_sets_one_field_and_without_a_value_none(name, value, section):
    parts = fields_of(None)
    before = copy.deepcopy(parts)
    change(parts, {name: None})
    assert parts == before
    change(parts, {name: value})
    assert parts == {**before, section: {name: value}}


def test_epochs_replace_the_steps_of_a_config(tmp_path):
    (tmp_path / "trial.yaml").write_text(
        "engine: dp_sgd\ndata: {name: atis, num_records: 4000}\n"
        "training: {steps: 1000, evaluate_every: 100, expected_batch_size: 40}\n"
    )
    parts = fields_of(tmp_path / "trial.yaml")
    change(parts, {"epochs": 2})
    mechanism, _ = mechanism_of(parts)
    assert (mechanism.epochs, mechanism.steps) == (2, 200)
    with refused("expected --epochs or --steps, got both"):
        change(parts, {"epochs": 2, "steps": 3})


def test_a_file_gives_the_parts_that_accounting_reads(tmp_path):
    """The mechanism is that of the whole config, and the model is no part of it."""
    fields = {
        "engine": "dp_sgd",
        "data": {"name": "atis", "num_records": 4000},
        "privacy": {"noise_multiplier": 1.3, "delta": 1e-5},
        "training": {"epochs": 3, "expected_batch_size": 50},
    }
    file = tmp_path / "trial.yaml"
    file.write_text(json.dumps(fields))
    parts = fields_of(file)
    assert set(parts) == {"engine", "data", "training", "privacy"}
    assert mechanism_of(parts)[0] == build(parse(fields), num_records=4000)


def test_noise_is_a_number_or_a_target():
    assert noise(None, None) is None
    assert noise(1.5, None) == 1.5
    assert noise(None, 8.0) == {"target_epsilon": 8.0}


def test_a_field_of_the_mechanism_is_set_by_its_path_and_the_others_stay():
    parts = {"privacy": {"noise_decay": {"kind": "exponential", "tau": 0.3}}, "training": {}}
    changes = {"privacy.noise_decay.kind": "linear", "training.seed": 1}
    expected = {"privacy": {"noise_decay": {"kind": "linear", "tau": 0.3}}, "training": {"seed": 1}}
    assert set_fields(parts, changes) == expected


@given(workers=st.integers(1, 70), microbatch=st.integers(1, 70))
def test_a_missing_batch_is_the_smallest_of_64_that_workers_and_micro_batches_divide(
    workers, microbatch
):
    parts = parts_of(
        "edp_sgd",
        num_records=10**6,
        num_workers=workers,
        microbatch_size=microbatch,
        noise_calibration="central",
        noise_multiplier=1.0,
        delta=1e-7,
    )
    mechanism, _ = mechanism_of(parts)
    batch, share = mechanism.expected_batch_size, workers * microbatch
    assert batch % share == 0
    assert batch >= 64 > batch - share
    assert mechanism.num_microbatches * microbatch == batch


def test_the_cost_of_shuffled_epochs_needs_no_number_of_records():
    """And no figure that depends on that number is reported."""
    fields = {"num_workers": 8, "noise_multiplier": 1.0, "epochs": 30, "delta": 5e-4}
    without, _ = mechanism_of(parts_of("edp_sgd", **fields))
    known, _ = mechanism_of(parts_of("edp_sgd", **fields, num_records=4096))
    summary = accountants.account(without)
    assert summary.epsilon == accountants.account(known).epsilon
    shown = report(without, summary, None)
    assert (shown["steps"], shown["num_records"]) == (None, None)
    assert shown["epsilon"] == summary.epsilon
    assert report(known, summary, 4096)["steps"] == 30 * 4096 // 64


def test_records_of_a_data_set_at_hand_are_counted(tmp_path, monkeypatch):
    """And without its file the number is asked for."""
    monkeypatch.setenv("SWEEP_HOME", str(tmp_path / "home"))
    data = {k: v for k, v in write_corpus(tmp_path).items() if k != "num_records"}
    parts = parts_of(**{**_SAMPLED, "num_records": None, "expected_batch_size": 8})
    parts["data"] = dict(data)
    assert mechanism_of(parts)[0].num_records == 90
    assert parts["data"]["num_records"] == 90, "which the caller shows"
    parts["data"] = {**data, "path": str(tmp_path / "missing.jsonl")}
    with refused("expected --num-records"):
        mechanism_of(parts)


_PAPER = {"num_workers": 4, "noise_multiplier": 1.0, "delta": 1e-4, "num_records": 4096}
_CENTRAL = {**_PAPER, "noise_calibration": "central"}


@pytest.mark.parametrize(
    ("engine", "changes", "reasons", "sensitivity"),
    [
        ("dp_sgd", _SAMPLED, [], "a record is added or removed"),
        ("sgd", {"delta": 1e-4, "num_records": 4096}, [], ""),
        ("edp_sgd", {**_PAPER, "noise_multiplier": 0.0}, [], ""),  # infinite, whatever the reason
        ("edp_sgd", _PAPER, ["4 workers", "2 C"], "one of 16 records can reverse"),
        ("edp_sgd", {**_PAPER, "num_workers": 1}, ["2 C"], "one of 64 records"),
        ("edp_sgd", _CENTRAL, ["2 C"], "one of 16 records"),
        ("edp_sgd", {**_CENTRAL, "microbatch_size": 4}, ["2 C"], "one of 4 records"),
        ("edp_sgd", {**_CENTRAL, "microbatch_size": 1}, ["2 C"], "a record is replaced"),
        ("edp_sgd", {**_PAPER, "group_scale": "public"}, ["4 workers", "2 C", "alpha_k"], ""),
    ],
)
def test_the_sensitivity_and_the_differences_from_the_paper_have_their_reasons(
    engine, changes, reasons, sensitivity
):
    mechanism, _ = mechanism_of(parts_of(engine, **changes))
    found = differences(mechanism, accountants.account(mechanism))
    assert len(found) == len(reasons)
    for sentence, part in zip(found, reasons, strict=True):
        assert part in sentence
    assert not sensitivity or mechanism.sensitivity == (1 if "added" in sensitivity else 2)
