"""A user's module has no state: what a pass changes and a later one may read is refused."""

from pathlib import Path

import pytest
import yaml

from tests.models.test_own_model import EXAMPLE, here
from tests.tasks.test_nlu_trial import config, place, run
from trainables import saved
from trainables.data.records import NO_INTENT
from trainables.errors import TrialFailed
from trainables.system import checkpoint

__all__ = ["here", "place"]

INIT = "        self.drop = nn.Dropout(0.1)\n"
FORWARD = "        x = self.words(words)\n"
HEADER = """import collections, dataclasses, enum, functools, itertools
import abc, logging, random, re, threading, typing
import numpy as np
import torch
COUNT, TABLE, N, MANY = [0], {}, 0, list(range(40_000))
"""
HELPER = """seen = []

def like(base):
    class Other(base):
        steps = 0
        def forward(self, words):
            type(self).steps += 1
            return super().forward(words)
    Other.__qualname__ = "Other"
    return Other
"""


def code(*, init="", forward="", methods="", header="", build=""):

    def lines(text):
        return "".join(f"        {line}\n" for line in text.splitlines())

    made = EXAMPLE.replace(INIT, INIT + lines(init)).replace(FORWARD, FORWARD + lines(forward))
    made = made.replace("    def forward(", methods + "\n    def forward(", 1)
    if build:
        made = made.replace("    return Tagger(", f"    {build}\n    return Tagger(")
    return HEADER + header + "\n" + made


CASES = yaml.safe_load(Path(__file__).with_name("own_code.yaml").read_text())


def write(here, made):
    (here / "own.py").write_text(made)
    (here / "own_helper.py").write_text(HELPER)


LATE = CASES["late"]


@pytest.mark.parametrize("name", LATE)
@pytest.mark.parametrize("engine", ["edp_sgd", "dp_sgd"])
def test_what_changes_later_ends_the_trial_before_anything_leaves(here, place, name, engine):
    """The checks before a trial know no records of this length."""
    write(here, code(forward=LATE[name]))
    by_torch = engine == "dp_sgd" and name.startswith("a weight in")  # torch.func allows none
    problem = (
        "not allowed"
        if by_torch
        else r"got (own\.COUNT|own\.MANY|tags\.bias|the mode .*) changed by"
    )
    with pytest.raises(RuntimeError if by_torch else TrialFailed, match=problem):
        run(place, here / "trial", own(engine))
    assert not checkpoint.is_there(here / "trial")


def test_buffers_that_stay_are_resumed(here, place):
    write(here, code(**CASES["accepted"]["constants"]))
    run(place, here / "trial", own("dp_sgd"), stop_after=1)
    result, _ = run(place, here / "trial", own("dp_sgd"))
    assert result.epochs_done == 3


def own(engine):
    about = {"factory": "own:build", "word_buckets": 60, "options": {"buckets": 60, "width": 8}}
    return config(engine, model={"name": "module"} | about)


@pytest.mark.parametrize("scores", ["inf", "nan"])
@pytest.mark.parametrize("head", ["tags", "intents"])
def test_scores_that_are_not_finite_are_errors_and_end_no_trial(here, place, scores, head):
    """Records of 3 words have none; the others count, and nothing is said of leakage but why."""
    made = code(forward=f"bad = float('{scores}') if words.shape[1] == 3 else 0.0")
    old = {"tags": "self.tags(x)", "intents": "self.intents(x.mean(dim=1))"}[head]
    write(here, made.replace(old, f"({old} + bad)"))
    result, reports = run(place, here / "trial", own("dp_sgd"))
    assert len(reports) == 3
    assert 0.5 <= result.metrics["ser"] < float("inf")
    assert result.metrics["intent_accuracy"] <= 0.5 + 1e-9
    assert not [name for name in result.metrics if name.startswith("mia_")]
    assert any("not finite" in note for note in result.notes)
    assert not (here / "trial" / "signals.npz").exists()
    found = saved.load(here / "trial", factory="own:build")
    said = found.read([saved.unlabelled(["please", "call", "ann"]), saved.unlabelled(["call"])])
    assert [frame.intent == NO_INTENT for frame in said.frames(found.schema)] == [True, False]
