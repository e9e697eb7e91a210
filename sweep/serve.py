"""MLflow's server on loopback, and the addresses of Ray's dashboards on this
machine.
"""

import errno
import hashlib
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
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from sweep import access
from sweep.settings import Settings
from trainables.errors import InvalidInput, TrialFailed, system_words
from trainables.io.files import make_folder
from trainables.system import processes

HOST = "127.0.0.1"
SHARED_VIEW = "mlflow.sharedViewState."  # MLflow's tag of a view, before its key
TOKEN = "SWEEP_UI_TOKEN"  # the variable that MLflow's server reads its token from
RAY_DASHBOARD_PORTS = range(8265, 8270)  # the preferred port and alternatives
_DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))
_PACKAGES = str(Path(__file__).parents[1])
_PATIENCE = 90.0  # seconds for MLflow's server to answer


@dataclass(frozen=True)
class Server:
    """A web server: its `address`, without a slash at its end, and the token that it
    asks for, "" where it asks for none that is known.
    """

    address: str
    token: str = ""

    def link(self, page: str = "/") -> str:
        """The address of a page, to be opened in a browser."""
        path, sign, fragment = page.partition("#")
        fields = f"?{access.FIELD}={self.token}" if self.token else ""
        return f"{self.address}{path}{fields}{sign}{fragment}"


@contextmanager
def mlflow_server(settings: Settings, *, port: int, token: str) -> Iterator[Server]:
    """MLflow's server on the store of the settings, which asks for `token`.

    A tracking URI that is a server is yielded as it is. So is a server that this user
    has started at the port for the same home and store, with its own token. A server
    that was started here ends with the block.

    Raises: InvalidInput where the port is taken, TrialFailed where the server does not
    come up.
    """
    if settings.tracking_uri.startswith(("http://", "https://")):
        yield Server(settings.tracking_uri)
        return
    note = settings.home / f".ui-{port}.json"
    try:
        listening = socket.create_server((HOST, port))
    except OSError as problem:
        if (found := _running(settings, port, note)) is None:
            raise _no_port(port, problem) from None
        yield found
        return
    found = Server(f"http://{HOST}:{port}", token)
    environment = {
        "MLFLOW_DISABLE_TELEMETRY": "true",
        # No arguments, which every user of this machine could read.
        "MLFLOW_TRACKING_URI": settings.tracking_uri,
        "SWEEP_HOME": str(settings.home),
        TOKEN: token,
        "PYTHONPATH": os.pathsep.join(
            filter(None, (_PACKAGES, os.environ.get("PYTHONPATH")))
        ),
    }
    make_folder(settings.home)
    log = settings.home / "mlflow-server.log"
    with listening, log.open("w", encoding="utf-8") as output:
        server = subprocess.Popen(
            # -P: no folder of the home is taken for a package.
            [
                sys.executable,
                "-P",
                "-m",
                "sweep.tracking.server",
                str(listening.fileno()),
            ],
            env={**os.environ, **environment},
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=settings.home,
            pass_fds=[listening.fileno()],
            start_new_session=True,  # Ctrl-C is for us; we end it ourselves
        )
    try:
        deadline = time.monotonic() + _PATIENCE
        while _status(f"{found.address}/health", token) != 200:
            if server.poll() is not None or time.monotonic() > deadline:
                raise TrialFailed(f"MLflow's server did not start; its log is {log}")
            time.sleep(0.1)
        note.touch(mode=0o600)
        note.write_text(json.dumps({"token": token, "store": _digest(settings)}))
        yield found
    finally:
        _end_group(server)
        note.unlink(missing_ok=True)


def _running(settings: Settings, port: int, note: Path) -> Server | None:
    """The server of an earlier `sweep ui` at this port, for the same home and store. No
    other user's process is asked, which would learn the token.
    """
    with suppress(OSError, ValueError, KeyError, TypeError):
        noted = json.loads(note.read_text())
        found = Server(f"http://{HOST}:{port}", noted["token"])
        is_same = noted["store"] == _digest(settings) and processes.is_own_port(
            HOST, port
        )
        if is_same and _status(f"{found.address}/health", found.token) == 200:
            return found
    return None


def _digest(settings: Settings) -> str:
    """Stands for the store, whose address may have a password."""
    return hashlib.sha256(settings.tracking_uri.encode()).hexdigest()


def _no_port(port: int, problem: OSError) -> InvalidInput:
    if problem.errno != errno.EADDRINUSE:
        why = f"cannot be used ({system_words(problem)})"
    elif processes.is_own_port(HOST, port):
        why = "is taken by a process of yours that is no `sweep ui` of this home and store"
    else:
        why = "is taken by another user's process" if _is_open(port) else "is taken"
    free = next(
        (each for each in range(max(port, 1_023) + 1, 65_536) if not _is_open(each)),
        None,
    )
    return InvalidInput(
        f"port {port} {why}: expected --port to be a free one, such as {free}"
    )


def mlflow_experiment(server: Server) -> dict[str, Any] | None:
    """The experiment of all sweeps at an MLflow server, as its REST API has it; None
    where there is none yet, or something else answers.
    """
    query = f"{server.address}/api/2.0/mlflow/experiments/get-by-name?experiment_name=sweeps"
    try:
        with _open(query, timeout=5, token=server.token) as answer:
            found = json.load(answer).get("experiment")
    except (OSError, HTTPException, ValueError, AttributeError):
        return None
    return found if isinstance(found, dict) else None


def ray_dashboards() -> list[str]:
    """Addresses of the running dashboards of this user's Ray, one for each running
    sweep. A page of another user would get the token of Ray that is typed into it.
    """
    own = [
        f"http://{HOST}:{port}"
        for port in RAY_DASHBOARD_PORTS
        if _is_open(port) and processes.is_own_port(HOST, port)
    ]
    return [address for address in own if _status(address) is not None]


def _is_open(port: int) -> bool:
    """Whether something listens at a port of the loopback interface."""
    with socket.socket() as probe:
        probe.settimeout(0.5)
        return probe.connect_ex((HOST, port)) == 0


def _open(url: str, *, timeout: float, token: str = "") -> Any:
    """An address of this machine is opened without the environment's proxy, which would
    look for it on its own machine.
    """
    is_here = urlsplit(url).hostname == HOST
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    request = urllib.request.Request(url, headers=headers)
    return (_DIRECT.open if is_here else urllib.request.urlopen)(
        request, timeout=timeout
    )


def _status(url: str, token: str = "") -> int | None:
    """A web server's status for a page; None where nothing that speaks HTTP answers."""
    try:
        with _open(url, timeout=2, token=token) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as refusal:
        return refusal.code
    # The latter of a server that speaks something else.
    except (OSError, HTTPException):
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
