"""Epsilon 0: a trial of the predictions from names, before any private record is read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.tasks.test_heads_trial import FIELDS, trial
from trainables import evidence
from trainables.cards import card as cards
from trainables.config import parse
from trainables.data.split import Split
from trainables.result import TrialResult
from trainables.system.communication import Alone
from trainables.tasks import _setup
from trainables.trial import run


def prior(folder: Path, cache: Path, **fields: Any) -> TrialResult:
    config = {name: FIELDS[name] for name in ("data", "model")}
    return run(
        parse({**config, "engine": "untrained", **fields}),
        folder=folder,
        comm=Alone(),
        report=lambda _: True,
        data_dir=folder,
        cache_dir=cache,
    )


def test_it_is_the_error_that_a_trained_trial_begins_with(tmp_path, cache):
    found = prior(tmp_path / "prior", cache)
    before = trial(tmp_path / "trained", cache).metrics["ser_before_training"]
    assert found.metrics["ser"] == before
    assert "ser_before_training" not in found.metrics
    assert found.metrics["epsilon"] == 0.0
    assert found.metrics["epsilon_replace_one"] == 0.0
    assert not [name for name in found.metrics if name.startswith("mia_")]
    assert any("no attack" in note for note in found.notes)
    assert found.privacy.attacks == ()
    assert found.privacy.step_audit is None


def test_no_training_record_reaches_what_it_leaves(tmp_path, cache, monkeypatch):
    """With other training records, and with almost none, the weights are the same bytes."""
    make, seen = _setup.make_split, []

    def other(*args: Any, **named: Any) -> Split:
        split = make(*args, **named)
        seen.append(len(split.train))
        return Split(split.train[:3], split.validation, split.test)

    whole = prior(tmp_path / "whole", cache)
    monkeypatch.setattr(_setup, "make_split", other)
    few = prior(tmp_path / "few", cache)
    assert seen
    assert seen[0] > 3
    weights = [
        (tmp_path / name / "model" / "weights.safetensors").read_bytes()
        for name in ("whole", "few")
    ]
    assert weights[0] == weights[1]
    assert whole.metrics["ser"] == few.metrics["ser"]


def test_the_error_before_training_is_found_once(tmp_path, cache):
    """A trial that is taken up again reads it: by then it may have other weights at hand."""
    first = trial(tmp_path, cache).metrics["ser_before_training"]
    assert evidence.read_before(tmp_path) == first
    evidence.write_before(tmp_path, 0.125)
    again = trial(tmp_path, cache).metrics
    assert again["ser_before_training"] == 0.125
    (tmp_path / evidence.BEFORE).write_text("{")
    assert evidence.read_before(tmp_path) is None


def test_its_card_says_that_nothing_was_read():
    from trainables.accountants import account
    from trainables.privacy.from_config import build

    made = build(parse({"engine": "untrained", "model": {"name": "features"}}), num_records=2_560)
    found = cards.make(made, account(made), trial_id="t", corpus="")
    assert "No record was trained on" in found.guarantee
    assert "Epsilon is 0" in found.guarantee
    assert found.randomness == ("nothing was drawn",)
    assert found.epsilon == 0.0
