"""MLflow's telemetry is off in every process; it reads the setting when imported."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
# MLflow sends nothing from a test or a CI run anyway; a user's process has none of these.
_QUIET = ("MLFLOW_", "PYTEST_", "CI", "GITHUB_", "BUILDKITE", "DO_NOT_TRACK", "RUNBOT_")
_CLIENT = "from mlflow.telemetry import get_telemetry_client\nassert get_telemetry_client() is None"
_STORE = """
import sweep.tracking.mlflow_store
import mlflow
"""


def run(program, home):
    environment = {name: value for name, value in os.environ.items() if not name.startswith(_QUIET)}
    return subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        env={**environment, "SWEEP_HOME": str(home)},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_store_sends_nothing(tmp_path):
    done = run(_STORE + _CLIENT, tmp_path)
    assert done.returncode == 0, done.stderr


def test_what_a_sweep_starts_inherits_it(tmp_path):
    """Workers and Ray's processes are started by a process that has imported this."""
    program = "import os, sweep.runtime.runner; print(os.environ['MLFLOW_DISABLE_TELEMETRY'])"
    assert run(program, tmp_path).stdout == "true\n"
