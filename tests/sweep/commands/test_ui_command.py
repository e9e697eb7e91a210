"""`sweep ui`: a missing server or taken port gives one line; servers end with the command."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from dashboards import grafana
from sweep.cli import run
from sweep.serve import ray_targets, servers
from sweep.serve.places import Places, looking
from tests.sweep.sweeps import settings_in
from trainables.errors import InvalidInput


def free_port() -> int:
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def listening() -> Iterator[int]:
    """Something at a port that is no web server."""
    with closing(socket.socket()) as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        thread = threading.Thread(target=_hang_up, args=[taken], daemon=True)
        thread.start()
        yield int(taken.getsockname()[1])


def _hang_up(taken: socket.socket) -> None:
    while True:
        try:
            taken.accept()[0].close()
        except OSError:
            return


def test_the_files_for_grafana_are_written_without_starting_anything(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["ui", "--write-dashboards", str(tmp_path), "--json"]) == 0
    written = json.loads(capsys.readouterr().out)["written"]
    kept = {path for path in grafana.PROVISIONED.rglob("*") if path.is_file()}
    assert set(map(Path, written)) == {
        tmp_path / path.relative_to(grafana.PROVISIONED) for path in kept
    }
    dashboard = tmp_path / "grafana/dashboards/sweep.json"
    assert json.loads(dashboard.read_text())["uid"] == grafana.UID


def test_a_taken_port_is_refused_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SWEEP_HOME", str(tmp_path))
    with listening() as port:
        assert run(["ui", "--port", str(port)]) == 2
    said = capsys.readouterr().err
    assert f"port {port} is taken: expected --port to be a free one" in said
    assert len(said.strip().splitlines()) == 1


def test_a_missing_part_is_a_line_and_not_the_end(
    tmp_path: Path, silent_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    @contextmanager
    def mlflow(settings: Any, *, port: int) -> Iterator[str]:
        yield "http://127.0.0.1:1"

    monkeypatch.setattr(servers, "mlflow_server", mlflow)
    monkeypatch.setattr(shutil, "which", lambda name: None)
    ports = dict.fromkeys(("mlflow", "prometheus", "grafana"), silent_port)
    with looking(settings_in(tmp_path), ports=ports) as found:
        assert found.summary()["prometheus"] is None
        assert set(found.missing) == {"prometheus", "grafana"}
        lines = "\n".join(found.lines())
    assert "Prometheus     not installed" in lines
    assert "Grafana        not installed" in lines


def test_a_taken_port_of_prometheus_is_reported(tmp_path: Path) -> None:
    with listening() as port, pytest.raises(InvalidInput, match="--prometheus-port"):
        servers.prometheus_server(settings_in(tmp_path), port=port).__enter__()


def test_addresses_are_printed_with_each_sweeps_views() -> None:
    found = Places(mlflow="http://m", ray=["http://r"], views={"s": {"trials": "http://m/#/x"}})
    text = "\n".join(found.lines())
    assert found.lines()[0] == "MLflow         http://m/#/x"  # the table, not MLflow's home
    assert Places(mlflow="http://m").lines()[0] == "MLflow         http://m"
    assert "ray get-auth-token" in text
    assert "`sweep report s`" in text
    assert "  trials: http://m/#/x" in text


def test_what_listens_in_any_of_rays_sessions_is_scraped(tmp_path: Path, silent_port: int) -> None:
    with listening() as port:
        for name, target in (("a", f"127.0.0.1:{port}"), ("b", f"127.0.0.1:{silent_port}")):
            session = tmp_path / f"session_{name}"
            session.mkdir()
            document = [{"labels": {"job": "ray"}, "targets": [target]}]
            (session / "prom_metrics_service_discovery.json").write_text(json.dumps(document))
        broken = tmp_path / "session_c"
        broken.mkdir()
        (broken / "prom_metrics_service_discovery.json").write_text("{")
        listed = tmp_path / "targets.json"
        with ray_targets.follow_targets(listed, folder=tmp_path, seconds=0.05):
            [group] = json.loads(listed.read_text())
            assert group["targets"] == [f"127.0.0.1:{port}"]
            shutil.rmtree(tmp_path / "session_a")
            deadline = time.monotonic() + 60
            while json.loads(listed.read_text())[0]["targets"]:
                assert time.monotonic() < deadline
                time.sleep(0.02)


@pytest.mark.slow  # MLflow's server takes 8 seconds and more
def test_everything_that_is_started_answers_and_ends_with_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SWEEP_HOME", str(tmp_path))
    ports = [free_port() for _ in range(3)]
    named = ("--port", "--prometheus-port", "--grafana-port")
    options = [word for pair in zip(named, map(str, ports), strict=True) for word in pair]
    command = [sys.executable, "-m", "sweep", "ui", *options, "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        text = ""
        while not text.rstrip().endswith("\n}"):
            text += process.stdout.readline()
        found = json.loads(text)
        assert servers.answers(f"{found['mlflow']}/health")
        if shutil.which("prometheus"):
            assert servers.answers(f"{found['prometheus']}/-/ready")
        else:
            assert "not installed" in found["missing"]["prometheus"]
        process.terminate()
        assert process.wait(60) == 0
    deadline = time.monotonic() + 10
    while any(servers.is_open(port) for port in ports):
        assert time.monotonic() < deadline
        time.sleep(0.1)
