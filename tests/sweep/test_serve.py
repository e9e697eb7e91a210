"""MLflow's server for `sweep ui`: it asks for its token, ours ends with its block, and
those of others are left alone.
"""

import json
import os
import shutil
import socket
import stat
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from contextlib import contextmanager, suppress
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from sweep import serve
from sweep.cli import run
from tests.refusals import refused
from trainables.errors import TrialFailed
from trainables.system import processes

_EXPERIMENT = "/api/2.0/mlflow/experiments/get-by-name"
_PAGES = ("/", "/health", "/version", "/static-files/static/js/main.js", _EXPERIMENT)
_API = "/api/2.0/mlflow-artifacts/artifacts"


def status_of(url, *, method="GET", content=None, cookie="", host=None):
    """The status of a request and its headers, of the first answer: no redirect is
    followed.
    """

    class Stay(urllib.request.HTTPRedirectHandler):
        def redirect_request(self, *args):
            return None

    headers = {"Cookie": cookie} if cookie else {}
    headers |= {"Host": host} if host else {}
    request = urllib.request.Request(url, data=content, headers=headers, method=method)
    try:
        with urllib.request.build_opener(Stay).open(request, timeout=30) as answer:
            return answer.status, answer.headers
    except urllib.error.HTTPError as refusal:
        return refusal.code, refusal.headers


@pytest.fixture
def free_port():
    """A port at which nothing listens now."""
    with socket.socket() as probe:
        probe.bind((serve.HOST, 0))
        return probe.getsockname()[1]


