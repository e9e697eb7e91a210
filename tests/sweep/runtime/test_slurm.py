"""The Slurm recipe: what it names exists, and on one machine it runs, stops and goes
on.
"""

import os
import pkgutil
import re
import subprocess
import sys
from importlib import resources
from pathlib import Path

import pytest

from sweep import commands
from sweep.store.sweeps import open_sweep
from tests.sweep.sweeps import statuses
from tests.tiny_space import write_tiny_space

RECIPE = Path(str(resources.files("sweep"))) / "deploy" / "slurm.sbatch"
TEXT = RECIPE.read_text()
# Options of sbatch (Slurm 24.05).
SBATCH = {
    *(
        "array",
        "cpus-per-task",
        "gpus-per-task",
        "job-name",
        "mem",
        "nodes",
        "ntasks-per-node",
    ),
    *("output", "partition", "requeue", "signal", "time"),
}


def test_it_is_bash_and_names_options_and_commands_that_exist():
    subprocess.run(["bash", "-n", str(RECIPE)], check=True)
    given = set(re.findall(r"^#SBATCH --([\w-]+)=", TEXT, flags=re.MULTILINE))
    assert given <= SBATCH
    assert {"nodes", "ntasks-per-node", "signal", "time"} <= given
    known = {module.name for module in pkgutil.iter_modules(commands.__path__)}
    assert set(re.findall(r"\bsweep (resume|run|stop)\b", TEXT)) <= known
    assert all(
        line.startswith("#SBATCH")
        for line in TEXT.splitlines()
        if "SBATCH --" in line[:10]
    )


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_ray_knows_the_command_and_the_options_it_passes_on():
    from ray.scripts import scripts

    assert "symmetric-run" in scripts.cli.commands
    options = {name for each in scripts.start.params for name in each.opts}
    (passed,) = re.findall(
        r"symmetric-run (.*?) -- ", TEXT.replace("\\\n", " "), flags=re.DOTALL
    )
    assert set(re.findall(r"(--[\w-]+) ", passed)) - {"--min-nodes"} <= options


STUBS = {
    "scontrol": "echo 127.0.0.1",
    "srun": 'while [[ "$1" == --* ]]; do shift; done; exec "$@"',
}


@pytest.mark.slow  # starts Ray twice and trains
def test_on_one_machine_it_runs_a_sweep_and_is_submitted_again(tmp_path):
    """Slurm's own commands are stood in for: one node, and `srun` runs what it is
    given.
    """
    stubs, shared = tmp_path / "bin", tmp_path / "shared"
    stubs.mkdir()
    shared.mkdir()
    for name, line in STUBS.items():
        (stubs / name).write_text(f"#!/bin/bash\n{line}\n")
        (stubs / name).chmod(0o755)
    write_tiny_space(tmp_path / "tiny_space.yaml", epochs=2)
    environment = {
        **os.environ,
        "PATH": os.pathsep.join(
            [str(stubs), str(Path(sys.executable).parent), os.defpath]
        ),
        "SHARED": str(shared),
        "SLURM_JOB_ID": "1234567",
        "SLURM_JOB_NODELIST": "node[1]",
        "SLURM_JOB_NUM_NODES": "1",
        "SLURM_CPUS_PER_TASK": "2",
    }
    for name in ("SWEEP_HOME", "SWEEP_DATA_DIR", "RAY_ADDRESS"):
        environment.pop(name, None)
    for _ in range(2):
        done = subprocess.run(
            ["bash", str(RECIPE), "tiny_space.yaml"],
            cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=400,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert "Running command on head node" in done.stdout
    folder = open_sweep(shared / "sweeps", "tiny-space")
    assert statuses(folder) == ["done"]
    assert [len(folder.epochs(record.plan.id)) for record in folder.records()] == [2]
    assert "resume" in done.stdout
    assert not list((shared / "sweeps").glob(".ray-token.*"))
