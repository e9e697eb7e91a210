"""MLflow's server on loopback, and the addresses of Ray's dashboards on this machine."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPException
from typing import Any
from urllib.parse import urlsplit

from sweep.settings import Settings
from trainables.errors import InvalidInput, TrialFailed
from trainables.files import make_folder

HOST = "127.0.0.1"
RAY_DASHBOARD_PORTS = range(8265, 8270)  # the preferred port and alternatives
_DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))
_PATIENCE = 90.0  # seconds for MLflow's server to answer


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
    if _is_open(port):
        found = mlflow_experiment(address) or {}
        if found.get("artifact_location") == artifacts:
            yield address
            return
        raise InvalidInput(f"port {port} is taken: expected --port to be a free one")
    command = [sys.executable, "-m", "mlflow", "server", "--host", HOST, "--port", str(port)]
    command += ["--workers", "1", "--artifacts-destination", artifacts]
    environment = {
        # Without it the server starts about ten processes for jobs that are never submitted.
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
        "MLFLOW_DISABLE_TELEMETRY": "true",
        # No argument, which every user of this machine could read: it may have a password.
        "MLFLOW_BACKEND_STORE_URI": settings.tracking_uri,
    }
    make_folder(settings.home)
    log = settings.home / "mlflow-server.log"
    with log.open("w", encoding="utf-8") as output:
        server = subprocess.Popen(
            command,
            env={**os.environ, **environment},
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=settings.home,
            start_new_session=True,  # Ctrl-C is for us; we end it ourselves
        )
    try:
        deadline = time.monotonic() + _PATIENCE
        while _status(f"{address}/health") != 200:
            if server.poll() is not None or time.monotonic() > deadline:
                raise TrialFailed(f"MLflow's server did not start; its log is {log}")
            time.sleep(0.2)
        yield address
    finally:
        _end_group(server)


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
    found = [f"http://{HOST}:{port}" for port in RAY_DASHBOARD_PORTS if _is_open(port)]
    return [address for address in found if _status(address) is not None]


def _is_open(port: int) -> bool:
    """Whether something listens at a port of the loopback interface."""
    with socket.socket() as probe:
        probe.settimeout(0.5)
        return probe.connect_ex((HOST, port)) == 0


def _open(url: str, *, timeout: float) -> Any:
    """An address of this machine is opened without the environment's proxy, which would look for
    it on its own machine.
    """
    is_here = urlsplit(url).hostname == HOST
    return (_DIRECT.open if is_here else urllib.request.urlopen)(url, timeout=timeout)


def _status(url: str) -> int | None:
    """A web server's status for a page; None where nothing that speaks HTTP answers."""
    try:
        with _open(url, timeout=2) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as refusal:
        return refusal.code
    except (OSError, HTTPException):  # the latter of a server that speaks something else
        return None


def _end_group(server: subprocess.Popen[bytes]) -> None:
    """End a server and the processes that it has started."""
    with suppress(ProcessLookupError):
        os.killpg(server.pid, signal.SIGTERM)
    try:
        server.wait(10)
    except subprocess.TimeoutExpired:
        with suppress(ProcessLookupError):
            os.killpg(server.pid, signal.SIGKILL)
        server.wait()
