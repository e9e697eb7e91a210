"""Trials of versions whose bounds read the longest record of a batch are named with
their data.
"""

from dataclasses import replace

import pytest

from sweep.planning import earlier_bounds
from sweep.planning.earlier_bounds import LONG, affected
from sweep.store import sweeps as store
from tests.lines import write_lines
from tests.sweep.logs import rewrite_sweep
from tests.sweep.sweeps import NUM_RECORDS, prepared_in, settings_in, write_corpus
from tests.sweep.untracked import run_untracked
from trainables.config.trial import parse


def with_longest(folder, words):
    """The toy's corpus, its last record of so many words."""
    write_corpus(folder)
    rows = [
        {"tokens": ["call", f"person{n}"], "tags": ["O", "B-contact"], "intent": "call"}
        for n in range(NUM_RECORDS)
    ]
    rows[-1] = {"tokens": ["now"] * words, "tags": ["O"] * words, "intent": "text"}
    write_lines(folder / "mine.jsonl", rows)


def affected_in(folder):
    settings = settings_in(folder)
    return affected(store.sweeps(settings.home), settings)


@pytest.fixture
def line_in(tmp_path, monkeypatch, line):
    monkeypatch.setenv("SWEEP_HOME", str(settings_in(tmp_path).home))
    monkeypatch.setenv("SWEEP_DATA_DIR", str(tmp_path))
    return line


def test_finished_trials_beside_a_long_record_are_named(tmp_path, line_in):
    with_longest(tmp_path, LONG)
    folder = run_untracked(tmp_path)
    private = [trial.id for trial in folder.plan().trials if trial.engine != "sgd"]
    (found,) = affected_in(tmp_path)
    assert (found.sweep, sorted(found.trials)) == (folder.name, sorted(private))
    assert found.longest == LONG
    (row,) = line_in.facts("ledger")["affected"]
    assert row["longest"] == LONG
    said = " ".join(line_in.says("ledger").split())
    assert (
        "may be larger than said: an earlier version let one record move the others"
        in said
    )
    assert f"their corpus has a record of {LONG} words" in said
    (tmp_path / "mine.jsonl").unlink()
    (found,) = affected_in(tmp_path)
    assert found.longest is None
    assert "not at hand" in found.reason


@pytest.mark.parametrize("what", ["a short record", "units compared alone"])
def test_others_are_not(tmp_path, line_in, what):
    with_longest(tmp_path, LONG - 1 if what == "a short record" else LONG)
    folder = run_untracked(tmp_path)
    if what == "units compared alone":
        checked = {"verdict": "pass", "tolerance": 1e-4, "alone": True}
        rewrite_sweep(folder, "ended", lambda e: with_check(e, checked))
    assert line_in.facts("ledger")["affected"] == []


def test_a_check_of_an_earlier_version_says_nothing(tmp_path):
    with_longest(tmp_path, LONG)
    folder = run_untracked(tmp_path)
    rewrite_sweep(
        folder, "ended", lambda e: with_check(e, {"verdict": "pass", "tolerance": 1e-4})
    )
    assert len(affected_in(tmp_path)) == 1


def with_check(entry, check):
    """An entry of a trial that has ended, its card with this comparison of clipped
    sums.
    """
    entry["result"]["privacy"]["clipping_check"] = check
    return entry


@pytest.mark.parametrize(
    ("model", "precision", "named"),
    [
        ({"name": "lora"}, "bf16", True),
        ({"name": "lora"}, "fp32", False),
        ({"name": "bert"}, "bf16", False),
    ],
)
def test_padding_mattered_to_foreign_models_in_bfloat16(
    tmp_path, model, precision, named
):
    write_corpus(tmp_path)
    (trial, *_) = prepared_in(tmp_path).plan.to_run[1:]
    document = trial.config.model_dump(mode="json")
    document |= {"model": model}
    document["training"] |= {"precision": precision}
    changed = replace(trial, origin=parse(document))
    why = earlier_bounds._reason(changed, settings_in(tmp_path))
    assert (why is not None) == named
