"""MLflow's telemetry is off in every process; it reads the setting when imported."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
# MLflow sends nothing from a test or a CI run anyway; a user's process has none of
# these.
_QUIET = ("MLFLOW_", "PYTEST_", "CI", "GITHUB_", "BUILDKITE", "DO_NOT_TRACK", "RUNBOT_")
# A worker and Ray's processes are started by a process that has imported the first of
# these.
_PROGRAM = """
import os, sweep.runtime.runner
print(os.environ["MLFLOW_DISABLE_TELEMETRY"])
import sweep.tracking.mlflow_store
from mlflow.telemetry import get_telemetry_client
print(get_telemetry_client())
"""


@pytest.mark.slow  # imports MLflow in a new process
def test_the_store_and_what_a_sweep_starts_send_nothing(tmp_path):
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(_QUIET)
    }
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM],
        cwd=ROOT,
        env={**environment, "SWEEP_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "true\nNone\n", done.stderr
