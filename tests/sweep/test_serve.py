"""MLflow's server for `sweep ui`: ours ends with its block, those of others are left alone."""

import json
import socket
import threading
from contextlib import contextmanager, suppress
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from sweep import serve
from sweep.cli import run
from tests.refusals import refused
from trainables.errors import TrialFailed

_EXPERIMENT = "/api/2.0/mlflow/experiments/get-by-name"


@contextmanager
def web_server(pages):
    """A server with JSON `pages` by path, without their query; 404 for any other. Its port."""

    class Pages(BaseHTTPRequestHandler):
        def do_GET(self):
            page = pages.get(self.path.partition("?")[0])
            self.send_response(404 if page is None else 200)
            self.end_headers()
            self.wfile.write(json.dumps(page).encode())

        def log_message(self, *args):
            """Nothing is printed."""

    server = HTTPServer((serve.HOST, 0), Pages)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_servers_of_this_machine_are_not_asked_through_a_proxy(silent_port, monkeypatch):
    """It would look for them on its own machine."""
    monkeypatch.setattr("urllib.request._opener", None)  # it keeps what it read at its first use
    monkeypatch.setenv("http_proxy", f"http://{serve.HOST}:{silent_port}")
    with web_server({_EXPERIMENT: {"experiment": {"experiment_id": "4"}}}) as port:
        address = f"http://{serve.HOST}:{port}"
        assert serve.mlflow_experiment(address) == {"experiment_id": "4"}


def test_a_tracking_server_of_the_settings_is_used_as_it_is(settings):
    remote = replace(settings, tracking_uri="http://mlflow.example:5000")
    with serve.mlflow_server(remote, port=1) as address:
        assert address == "http://mlflow.example:5000"
    assert not settings.home.exists()


def test_a_server_of_the_same_home_is_shared_and_any_other_is_in_the_way(settings):
    mine = (settings.home / "mlartifacts").as_uri()
    pages = {_EXPERIMENT: {"experiment": {"artifact_location": mine}}}
    with web_server(pages) as port, serve.mlflow_server(settings, port=port) as address:
        assert address == f"http://{serve.HOST}:{port}"
    for others in ({_EXPERIMENT: {"experiment": {"artifact_location": "file:///x"}}}, {}):
        with (
            web_server(others) as port,
            refused(f"^port {port} is taken: expected --port"),
            serve.mlflow_server(settings, port=port),
        ):
            pass


@pytest.mark.parametrize("page", [None, {}, {"experiment": None}, [1], "text", {"experiment": 3}])
def test_what_is_no_answer_of_mlflow_has_no_experiment(page):
    with web_server({_EXPERIMENT: page}) as port:
        assert serve.mlflow_experiment(f"http://{serve.HOST}:{port}") is None


@pytest.mark.parametrize("speaks", [True, False])
def test_a_server_that_speaks_something_else_is_in_the_way(settings, speaks, monkeypatch, capsys):
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
    monkeypatch.setattr(serve, "_open", lambda url, timeout: ask(url, timeout=timeout / 10))
    monkeypatch.setenv("SWEEP_HOME", str(settings.home))
    with socket.create_server((serve.HOST, 0)) as server:
        if speaks:
            threading.Thread(target=speak, args=(server,), daemon=True).start()
        port = server.getsockname()[1]
        assert run(["ui", "--port", str(port)]) == 2
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert f"port {port} is taken: expected --port" in line


def test_a_server_that_ends_names_its_log(settings, silent_port, monkeypatch):
    monkeypatch.setattr(serve.sys, "executable", "/bin/false")
    log = settings.home / "mlflow-server.log"
    with (
        refused(f"did not start; its log is {log}$", TrialFailed),
        serve.mlflow_server(settings, port=silent_port),
    ):
        pass


def test_the_password_of_a_store_is_in_no_list_of_processes(settings, silent_port, monkeypatch):
    """Every user of the machine can read the arguments of a process, but not its environment."""
    started = []

    def popen(command, *, env, **options):
        started.append((command, env))
        raise TrialFailed("not started in this test")

    monkeypatch.setattr(serve.subprocess, "Popen", popen)
    uri = "postgresql://ann:s3cret@127.0.0.1/runs"
    with (
        pytest.raises(TrialFailed),
        serve.mlflow_server(replace(settings, tracking_uri=uri), port=silent_port),
    ):
        pass
    ((command, environment),) = started
    assert "s3cret" not in " ".join(command)
    assert environment["MLFLOW_BACKEND_STORE_URI"] == uri
