"""A sweep on a cluster of two Ray nodes, by its address, with storage that both share."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sweep import ray_session
from sweep.events import RunSettings
from trainables.errors import InvalidInput

# Ray trips over its own deprecations and leaves sockets of its children open.
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
ROOT = Path(__file__).parents[2]
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
def cluster() -> Iterator[Any]:
    """Two nodes of one CPU each: a trial of two workers must lie on both."""
    made = importlib.import_module("ray.cluster_utils").Cluster(
        initialize_head=True, head_node_args={"num_cpus": 1, "object_store_memory": 100_000_000}
    )
    made.add_node(num_cpus=1, object_store_memory=100_000_000)
    yield made
    made.shutdown()


def test_two_nodes_run_one_sweep(cluster: Any, tmp_path: Path) -> None:
    space = tmp_path / "space.yaml"
    space.write_text(SPACE)
    command = ["run", str(space), "--address", cluster.address, "--name", "two", "--json"]
    done = subprocess.run(
        [sys.executable, "-m", "sweep", *command],
        capture_output=True,
        text=True,
        timeout=540,
        cwd=ROOT,
        env={**os.environ, "SWEEP_HOME": str(tmp_path / "home"), "OMP_NUM_THREADS": "1"},
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2_000:]
    assert [trial["status"] for trial in json.loads(done.stdout)["trials"]] == ["done", "done"]
    cards = list((tmp_path / "home" / "two" / "trials").glob("*/result.json"))
    assert {json.loads(card.read_text())["privacy"]["processes"] for card in cards} == {2}


def test_storage_that_a_node_does_not_share_is_one_line(
    cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ray_session.session(RunSettings(address=cluster.address)):
        ray_session.require_shared(tmp_path)
        assert list(tmp_path.iterdir()) == [], "the mark is gone"
        monkeypatch.setattr(ray_session, "_sees", lambda path: False)
        with pytest.raises(InvalidInput, match=r"on storage that every node shares: node .* does"):
            ray_session.require_shared(tmp_path)
