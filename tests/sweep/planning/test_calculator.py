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
)
from tests.refusals import refused
from tests.sweep.sweeps import write_corpus
from trainables.dp.accounting import choose


def parts_of(engine="dp_sgd", training=None, privacy=None, **data):
    """The parts without a file."""
    return {
        "engine": engine,
        "data": data,
        "training": training or {},
        "privacy": privacy or {},
    }


_NOISE = {"delta": 1e-5, "noise_multiplier": 1.0}


def test_an_option_sets_one_field_and_without_a_value_none():
    """Over what is assigned by its path, which is over the file; the other fields
    stay.
    """
    parts = parts_of(
        privacy={"noise_decay": {"kind": "exponential", "tau": 0.3}}, num_records=9
    )
    assert change(parts, {"data.num_records": None}, assigned={}) == parts
    options = {"data.num_records": 8, "training.epochs": 7}
    assigned = {"privacy.noise_decay.kind": "linear", "training.epochs": 1}
    assert change(parts, options, assigned=assigned) == parts_of(
        training={"epochs": 7},
        privacy={"noise_decay": {"kind": "linear", "tau": 0.3}},
        num_records=8,
    )


def test_epochs_replace_the_steps_of_a_config(tmp_path):
    (tmp_path / "trial.yaml").write_text(
        "engine: dp_sgd\ndata: {name: atis, num_records: 4000}\n"
        "training: {steps: 1000, evaluate_every: 100, expected_batch_size: 40}\n"
    )
    parts = fields_of(tmp_path / "trial.yaml")
    mechanism, _ = mechanism_of(change(parts, {"training.epochs": 2}, assigned={}))
    assert (mechanism.epochs, mechanism.steps) == (2, 200)
    with refused("expected --epochs or --steps, got both"):
        change(parts, {"training.epochs": 2, "training.steps": 3}, assigned={})


def test_noise_is_a_number_or_one_target():
    assert noise(1.5, target_epsilon=None, target_tpr=None) == 1.5
    assert noise(None, target_epsilon=None, target_tpr=None) is None
    assert noise(None, target_epsilon=None, target_tpr=0.05) == {"target_tpr": 0.05}
    several = ((1.0, None, 0.05), (None, 8.0, 0.05), (1.0, 8.0, None))
    for number, epsilon, tpr in several:
        with refused("expected --noise-multiplier, --target-epsilon or --target-tpr"):
            noise(number, target_epsilon=epsilon, target_tpr=tpr)


@given(workers=st.integers(1, 70), microbatch=st.integers(1, 70))
def test_a_missing_batch_is_the_smallest_of_64_that_workers_and_micro_batches_divide(
    workers, microbatch
):
    privacy = {
        "microbatch_size": microbatch,
        "noise_calibration": "central",
        "delta": 1e-7,
    }
    parts = parts_of("edp_sgd", {"num_workers": workers}, privacy, num_records=10**6)
    mechanism, _ = mechanism_of(parts)
    batch, share = mechanism.expected_batch_size, workers * microbatch
    assert batch % share == 0
    assert batch >= 64 > batch - share
    assert mechanism.num_microbatches * microbatch == batch


def test_the_cost_of_shuffled_epochs_needs_no_number_of_records():
    """And no figure that depends on that number is reported."""
    fields = {"num_workers": 8, "epochs": 30}, {"delta": 5e-4}
    without, _ = mechanism_of(parts_of("edp_sgd", *fields))
    known, _ = mechanism_of(parts_of("edp_sgd", *fields, num_records=4096))
    summary = choose.account(without)
    assert summary.epsilon == choose.account(known).epsilon
    shown = report(without, summary, None)
    assert (shown["steps"], shown["num_records"]) == (None, None)
    assert shown["epsilon"] == summary.epsilon
    assert report(known, summary, 4096)["steps"] == 30 * 4096 // 64


def test_records_of_a_data_set_at_hand_are_counted(tmp_path, monkeypatch):
    """And without its file the number is asked for."""
    monkeypatch.setenv("SWEEP_HOME", str(tmp_path / "home"))
    data = {k: v for k, v in write_corpus(tmp_path).items() if k != "num_records"}
    parts = parts_of(training={"expected_batch_size": 8}, privacy=_NOISE, **data)
    assert mechanism_of(parts)[0].num_records == 90
    assert parts["data"]["num_records"] == 90, "which the caller shows"
    parts["data"] = {**data, "path": str(tmp_path / "missing.jsonl")}
    with refused("expected --num-records"):
        mechanism_of(parts)


_CENTRAL = {"noise_calibration": "central"}


@pytest.mark.parametrize(
    ("engine", "workers", "privacy", "reasons"),
    [
        ("dp_sgd", 1, {}, []),
        ("sgd", 1, {}, []),
        ("edp_sgd", 4, {"noise_multiplier": 0.0}, []),  # infinite, whatever the reason
        ("edp_sgd", 4, {}, ["4 workers", "2 C"]),
        ("edp_sgd", 1, {}, ["2 C"]),
        ("edp_sgd", 4, _CENTRAL, ["2 C"]),
        ("edp_sgd", 4, {**_CENTRAL, "microbatch_size": 4}, ["2 C"]),
        ("edp_sgd", 4, {**_CENTRAL, "microbatch_size": 1}, ["2 C"]),
        ("edp_sgd", 4, {"group_scale": "public"}, ["4 workers", "2 C", "alpha_k"]),
    ],
)
def test_the_differences_from_the_paper_have_their_reasons(
    engine, workers, privacy, reasons
):
    parts = parts_of(
        engine, {"num_workers": workers}, {"delta": 1e-4, **privacy}, num_records=4096
    )
    mechanism, _ = mechanism_of(parts)
    found = differences(mechanism, choose.account(mechanism))
    for sentence, part in zip(found, reasons, strict=True):
        assert part in sentence
