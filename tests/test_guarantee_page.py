"""The page for the signer: its code checks real cards, and what it names exists."""

import json
import re
import sys
from dataclasses import replace

import pytest

from sweep.results.export import require_certified
from tests.accountants._mechanisms import mechanism
from tests.refusals import refused
from tests.structure import ROOT
from trainables.cards.card import make, read
from trainables.config.mechanism import build
from trainables.config.trial import parse
from trainables.dp.accounting.certification import certify
from trainables.dp.accounting.choose import account
from trainables.dp.accounting.releases import Gaussian, Sampled, Training
from trainables.dp.engines._check import TOLERANCE
from trainables.errors import InvalidData

PAGE = (ROOT / "docs/guides/guarantee.md").read_text()
(CODE,) = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
FULL = {"engine": "dp_sgd", "privacy": {"sampling": "full", "noise_multiplier": 4.649}}
STEPS = {**FULL, "privacy": {"sampling": "poisson", "noise_multiplier": 1.0}}
CASES = {
    "poisson": mechanism("dp_sgd", epochs=2),
    "decay": mechanism("dp_sgd", decay="linear", tau=0.3, epochs=2),
    "paper": mechanism(),
    "central": mechanism(sampling="poisson", noise_calibration="central", epochs=1),
    "full": build(parse({**FULL, "training": {"steps": 60}}), num_records=2_560),
    # The dearest part is that of validation and test records.
    "held out": replace(
        mechanism("dp_sgd", workers=1, epochs=2), split="hash 1", held_out_noise=1.2
    ),
    "steps": build(
        parse({**STEPS, "training": {"steps": 103, "evaluate_every": 20}}),
        num_records=2_560,
    ),
}


def test_the_code_is_short_and_needs_nothing_of_ours():
    assert sum(bool(line) for line in CODE.splitlines()) <= 20
    assert "trainables" not in CODE


@pytest.mark.parametrize(
    "name",
    # The steps and epochs of one noise are "poisson", too.
    [
        pytest.param(n, marks=[pytest.mark.slow] * (n in ("central", "steps")))
        for n in CASES
    ],
)
def test_a_card_is_checked_by_hand(name, tmp_path, monkeypatch, capsys):
    built = CASES[name]
    summary = account(built)
    card = make(built, summary, trial_id="t", corpus="atis", processes=1)
    file = tmp_path / "privacy_card.json"
    file.write_text(json.dumps(card.to_dict()))
    monkeypatch.setattr(sys, "argv", ["check.py", str(file)])
    exec(CODE, {})
    by_hand, claimed = map(float, capsys.readouterr().out.split())
    assert claimed == summary.epsilon
    assert claimed * 0.99 <= by_hand <= claimed * 1.01


def test_by_hand_random_allocation_has_an_upper_bound(tmp_path, monkeypatch, capsys):
    built = mechanism("dp_sgd", sampling="random_allocation", epochs=2)
    card = make(built, account(built), trial_id="t", corpus="atis", processes=1)
    file = tmp_path / "privacy_card.json"
    file.write_text(json.dumps(card.to_dict()))
    monkeypatch.setattr(sys, "argv", ["check.py", str(file)])
    exec(CODE, {})
    by_hand, claimed = map(float, capsys.readouterr().out.split())
    assert claimed <= by_hand


@pytest.mark.parametrize(
    "step",
    [
        Gaussian(sigma=0.05),
        Gaussian(sigma=1.0),
        Sampled(sigma=0.7, rate=1e-3, count=300),  # the largest of a grid
        Sampled(sigma=1.0, rate=0.025, count=300),
    ],
)
def test_the_tolerance_of_a_norm_costs_what_the_page_says(step):
    (percent,) = re.findall(r"would cost up to ([\d.]+) % more", PAGE)
    exact, moved = (
        certify(
            Training(
                steps=(replace(step, sigma=step.sigma / (1 + over)),),
                neighboring_relation="add_or_remove_one",
            ),
            delta=1e-5,
        ).epsilon
        for over in (0.0, TOLERANCE)
    )
    assert exact < moved <= exact * (1 + float(percent) / 100)


def test_no_export_claims_less_than_its_mechanism_costs(tmp_path):
    built = CASES["paper"]
    made = make(built, account(built), trial_id="t", corpus="atis", processes=1)
    card = read(json.loads(json.dumps(made.to_dict())), where="a card")
    for rounded in (1.0, 1 - 1e-7):  # as another machine may
        require_certified(
            card.model_copy(update={"epsilon": rounded * card.epsilon}), tmp_path
        )
    with refused(
        "to claim epsilon 581.*, which its mechanism costs, got 580", InvalidData
    ):
        require_certified(
            card.model_copy(update={"epsilon": 0.999 * card.epsilon}), tmp_path
        )


def test_what_enforces_an_assumption_exists():
    found = re.findall(
        r"`(?:(trainables|sweep|tests)/)?([\w/]+\.py)(?:: ([\w.]+))?`", PAGE
    )
    assert len(found) > 20
    for house, path, name in found:
        file = ROOT / house / path if house else ROOT / "trainables/dp" / path
        text = file.read_text()
        assert re.search(rf"(def|class) {name.rpartition('.')[2]}\b", text), (
            f"{path}: {name}"
        )
