"""A sweep on a cluster of two Ray nodes, by its address, with storage that both
share.
"""

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from sweep.runtime import ray_session
from sweep.runtime.events import RunSettings
from sweep.store.sweeps import SweepFolder
from tests.libraries import IGNORED
from tests.refusals import refused

pytestmark = [pytest.mark.slow, *IGNORED]
ROOT = Path(__file__).parents[3]
SPACE = """
base:
  data: {name: communication, num_utterances: 2000}
  model: {name: clc, hidden_size: 16, num_layers: 1, word_buckets: 256, char_filters: 8}
  training: {epochs: 2, num_workers: 2, expected_batch_size: 64}
  evaluation: {attacks: [], bootstrap_samples: 0}
axes:
  privacy.noise_multiplier: [0.01, 0.1]
resources: {workers: 2}
"""


@pytest.fixture(scope="module")
def cluster():
    """Two nodes of one CPU each: a trial of two workers must lie on both."""
    made = importlib.import_module("ray.cluster_utils").Cluster(
        initialize_head=True,
        head_node_args={
            "num_cpus": 1,
            "object_store_memory": 100_000_000,
            "include_dashboard": True,  # it takes jobs
        },
    )
    made.add_node(num_cpus=1, object_store_memory=100_000_000)
    yield made
    made.shutdown()


def run(cluster, place, text, name, *options):
    """`sweep run` with a home in `place`, which has ended."""
    space = place / "space.yaml"
    space.write_text(text)
    command = [
        "run",
        str(space),
        "--address",
        cluster.address,
        "--name",
        name,
        *options,
    ]
    return subprocess.run(
        [sys.executable, "-m", "sweep", *command],
        capture_output=True,
        text=True,
        timeout=540,
        cwd=ROOT,
        env={**os.environ, "SWEEP_HOME": str(place / "home"), "OMP_NUM_THREADS": "1"},
        check=False,
    )


def test_two_nodes_run_one_sweep(cluster, tmp_path):
    done = run(cluster, tmp_path, SPACE, "two", "--json")
    assert done.returncode == 0, done.stderr[-2_000:]
    assert [trial["status"] for trial in json.loads(done.stdout)["trials"]] == [
        "done",
        "done",
    ]
    folder = SweepFolder(tmp_path / "home" / "two")
    said = [record.privacy.workers for record in folder.records() if record.privacy]
    assert said == ["2 workers, each a process of its own"] * 2


def test_a_submitted_job_runs_a_sweep(cluster, tmp_path):
    """`ray job submit`, as the guide prints it."""
    space = tmp_path / "space.yaml"
    space.write_text(SPACE)
    environment = {
        "SWEEP_HOME": str(tmp_path / "home"),
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": str(ROOT),
    }
    job = [sys.executable, "-m", "sweep", "run", str(space), "--name", "job"]
    runtime = json.dumps({"env_vars": environment})
    done = subprocess.run(
        [
            *(sys.executable, "-m", "ray.scripts.scripts", "job", "submit"),
            *("--address", f"http://{cluster.webui_url}"),
            *("--runtime-env-json", runtime),
            *("--", *job, "--address", cluster.address),
        ],
        capture_output=True,
        text=True,
        timeout=540,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2_000:]
    records = SweepFolder(tmp_path / "home" / "job").records()
    assert [str(record.status) for record in records] == ["done", "done"]


def test_storage_that_a_node_does_not_share_is_one_line(cluster, tmp_path, monkeypatch):
    """Both nodes have one address: each is asked all the same."""
    home, data = tmp_path / "home", tmp_path / "data"
    data.mkdir()
    (data / "atis").mkdir()
    asked = []
    with ray_session.session(RunSettings(address=cluster.address)):
        ray_session.require_shared([home], reads=tmp_path / "none")
        ray_session.require_shared([home], reads=data)
        assert list(home.iterdir()) == [], "the mark is gone"
        real = ray_session._unseen

        def one_blind(expected):
            node = importlib.import_module("ray").get_runtime_context().get_node_id()
            return data / "atis" if node == blind else None

        for node in importlib.import_module("ray").nodes():
            blind = node["NodeID"]
            asked.append(blind)
            monkeypatch.setattr(ray_session, "_unseen", one_blind)
            with refused(rf"{data} to be on .* node {blind[:8]} .* sees other"):
                ray_session.require_shared([home], reads=data)
        monkeypatch.setattr(ray_session, "_unseen", real)
        (data / "snips").mkdir()
        ray_session.require_shared([home], reads=data)
    assert len(asked) == 2


def test_a_node_that_does_not_answer_is_one_line(cluster, tmp_path, monkeypatch):
    def asleep(expected):
        importlib.import_module("time").sleep(30)

    for name, value in {"_unseen": asleep, "_ANSWER_SECONDS": 3.0}.items():
        monkeypatch.setattr(ray_session, name, value)
    with (
        ray_session.session(RunSettings(address=cluster.address)),
        refused(r"answer within 3 seconds, got GetTimeoutError from node "),
    ):
        ray_session.require_shared([tmp_path], reads=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_workers_that_do_not_fit_the_cluster_leave_the_name_free(cluster, tmp_path):
    space = SPACE.replace("{workers: 2}", "{workers: 2, slots: 9}")
    done = run(cluster, tmp_path, space, "wide")
    assert done.returncode == 2
    *progress, error = done.stderr.splitlines()
    assert progress[0] == "starting Ray ..."
    assert error.startswith(
        "error: expected slots * workers * cpus_per_worker <= 2 CPUs"
    )
    assert not (tmp_path / "home" / "wide").exists()
