"""A hundred faults in the privacy core, in a minute; `make mutants` puts others each
time.
"""

import json
import subprocess
import sys

import pytest

from .fixed import WANTED
from .targets import ROOT, targets


@pytest.mark.slow  # a minute; `python -m tests.mutation fixed` runs them alone
def test_a_hundred_fixed_mutants_are_noticed():
    """In a process of its own: it forks, and must not have run a backward pass
    before.
    """
    command = [sys.executable, "-m", "tests.mutation", "fixed"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3_000:]
    rows = json.loads(done.stdout.splitlines()[-1])
    missed = [row["key"] for row in rows if row["outcome"] != "killed"]
    assert not missed, "no longer noticed:\n" + "\n".join(missed)
    killed = sum(row["outcome"] == "killed" for row in rows)
    assert killed >= WANTED, (
        f"{killed} are left of the list: choose it anew (docs/guides/mutants.md)"
    )


def test_sources_in_inner_folders_are_mutated_too():
    names = {target.name for target in targets()}
    assert {
        "trainables/dp/layers/linear.py",
        "trainables/dp/layers/crf/statistics.py",
    } <= names