def as_nobody(program, *arguments):
    """What a Python program of another user prints."""
    command = [
        "setpriv",
        "--reuid=65534",
        "--regid=65534",
        "--clear-groups",
        "/usr/bin/env",
    ]
    python = shutil.which("python3", path="/usr/bin:/bin") or sys.executable
    done = subprocess.run(
        [*command, "-i", python, "-c", program, *arguments],
        capture_output=True,
        text=True,
        cwd="/",
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def can_be_nobody():
    if os.getuid() != 0 or shutil.which("setpriv") is None:
        return False
    with suppress(AssertionError, OSError):
        return as_nobody("import os; print(os.getuid())") == "65534"
    return False


@contextmanager
def web_server(pages):
    """A server with JSON `pages` by path, without their query; 404 for any other. Its
    port.
    """

    class Pages(BaseHTTPRequestHandler):
        def do_GET(self):
            page = pages.get(self.path.partition("?")[0])
            self.send_response(404 if page is None else 200)
            self.end_headers()
            self.wfile.write(json.dumps(page).encode())

        def log_message(self, *args):
            """Nothing is printed."""

    server = HTTPServer((serve.HOST, 0), Pages)
    thread = threading.Thread(
        target=server.serve_forever, kwargs={"poll_interval": 0.01}
    )
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_servers_of_this_machine_are_not_asked_through_a_proxy(
    silent_port, monkeypatch
):
    """It would look for them on its own machine."""
    monkeypatch.setattr(
        "urllib.request._opener", None
    )  # it keeps what it read at its first use
    monkeypatch.setenv("http_proxy", f"http://{serve.HOST}:{silent_port}")
    with web_server({_EXPERIMENT: {"experiment": {"experiment_id": "4"}}}) as port:
        address = f"http://{serve.HOST}:{port}"
        found = serve.mlflow_experiment(serve.Server(address))
        assert found == {"experiment_id": "4"}


def test_a_tracking_server_of_the_settings_is_used_as_it_is(settings):
    remote = replace(settings, tracking_uri="http://mlflow.example:5000")
    with serve.mlflow_server(remote, port=1, token="t") as found:
        assert found == serve.Server("http://mlflow.example:5000")
        assert found.link("/#/experiments/1/runs").endswith(
            "example:5000/#/experiments/1/runs"
        )
    assert not settings.home.exists()


def test_the_server_answers_nobody_without_its_token(settings, free_port):
    """Pages, the API, artifacts and static files, of MLflow's real server."""
    from mlflow import MlflowClient

    with serve.mlflow_server(settings, port=free_port, token="s3cret-token") as found:
        assert found.address == f"http://{serve.HOST}:{free_port}"
        private = settings.artifacts_dir / "private.txt"
        private.write_text("for the owner alone")
        asked = [(f"{found.address}{page}", "GET", None) for page in _PAGES]
        asked += [
            (f"{found.address}{_API}/private.txt", "GET", None),
            (f"{found.address}{_API}/from_outside.txt", "PUT", b"x"),
            (
                f"{found.address}/ajax-api/2.0/mlflow/experiments/search?max_results=1",
                "GET",
                None,
            ),
            (
                f"{found.address}/api/2.0/mlflow/experiments/create",
                "POST",
                b'{"name": "x"}',
            ),
            (f"{found.address}/graphql", "POST", b"{}"),
            (f"{found.address}/?token=another", "GET", None),
        ]
        assert {status_of(u, method=m, content=c)[0] for u, m, c in asked} == {401}
        assert not (settings.artifacts_dir / "from_outside.txt").exists()
        if can_be_nobody():
            program = (
                "import sys, urllib.request as r, urllib.error as e\nfor url in"
                " sys.argv[1:]:\n    try: print(r.urlopen(url).status)\n    except"
                " e.HTTPError as refused: print(refused.code)\n"
            )
            said = as_nobody(
                program, *(url for url, method, _ in asked if method == "GET")
            )
            assert set(said.split()) == {"401"}

        # The link leads to the same page without the token, and the cookie opens the
        # others.
        status, headers = status_of(
            found.link("/#/experiments/1/runs").partition("#")[0]
        )
        assert (status, headers["Location"]) == (303, "/")
        cookie = headers["Set-Cookie"].partition(";")[0]
        assert status_of(f"{found.address}/", cookie=cookie)[0] == 200
        assert status_of(f"{found.address}{_API}/private.txt", cookie=cookie)[0] == 200
        # MLflow's own checks of the host are still there.
        assert (
            status_of(f"{found.address}/", cookie=cookie, host="evil.example")[0] == 403
        )

        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("MLFLOW_TRACKING_TOKEN", found.token)
            client = MlflowClient(found.address)
            made = client.create_run(client.create_experiment("by a script"))
            client.log_metric(made.info.run_id, "ser", 0.5)
            client.log_text(made.info.run_id, "words", "words.txt")
        (words,) = settings.artifacts_dir.rglob("words.txt")
        assert words.read_text() == "words"

        # A second start keeps it, with its own token; another store is another server.
        with serve.mlflow_server(settings, port=free_port, token="new") as kept:
            assert kept == found
        other = replace(settings, tracking_uri=f"{settings.tracking_uri}2")
        with (
            refused(f"^port {free_port} is taken by a process of yours"),
            serve.mlflow_server(other, port=free_port, token="new"),
        ):
            pass
        (note,) = settings.home.glob(".ui-*.json")
        assert stat.S_IMODE(note.stat().st_mode) == 0o600
    assert not list(settings.home.glob(".ui-*"))


def test_a_process_at_the_port_that_does_not_know_the_token_is_in_the_way(settings):
    """Even where an earlier server at the port has left its note."""
    mine = (settings.home / "mlartifacts").as_uri()
    with web_server({_EXPERIMENT: {"experiment": {"artifact_location": mine}}}) as port:
        settings.home.mkdir()
        note = {"token": "t", "store": serve._digest(settings)}
        (settings.home / f".ui-{port}.json").write_text(json.dumps(note))
        with (
            refused(
                f"^port {port} is taken by a process of yours.*--port to be a free one,"
                f" such"
            ),
            serve.mlflow_server(settings, port=port, token="new"),
        ):
            pass


@pytest.mark.skipif(not can_be_nobody(), reason="needs another user")
def test_a_port_of_another_user_is_never_ours(settings, free_port, monkeypatch):
    """It is not even asked, which would tell it the token, and it is no dashboard of
    Ray.
    """
    program = (
        "import http.server, sys\nclass Yes(http.server.BaseHTTPRequestHandler):\n"
        "    def do_GET(self):\n        print(self.headers['Authorization'],"
        " flush=True)\n        self.send_response(200); self.end_headers()\n    def"
        " log_message(self, *args): pass\nserver = http.server.HTTPServer(('127.0.0.1',"
        " int(sys.argv[1])), Yes)\nprint('ready', flush=True); server.serve_forever()\n"
    )
    command = [
        "setpriv",
        "--reuid=65534",
        "--regid=65534",
        "--clear-groups",
        "/usr/bin/env",
        "-i",
    ]
    python = shutil.which("python3", path="/usr/bin:/bin") or sys.executable
    with subprocess.Popen(
        [*command, python, "-c", program, str(free_port)],
        stdout=subprocess.PIPE,
        text=True,
    ) as other:
        try:
            assert other.stdout.readline() == "ready\n"
            settings.home.mkdir()
            note = {"token": "t", "store": serve._digest(settings)}
            (settings.home / f".ui-{free_port}.json").write_text(json.dumps(note))
            with (
                refused(
                    f"^port {free_port} is taken by another user's process: expected"
                    f" --port"
                ),
                serve.mlflow_server(settings, port=free_port, token="new"),
            ):
                pass
            monkeypatch.setattr(serve, "RAY_DASHBOARD_PORTS", [free_port])
            assert serve.ray_dashboards() == []
        finally:
            other.kill()
        assert other.stdout.read() == ""


def test_a_dashboard_of_this_user_is_found(monkeypatch):
    with web_server({}) as port:
        monkeypatch.setattr(serve, "RAY_DASHBOARD_PORTS", [port])
        assert serve.ray_dashboards() == [f"http://{serve.HOST}:{port}"]
        assert processes.is_own_port(serve.HOST, port)
    assert not processes.is_own_port(serve.HOST, port)


@pytest.mark.parametrize(
    "page", [None, {}, {"experiment": None}, [1], "text", {"experiment": 3}]
)
def test_what_is_no_answer_of_mlflow_has_no_experiment(page):
    with web_server({_EXPERIMENT: page}) as port:
        assert (
            serve.mlflow_experiment(serve.Server(f"http://{serve.HOST}:{port}")) is None
        )


@pytest.mark.parametrize("speaks", [True, False])
def test_a_server_that_speaks_something_else_is_in_the_way(
    settings, speaks, monkeypatch, capsys
):
    """Or nothing. One line of the command, exit code 2."""

    def speak(server):
        with suppress(OSError):
            while True:
                caller, _ = server.accept()
                # A caller that closes without reading resets the connection.
                with caller, suppress(ConnectionError):
                    caller.sendall(b"SSH-2.0-OpenSSH_9.2\r\n")
                    caller.recv(1_000)

    ask = serve._open
    monkeypatch.setattr(
        serve, "_open", lambda url, timeout, token: ask(url, timeout=timeout / 10)
    )
    monkeypatch.setenv("SWEEP_HOME", str(settings.home))
    with socket.create_server((serve.HOST, 0)) as server:
        if speaks:
            threading.Thread(target=speak, args=(server,), daemon=True).start()
        port = server.getsockname()[1]
        assert run(["ui", "--port", str(port)]) == 2
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert f"port {port} is taken by a process of yours" in line


def test_a_server_that_ends_names_its_log(settings, free_port, monkeypatch):
    monkeypatch.setattr(serve.sys, "executable", "/bin/false")
    log = settings.home / "mlflow-server.log"
    with (
        refused(f"did not start; its log is {log}$", TrialFailed),
        serve.mlflow_server(settings, port=free_port, token="s3cret-token"),
    ):
        pass


def test_the_password_of_a_store_and_the_token_are_in_no_list_of_processes(
    settings, free_port, monkeypatch
):
    """Every user of the machine can read the arguments of a process, but not its
    environment.
    """
    started = []

    def popen(command, *, env, **options):
        started.append((command, env))
        raise TrialFailed("not started in this test")

    monkeypatch.setattr(serve.subprocess, "Popen", popen)
    uri = "postgresql://ann:s3cret@127.0.0.1/runs"
    with (
        pytest.raises(TrialFailed),
        serve.mlflow_server(
            replace(settings, tracking_uri=uri), port=free_port, token="s3cret-token"
        ),
    ):
        pass
    ((command, environment),) = started
    assert "s3cret" not in " ".join(command)
    assert environment["MLFLOW_TRACKING_URI"] == uri
