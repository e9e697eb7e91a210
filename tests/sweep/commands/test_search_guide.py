"""The commands that the guide about searching prints."""

import re
import shlex
from pathlib import Path

import pytest

import sweep
from tests.sweep.untracked import run_untracked

GUIDE = Path(sweep.__file__).parents[1] / "docs/guides/search.md"
LINES = [
    line
    for block in re.findall(r"```sh\n(.*?)```", GUIDE.read_text("utf-8"), re.DOTALL)
    for line in block.splitlines()
]


def words_of(line):
    command, *words = shlex.split(line, comments=True)
    assert command == "sweep"
    return words


@pytest.mark.parametrize("line_", [x for x in LINES if x.startswith("sweep plan")])
def test_a_plan_is_made(line_, place, line):
    found = line.facts(*words_of(line_))
    assert found["num_trials"] > 2


def test_a_sweep_is_extended(place, line, toy_trials, monkeypatch):
    monkeypatch.setenv("SWEEP_TRACKING", "none")
    axes = {"privacy.noise_multiplier": [0.5]}
    base = {"engine": "edp_sgd"}
    folder = run_untracked(place, name="mine", variants=[], base=base, axes=axes)
    (command,) = [x for x in LINES if x.startswith("sweep extend")]
    assert line(*words_of(command))[0] == 0
    noises = [r.plan.values["privacy.noise_multiplier"] for r in folder.records()]
    assert noises == [0.5, 0.01, 0.1]
