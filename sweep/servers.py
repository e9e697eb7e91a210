"""Starting what shows results: MLflow's server, on loopback, for as long as it is wanted."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sweep.settings import Settings
from trainables.errors import InvalidInput, TrialFailed

HOST = "127.0.0.1"
RAY_DASHBOARD_PORT = 8265


def is_open(port: int) -> bool:
    """Whether something listens at a port of the loopback interface."""
    with socket.socket() as probe:
        probe.settimeout(0.5)
        return probe.connect_ex((HOST, port)) == 0


def answers(url: str) -> bool:
    """Whether a web server answers."""
    try:
        with urllib.request.urlopen(url, timeout=2):
            return True
    except urllib.error.HTTPError:
        return True
    except OSError:
        return False


def require_answer(uri: str, *, timeout: float = 5.0) -> None:
    """Check that a tracking server is there.

    Raises: InvalidInput where it does not answer.
    """
    if not uri.startswith(("http://", "https://")):
        return
    try:
        with urllib.request.urlopen(f"{uri.rstrip('/')}/health", timeout=timeout) as answer:
            answer.read(64)
    except urllib.error.HTTPError:
        return  # it answers; what it serves at this path is its own affair
    except (OSError, ValueError) as problem:
        reason = getattr(problem, "reason", None) or type(problem).__name__
        raise InvalidInput(f"tracking server {uri} does not answer ({reason})") from None


@contextmanager
def mlflow_server(settings: Settings, *, port: int, wait: float = 90.0) -> Iterator[str]:
    """MLflow's server on the store of the settings, at the address that this yields.

    A tracking URI that is a server is yielded as it is. The server ends with the block.

    Raises: InvalidInput where the port is taken, TrialFailed where the server does not come up.
    """
    if settings.tracking_uri.startswith(("http://", "https://")):
        yield settings.tracking_uri
        return
    if is_open(port):
        raise InvalidInput(f"port {port} is taken: expected --port to be a free one")
    address = f"http://{HOST}:{port}"
    command = [sys.executable, "-m", "mlflow", "server", "--host", HOST, "--port", str(port)]
    command += ["--backend-store-uri", settings.tracking_uri, "--workers", "1"]
    command += ["--artifacts-destination", (settings.home / "mlartifacts").as_uri()]
    # Without this it starts about ten processes for jobs that nobody here submits.
    environment = {**os.environ, "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
    settings.home.mkdir(parents=True, exist_ok=True, mode=0o700)
    log = settings.home / "mlflow-server.log"
    with log.open("w", encoding="utf-8") as output:
        server = subprocess.Popen(
            command,
            env=environment,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=settings.home,
            start_new_session=True,  # Ctrl-C is for us; we end it ourselves
        )
    try:
        _until_it_answers(server, address, log=log, wait=wait)
        yield address
    finally:
        server.terminate()
        try:
            server.wait(10)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


def _until_it_answers(
    server: subprocess.Popen[bytes], address: str, *, log: Path, wait: float
) -> None:
    deadline = time.monotonic() + wait
    while not answers(f"{address}/health"):
        if server.poll() is not None or time.monotonic() > deadline:
            raise TrialFailed(f"MLflow's server did not come up; its log is {log}")
        time.sleep(0.2)


def addresses(mlflow: str) -> dict[str, str | None]:
    """Where to look: MLflow's views of all sweeps, and Ray's dashboard while a sweep runs."""
    ray = f"http://{HOST}:{RAY_DASHBOARD_PORT}" if is_open(RAY_DASHBOARD_PORT) else None
    return {"mlflow": mlflow, "ray": ray}
