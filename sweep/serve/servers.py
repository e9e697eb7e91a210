"""Runs the servers that show results, MLflow's, Prometheus and Grafana, on loopback."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http import HTTPStatus
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from dashboards import grafana
from sweep.serve import ray_targets
from sweep.settings import Settings
from trainables.errors import InvalidInput, TrialFailed

HOST = "127.0.0.1"
RAY_DASHBOARD_PORTS = range(8265, 8270)  # the preferred port and alternatives
_GRAFANA_HOME = Path("/usr/share/grafana")
_DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def is_open(port: int) -> bool:
    """Whether something listens at a port of the loopback interface."""
    with socket.socket() as probe:
        probe.settimeout(0.5)
        return probe.connect_ex((HOST, port)) == 0


def answers(url: str) -> bool:
    """Whether a web server answers, be it with a refusal."""
    return _status(url) is not None


def has_page(url: str) -> bool:
    """Whether a web server has the page, as one that is ready has."""
    return _status(url) == HTTPStatus.OK


def _open(url: str, *, timeout: float) -> Any:
    """An address of this machine is opened without the environment's proxy, which would look for
    it on its own machine.
    """
    is_here = urlsplit(url).hostname == HOST
    return (_DIRECT.open if is_here else urllib.request.urlopen)(url, timeout=timeout)


def _status(url: str) -> int | None:
    try:
        with _open(url, timeout=2) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as refusal:
        return refusal.code
    except (OSError, HTTPException):  # the latter of a server that speaks something else
        return None


@contextmanager
def mlflow_server(settings: Settings, *, port: int) -> Iterator[str]:
    """MLflow's server on the store of the settings, at the address that this yields.

    A tracking URI that is a server is yielded as it is, and so is a server at the port with the
    same home. A server that was started here ends with the block.

    Raises: InvalidInput where the port is taken, TrialFailed where the server does not come up.
    """
    if settings.tracking_uri.startswith(("http://", "https://")):
        yield settings.tracking_uri
        return
    address = f"http://{HOST}:{port}"
    artifacts = settings.artifacts_dir.as_uri()
    if is_open(port):
        found = mlflow_experiment(address) or {}
        if found.get("artifact_location") == artifacts:
            yield address
            return
        raise InvalidInput(f"port {port} is taken: expected --port to be a free one")
    command = [sys.executable, "-m", "mlflow", "server", "--host", HOST, "--port", str(port)]
    command += ["--workers", "1", "--artifacts-destination", artifacts]
    # Without the first it starts about ten processes for jobs that are never submitted.
    environment = {
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
        "MLFLOW_DISABLE_TELEMETRY": "true",
        # No argument, which every user of this machine could read: it may have a password.
        "MLFLOW_BACKEND_STORE_URI": settings.tracking_uri,
    }
    with _process("mlflow-server", command, settings.home, environment) as (server, log):
        _until_it_answers(server, f"{address}/health", log=log, what="MLflow's server")
        yield address


@contextmanager
def prometheus_server(settings: Settings, *, port: int) -> Iterator[str]:
    """Prometheus, scraping Ray's agents on this machine, as `mlflow_server`.

    Raises: InvalidInput where it is not installed or the port is taken, TrialFailed.
    """
    address = f"http://{HOST}:{port}"
    program = shutil.which("prometheus")
    if is_open(port):
        if has_page(f"{address}/-/ready"):
            yield address
            return
        raise InvalidInput(f"port {port} is taken: expected --prometheus-port to be a free one")
    if program is None:
        raise InvalidInput("not installed (Debian: apt install prometheus)")
    settings.home.mkdir(parents=True, exist_ok=True, mode=0o700)
    folder = settings.home / "prometheus"
    folder.mkdir(exist_ok=True, mode=0o700)
    listed, config = folder / "targets.json", folder / "prometheus.yml"
    config.write_text(grafana.prometheus_config(discovery=listed), encoding="utf-8")
    command = [program, f"--config.file={config}"]
    command += [f"--web.listen-address={HOST}:{port}"]
    command += [f"--storage.tsdb.path={folder / 'data'}"]
    with (
        ray_targets.follow_targets(listed),
        _process("prometheus", command, settings.home, {}) as (server, log),
    ):
        _until_it_answers(server, f"{address}/-/ready", log=log, what="Prometheus", wait=60.0)
        yield address


@contextmanager
def grafana_server(settings: Settings, *, port: int, prometheus: str) -> Iterator[str]:
    """Grafana with the sweep's dashboard on `prometheus` data; yields the dashboard's address.

    Raises: InvalidInput where it is not installed or the port is taken, TrialFailed.
    """
    program = shutil.which("grafana") or shutil.which("grafana-server")
    if program is None:
        raise InvalidInput("not installed (files for it: `sweep ui --write-dashboards DIR`)")
    if is_open(port):
        raise InvalidInput(f"port {port} is taken: expected --grafana-port to be a free one")
    folder = settings.home / "grafana"
    grafana.write(folder)
    command = [program, "server"] if Path(program).name == "grafana" else [program]
    command += ["--homepath", os.environ.get("GF_PATHS_HOME", str(_GRAFANA_HOME))]
    environment = {
        "GF_SERVER_HTTP_ADDR": HOST,
        "GF_SERVER_HTTP_PORT": str(port),
        "GF_PATHS_DATA": str(folder / "data"),
        "GF_PATHS_LOGS": str(folder / "logs"),
        "GF_PATHS_PROVISIONING": str(folder / "grafana" / "provisioning"),
        "GF_AUTH_ANONYMOUS_ENABLED": "true",  # on loopback and read-only
        "GF_AUTH_ANONYMOUS_ORG_ROLE": "Viewer",
        "GF_ANALYTICS_REPORTING_ENABLED": "false",
        "GF_ANALYTICS_CHECK_FOR_UPDATES": "false",
        "SWEEP_DASHBOARDS": str(folder / "grafana" / "dashboards"),
        "SWEEP_PROMETHEUS": prometheus,
    }
    address = f"http://{HOST}:{port}"
    with _process("grafana", command, settings.home, environment) as (server, log):
        _until_it_answers(server, f"{address}/api/health", log=log, what="Grafana")
        yield f"{address}/d/{grafana.UID}"


def mlflow_experiment(address: str) -> dict[str, Any] | None:
    """The experiment of all sweeps at an MLflow server; None without it, or for another server."""
    query = f"{address}/api/2.0/mlflow/experiments/get-by-name?experiment_name=sweeps"
    try:
        with _open(query, timeout=5) as answer:
            found = json.load(answer).get("experiment")
    except (OSError, HTTPException, ValueError, AttributeError):
        return None
    return found if isinstance(found, dict) else None


def ray_dashboards() -> list[str]:
    """Addresses of the running dashboards of Ray, one for each running sweep."""
    found = [f"http://{HOST}:{port}" for port in RAY_DASHBOARD_PORTS if is_open(port)]
    return [address for address in found if answers(address)]


@contextmanager
def _process(
    name: str, command: list[str], home: Path, environment: dict[str, str]
) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    """Run a program during the block, with a log in `home`; its children end with it."""
    home.mkdir(parents=True, exist_ok=True, mode=0o700)
    log = home / f"{name}.log"
    with log.open("w", encoding="utf-8") as output:
        server = subprocess.Popen(
            command,
            env={**os.environ, **environment},
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=home,
            start_new_session=True,  # Ctrl-C is for us; we end it ourselves
        )
    try:
        yield server, log
    finally:
        with suppress(ProcessLookupError):
            os.killpg(server.pid, signal.SIGTERM)
        try:
            server.wait(10)
        except subprocess.TimeoutExpired:
            with suppress(ProcessLookupError):
                os.killpg(server.pid, signal.SIGKILL)
            server.wait()


def _until_it_answers(
    server: subprocess.Popen[bytes], url: str, *, log: Path, what: str, wait: float = 90.0
) -> None:
    deadline = time.monotonic() + wait
    while not has_page(url):
        if server.poll() is not None or time.monotonic() > deadline:
            raise TrialFailed(f"{what} did not start; its log is {log}")
        time.sleep(0.2)
